//! The grammar of a response with tool calls.

use serde_json::{Value, json};
use wf_engine::{
    CallGrammar, Frontend, Grammar, GrammarSource, Literal, ModelText, NoCall, ToolCallGrammar,
};
use wf_text::ToolFormat;

use super::{Tool, ToolChoice, Tools};
use crate::error::ApiError;
use crate::generation::constraint::{Constraint, grammar_error};
use crate::models::ServedModel;

/// Maximum number of calls in one response: a small model may not find the end by itself.
const MAX_CALLS: usize = 8;

impl Tools {
    /// Compiles the grammar of calls, and of what may stand in their place. There is none if the output is
    /// free.
    pub(crate) async fn compile(
        &mut self,
        model: &ServedModel,
        content: Option<Constraint>,
    ) -> Result<Option<Grammar>, ApiError> {
        let Some(calls) = self.call_grammar(model.frontend.text(), content)? else {
            return Ok(None);
        };
        self.is_constrained = true;
        let tools = self.clone();
        Ok(Some(model.run(move |frontend| tools.compile_calls(frontend, calls)).await??))
    }

    fn compile_calls(
        &self,
        frontend: &Frontend,
        calls: ToolCallGrammar,
    ) -> Result<Grammar, ApiError> {
        let schemas: Vec<_> = calls.tools.iter().map(|tool| tool.schema.clone()).collect();
        frontend.compile(&GrammarSource::ToolCalls(calls)).map_err(|error| {
            // Compiling each schema alone shows which of them is at fault.
            for schema in schemas {
                let tool = self.tools.iter().find(|tool| tool.parameters == schema);
                let alone = frontend.compile(&GrammarSource::JsonSchema(schema));
                if let (Some(tool), Err(error)) = (tool, alone) {
                    return grammar_error(&tool.field, error);
                }
            }
            grammar_error("tools", error)
        })
    }

    fn call_grammar(
        &self,
        text: &ModelText,
        content: Option<Constraint>,
    ) -> Result<Option<ToolCallGrammar>, ApiError> {
        let is_auto = self.choice.is_auto();
        let no_call = match content {
            // There is no text that could be constrained.
            _ if !is_auto => NoCall::Forbidden,
            Some(Constraint { source: GrammarSource::JsonSchema(schema), .. }) => {
                NoCall::Json(schema)
            }
            Some(Constraint { field, .. }) => {
                let what = "only JSON constraints can be combined with tools";
                return Err(ApiError::at(field, what));
            }
            None if self.parallel && !self.tools.iter().any(|tool| tool.strict) => return Ok(None),
            None => NoCall::Text,
        };
        let arguments = |tool: &Tool| match is_auto && !tool.strict {
            // A voluntary call follows its schema only if the tool is strict.
            true => json!({"type": "object"}),
            false => tool.parameters.clone(),
        };
        let tools = self.tools.iter().filter(|tool| self.choice.allows(tool));
        let tools = tools.map(|tool| (tool.name.as_str(), arguments(tool)));
        let mut calls = ToolCallGrammar { no_call, ..grammar_of_calls(text, tools) };
        if !self.parallel || matches!(self.choice, ToolChoice::Named(_)) {
            calls.max_calls = 1;
        }
        Ok(Some(calls))
    }
}

/// Returns the grammar of calls of these tools, each a name and a schema, with the markers this model has.
fn grammar_of_calls<'a>(
    text: &ModelText,
    tools: impl Iterator<Item = (&'a str, Value)>,
) -> ToolCallGrammar {
    let (format, specials) = (text.tool_format(), text.tool_call_tokens());
    let literal = |marker: &str| match text.tokenizer.id_of(marker) {
        Some(id) if specials.contains(&id) => Literal::Token(id),
        _ => Literal::Text(marker.to_owned()),
    };
    let plain = |text: &str| Literal::Text(text.to_owned());
    let trigger = || format.call_start().map(literal);
    let (trigger, begin, separator, end, max_calls) = match format {
        ToolFormat::Hermes => {
            let separator = [plain("\n")].into_iter().chain(trigger()).collect();
            (trigger(), "", separator, "", MAX_CALLS)
        }
        ToolFormat::Mistral => (trigger(), "[", vec![plain(", ")], "]", MAX_CALLS),
        // Templates of this kind have room for one call.
        ToolFormat::Llama | ToolFormat::Json => (None, "", Vec::new(), "", 1),
    };
    let (newline, key) =
        (if format == ToolFormat::Hermes { "\n" } else { "" }, format.arguments_key());
    let call = |(name, schema)| CallGrammar {
        begin: format!("{newline}{{\"name\": {}, \"{key}\": ", Value::from(name)),
        schema,
        end: [Literal::Text(format!("}}{newline}"))]
            .into_iter()
            .chain(format.call_end().map(literal))
            .collect(),
    };
    ToolCallGrammar {
        trigger,
        begin: begin.to_owned(),
        tools: tools.map(call).collect(),
        separator,
        end: end.to_owned(),
        max_calls,
        no_call: NoCall::Forbidden,
    }
}
