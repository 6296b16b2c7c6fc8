//! Chat templates: messages to prompt, as Transformers renders them.
//!
//! Templates come with model files and are not trusted: they have no loaders, no clock, no environment, and
//! limits on steps, depth and output. Messages come from users and are not trusted either: text that reads as a
//! special token is marked before the template sees it (see [`SpecialTexts`]).

mod date;
mod engine;
mod json;
mod python;
mod words;

use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::special_text::free_mark;
use crate::tools::{ToolFormat, ToolListPosition, for_template, in_plain_text, uses_tools};
use crate::{ChatMessage, Prompt, SpecialTexts, TextError};
use date::Date;

/// Maximum nesting of values that can be printed. JSON from a request is at most 128 deep.
const MAX_PRINT_DEPTH: usize = 200;

/// Maximum width of indents and fields.
const MAX_WIDTH: usize = 999;

/// Returns the remaining depth one level down, or an error at the bottom.
fn deeper(depth: usize) -> Result<usize, minijinja::Error> {
    depth.checked_sub(1).ok_or_else(|| {
        let what = format!("a value nested more than {MAX_PRINT_DEPTH} deep cannot be printed");
        minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, what)
    })
}

/// Options of rendering.
#[derive(Clone, Debug, Default)]
pub struct RenderOptions {
    /// Ends the prompt with the header of an assistant message.
    pub add_generation_prompt: bool,
    /// Leaves the last message open for continuation.
    pub continue_final: bool,
    /// Text of the begin token, as `bos_token`.
    pub bos_token: Option<String>,
    /// Text of the end token, as `eos_token`.
    pub eos_token: Option<String>,
    /// Date as `YYYY-MM-DD`. Without it `strftime_now` is undefined, and templates that test for it use a date of
    /// their own.
    pub date: Option<String>,
    /// Tools, as `tools`.
    pub tools: Option<Value>,
    /// Additional variables of the template, such as `enable_thinking`.
    pub extra: Map<String, Value>,
    /// Texts of special tokens, from [`Tokenizer::special_texts`](crate::Tokenizer::special_texts).
    pub specials: SpecialTexts,
}

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    engine: engine::Engine,
    writes_tools: OnceLock<bool>,
}

/// Name of a tool that probes whether a template writes tools.
const PROBE: &str = "probe_whether_tools_are_written";

/// Names that `extra` may not redefine.
const RESERVED: [&str; 10] = [
    "messages",
    "add_generation_prompt",
    "bos_token",
    "eos_token",
    "tools",
    "strftime_now",
    "raise_exception",
    "namespace",
    "range",
    "dict",
];

impl ChatTemplate {
    /// Parses the Jinja source of a chat template.
    pub fn new(source: &str) -> Result<Self, TextError> {
        Ok(ChatTemplate { engine: engine::Engine::new(source)?, writes_tools: OnceLock::new() })
    }

    /// Returns the format in which a model with this template writes tool calls.
    pub fn tool_format(&self) -> ToolFormat {
        match self.writes_tools() {
            true => ToolFormat::from_template(self.engine.source()),
            false => ToolFormat::default(),
        }
    }

    /// Returns `true` if the template writes tools.
    fn writes_tools(&self) -> bool {
        *self.writes_tools.get_or_init(|| {
            let function = serde_json::json!({"name": PROBE, "description": PROBE,
                "parameters": {"type": "object", "properties": {}}});
            let tools = serde_json::json!([{"type": "function", "function": function}]);
            let options = RenderOptions { tools: Some(tools), ..RenderOptions::default() };
            let prompt = self.render(&[ChatMessage::new("user", "x")], &options);
            prompt.is_ok_and(|prompt| prompt.text().contains(PROBE))
        })
    }

    /// Renders messages.
    pub fn render(
        &self,
        messages: &[ChatMessage],
        options: &RenderOptions,
    ) -> Result<Prompt, TextError> {
        for name in RESERVED {
            if options.extra.contains_key(name) {
                return Err(TextError::ReservedArgument(name));
            }
        }
        let date = options.date.as_deref().map(Date::parse).transpose()?;
        let mut plain = UserInput {
            messages: messages.iter().map(ChatMessage::to_json).collect(),
            tools: options.tools.clone().unwrap_or_default(),
            extra: options.extra.clone(),
        };
        let end = match options.continue_final {
            true => Some(plain.mark_end(self.engine.source())?),
            false => None,
        };
        let prompt = self.render_input(&plain, options, date)?;
        match end {
            Some(end) => prompt.cut_at(end).ok_or(TextError::LastMessageNotWritten),
            None => Ok(prompt),
        }
    }

