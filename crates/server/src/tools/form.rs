//! The form of replies with calls, as a grammar.

use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use wf_engine::{
    BadGrammar, Calls, Fixed, Frontend, Grammar, GrammarSource, Instead, ModelText, ToolCall,
};
use wf_text::ToolFormat;

use super::{Choice, Tool, Tools};
use crate::app::ServedModel;
use crate::asked::Asked;
use crate::error::ApiError;
use crate::structured::Structured;

/// The most calls that a reply must make room for: a small model may not find the end by itself.
const MOST_CALLS: usize = 8;

impl Asked {
    /// Makes the grammar of calls and of what may stand in their place, if there is one.
    pub(crate) async fn compile_tools(&mut self, model: &ServedModel) -> Result<(), ApiError> {
        let Some(tools) = &mut self.tools else { return Ok(()) };
        let text = model.frontend.text();
        self.generate.shown_specials = text.tool_marks();
        let Some(calls) = tools.form(text, self.structured.take())? else { return Ok(()) };
        tools.is_certain = true;
        let (frontend, tools) = (model.frontend.clone(), tools.clone());
        let compiled = spawn_blocking(move || tools.compile(&frontend, calls));
        self.generate.grammar = Some(compiled.await.map_err(|_| ApiError::internal())??);
        Ok(())
    }
}

impl Tools {
    fn compile(&self, frontend: &Frontend, calls: Calls) -> Result<Grammar, ApiError> {
        let named = |field: &str, error: BadGrammar| match error {
            BadGrammar::Source(what) => ApiError::field(field, format!("{field}: {what}")),
            BadGrammar::Busy(_) => ApiError::busy(error.to_string()),
        };
        let schemas: Vec<_> = calls.tools.iter().map(|tool| tool.arguments.clone()).collect();
        frontend.compile(&GrammarSource::Calls(calls)).map_err(|error| {
            // Which of them is it?
            for schema in schemas {
                let tool = self.offered.iter().find(|tool| tool.parameters == schema);
                let alone = frontend.compile(&GrammarSource::JsonSchema(schema));
                if let (Some(tool), Err(error)) = (tool, alone) {
                    return named(&tool.field, error);
                }
            }
            named("tools", error)
        })
    }

    /// What replies must look like; nothing if they may be anything.
    fn form(
        &self,
        text: &ModelText,
        content: Option<Structured>,
    ) -> Result<Option<Calls>, ApiError> {
        let (tools, instead): (Vec<&Tool>, _) = match (&self.choice, content) {
            (Choice::None, _) => return Ok(None),
            // There is no text that could have a form.
            (Choice::Required, _) => (self.offered.iter().collect(), Instead::Nothing),
            (Choice::Named(name), _) => {
                let named = self.offered.iter().filter(|tool| tool.name == *name);
                (named.collect(), Instead::Nothing)
            }
            (Choice::Auto, Some(Structured { source: GrammarSource::JsonSchema(schema), .. })) => {
                (self.offered.iter().collect(), Instead::Json(schema))
            }
            (Choice::Auto, Some(Structured { field, .. })) => {
                let message = format!(
                    "{field}: where tools may be called, the form of a reply can be JSON alone"
                );
                return Err(ApiError::field(field, message));
            }
            (Choice::Auto, None) => {
                if self.parallel && !self.offered.iter().any(|tool| tool.strict) {
                    return Ok(None);
                }
                (self.offered.iter().collect(), Instead::Text)
            }
        };
        let is_auto = self.choice == Choice::Auto;
        let arguments = |tool: &Tool| match is_auto && !tool.strict {
            // What the model chooses to call is held to a schema only if that is asked for.
            true => json!({"type": "object"}),
            false => tool.parameters.clone(),
        };
        let several = self.parallel && !matches!(self.choice, Choice::Named(_));
        let mut calls =
            Layout::of(text).calls(tools.iter().map(|&t| (t.name.as_str(), arguments(t))));
        calls.instead = instead;
        if !several {
            calls.most = 1;
        }
        Ok(Some(calls))
    }
}

/// A format, with marks as this model has them.
struct Layout {
    format: ToolFormat,
    mark: Option<Fixed>,
    end_mark: Option<Fixed>,
}

impl Layout {
    fn of(text: &ModelText) -> Self {
        let format = text.tool_format();
        let specials = text.tool_marks();
        let fixed = |mark: &str| match text.tokenizer.id_of(mark) {
            Some(id) if specials.contains(&id) => Fixed::Token(id),
            _ => Fixed::Text(mark.to_owned()),
        };
        Self { format, mark: format.mark().map(fixed), end_mark: format.end_mark().map(fixed) }
    }

    fn calls<'a>(&self, tools: impl Iterator<Item = (&'a str, Value)>) -> Calls {
        let text = |text: &str| Fixed::Text(text.to_owned());
        let mark = || self.mark.clone();
        let (mark, before, between, after, most) = match self.format {
            ToolFormat::Hermes => {
                let between = [text("\n")].into_iter().chain(mark()).collect();
                (mark(), "", between, "", MOST_CALLS)
            }
            ToolFormat::Mistral => (mark(), "[", vec![text(", ")], "]", MOST_CALLS),
            // Templates of this kind have a place for one call.
            ToolFormat::Llama | ToolFormat::Json => (None, "", Vec::new(), "", 1),
        };
        let tools = tools.map(|(name, arguments)| self.call(name, arguments)).collect();
        let (before, after) = (before.to_owned(), after.to_owned());
        Calls { mark, before, tools, between, after, most, instead: Instead::Nothing }
    }

    fn call(&self, name: &str, arguments: Value) -> ToolCall {
        let (start, end) = if self.format == ToolFormat::Hermes { ("\n", "\n") } else { ("", "") };
        let (name, key) = (Value::from(name), self.format.arguments_name());
        let closing = Fixed::Text(format!("}}{end}"));
        ToolCall {
            before: format!("{start}{{\"name\": {name}, \"{key}\": "),
            arguments,
            after: [closing].into_iter().chain(self.end_mark.clone()).collect(),
        }
    }
}