    /// Renders a conversation as clients send it: tool calls get the form that templates expect, or become plain
    /// text if the template does not support tools.
    pub fn render_chat(
        &self,
        messages: &[ChatMessage],
        options: &RenderOptions,
    ) -> Result<Prompt, TextError> {
        let tools = match &options.tools {
            Some(Value::Array(tools)) => tools.as_slice(),
            _ => &[],
        };
        if tools.is_empty() && !uses_tools(messages) {
            return self.render(messages, options);
        }
        if self.writes_tools() {
            return self.render(&for_template(messages, self.tool_format()), options);
        }
        let plain = RenderOptions { tools: None, ..options.clone() };
        let render_at = |position| self.render(&in_plain_text(messages, tools, position), &plain);
        match render_at(ToolListPosition::System) {
            // Some templates have no system message.
            Err(error @ TextError::TemplateRender(_)) => {
                render_at(ToolListPosition::First).map_err(|_| error)
            }
            rendered => rendered,
        }
    }

    fn render_input(
        &self,
        plain: &UserInput,
        options: &RenderOptions,
        date: Option<Date>,
    ) -> Result<Prompt, TextError> {
        let marked = plain.marked(&options.specials, self.engine.source())?;
        let text = self.engine.render(plain.clone().variables(options), date)?;
        let Some((mark, input)) = marked else {
            return Ok(Prompt::unmarked(text));
        };
        let special = input.first_special;
        let prompt = self
            .engine
            .render(input.user_input.variables(options), date)
            .map(|marked| Prompt::marked_with(mark, marked));
        match prompt {
            Ok(prompt) if prompt.text() == text => Ok(prompt),
            // The template compares, splits or cuts the text in a way that a mark changes.
            _ => Err(TextError::SpecialTextInspected(special)),
        }
    }
}

/// Template variables that users control.
#[derive(Clone)]
struct UserInput {
    messages: Vec<Value>,
    tools: Value,
    extra: Map<String, Value>,
}

/// User input with marks, and one of the texts that required them.
struct MarkedInput {
    user_input: UserInput,
    first_special: String,
}

impl UserInput {
    /// Returns the variables of the template.
    fn variables(self, options: &RenderOptions) -> Map<String, Value> {
        let mut variables = self.extra;
        variables.insert("messages".into(), self.messages.into());
        variables.insert("add_generation_prompt".into(), options.add_generation_prompt.into());
        // Transformers passes `None` if there are none, so that `tools is not none` works.
        variables.insert("tools".into(), self.tools);
        variables.entry("documents").or_insert(Value::Null);
        for (name, token) in [("bos_token", &options.bos_token), ("eos_token", &options.eos_token)]
        {
            if let Some(token) = token {
                variables.insert(name.into(), token.clone().into());
            }
        }
        variables
    }

    /// Appends an unused mark to the last message and returns it.
    fn mark_end(&mut self, source: &str) -> Result<char, TextError> {
        let end = self.free_mark(source)?;
        if let Some(Value::String(content)) =
            self.messages.last_mut().and_then(|message| message.get_mut("content"))
        {
            content.push(end);
        }
        Ok(end)
    }

    /// Returns a mark that occurs neither in this input nor in the template.
    fn free_mark(&self, source: &str) -> Result<char, TextError> {
        free_mark(|mark| {
            let mut used = source.contains(mark);
            self.for_each_string(&mut |text| used |= text.contains(mark));
            used
        })
    }

    /// Returns the input with marks, or `None` if no string needs one.
    fn marked(
        &self,
        specials: &SpecialTexts,
        source: &str,
    ) -> Result<Option<(char, MarkedInput)>, TextError> {
        let mut needed = None;
        self.for_each_string(&mut |text| {
            if needed.is_none() && specials.mark(text, ' ').is_some() {
                needed = Some(specials.first_in(text).unwrap_or(text).to_owned());
            }
        });
        let Some(first_special) = needed else { return Ok(None) };
        let mark = self.free_mark(source)?;
        let mut user_input = self.clone();
        for message in &mut user_input.messages {
            mark_strings(message, specials, mark);
        }
        mark_strings(&mut user_input.tools, specials, mark);
        for value in user_input.extra.values_mut() {
            mark_strings(value, specials, mark);
        }
        Ok(Some((mark, MarkedInput { user_input, first_special })))
    }

    fn for_each_string(&self, visit: &mut impl FnMut(&str)) {
        for value in self.messages.iter().chain([&self.tools]).chain(self.extra.values()) {
            visit_strings(value, visit);
        }
    }
}

/// Visits all strings in a value, including field names. `serde_json` limits the depth.
fn visit_strings(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| visit_strings(item, visit)),
        Value::Object(fields) => {
            for (name, field) in fields {
                visit(name);
                visit_strings(field, visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn mark_strings(value: &mut Value, specials: &SpecialTexts, mark: char) {
    match value {
        Value::String(text) => {
            if let Some(marked) = specials.mark(text, mark) {
                *text = marked;
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| mark_strings(item, specials, mark));
        }
        Value::Object(fields) => {
            let entries = std::mem::take(fields);
            fields.extend(entries.into_iter().map(|(name, mut field)| {
                mark_strings(&mut field, specials, mark);
                (specials.mark(&name, mark).unwrap_or(name), field)
            }));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
