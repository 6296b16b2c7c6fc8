//! Chat templates: messages to prompt, as Transformers renders them.
//!
//! Templates come with model files and are not trusted: they have no loaders, no clock, no environment, and
//! limits on steps, time, memory, depth and output. Messages come from users and are not trusted either: text that reads as a
//! special token is marked before the template sees it (see [`SpecialTexts`]).

pub(crate) mod budget;
mod date;
mod engine;
mod python;
mod runner;
mod values;
mod words;

use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::special_text::free_mark;
use crate::thinking::{CLOSE_TAG, OPEN_TAG};
use crate::tools::{ToolFormat, ToolListPosition, for_template, in_plain_text, uses_tools};
use crate::{ChatMessage, Prompt, SpecialTexts, TextError};
use date::Date;

/// Maximum width of indents and fields.
const MAX_WIDTH: usize = 999;

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

    /// Returns `true` if the template declares the tags of thinking.
    pub fn declares_thinking(&self) -> bool {
        [OPEN_TAG, CLOSE_TAG].iter().any(|tag| self.engine.source().contains(tag))
    }

    /// Returns `true` if the variable `enable_thinking` turns thinking on and off.
    pub fn switches_thinking(&self) -> bool {
        self.engine.source().contains("enable_thinking")
    }

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
        if let Some(name) = RESERVED.iter().find(|name| options.extra.contains_key(**name)) {
            return Err(TextError::Chat(format!("chat template argument {name:?} is reserved")));
        }
        let date = options.date.as_deref().map(Date::parse).transpose()?;
        let mut input = Map::new();
        input.insert("messages".into(), messages.iter().map(ChatMessage::to_json).collect());
        // Transformers passes `None` if there are none, so that `tools is not none` works.
        input.insert("tools".into(), options.tools.clone().unwrap_or_default());
        input.extend(options.extra.clone());
        if !options.continue_final {
            return self.render_input(input, options, date);
        }
        let end = self.free_mark(&input)?;
        let last = input["messages"].as_array_mut().and_then(|messages| messages.last_mut());
        if let Some(Value::String(content)) = last.and_then(|last| last.get_mut("content")) {
            content.push(end);
        }
        self.render_input(input, options, date)?.cut_at(end).ok_or_else(|| {
            TextError::Template(
                "it does not write the last message exactly once and unchanged, so the message cannot be \
                 continued"
                    .into(),
            )
        })
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

    /// Renders the variables that users control, with marks where special tokens could be read.
    fn render_input(
        &self,
        input: Map<String, Value>,
        options: &RenderOptions,
        date: Option<Date>,
    ) -> Result<Prompt, TextError> {
        let specials = &options.specials;
        let mut special = None;
        for_each_string(&input, &mut |text| {
            if special.is_none() && specials.mark(text, ' ').is_some() {
                special = Some(specials.first_in(text).unwrap_or(text).to_owned());
            }
        });
        let render = |input| self.engine.render(variables(input, options), date);
        let Some(special) = special else { return Ok(Prompt::unmarked(render(input)?)) };
        let mark = self.free_mark(&input)?;
        let text = render(input.clone())?;
        let mut marked = input;
        marked.values_mut().for_each(|value| mark_strings(value, specials, mark));
        match render(marked).map(|marked| Prompt::marked_with(mark, marked)) {
            Ok(prompt) if prompt.text() == text => Ok(prompt),
            // The template compares, splits or cuts the text in a way that a mark changes, so that the prompt
            // cannot be both faithful and safe.
            _ => Err(TextError::Template(format!(
                "it handles special-token text inside a message specially; remove {special:?} from the \
                 message"
            ))),
        }
    }

    /// Returns a mark that occurs neither in the input nor in the template.
    fn free_mark(&self, input: &Map<String, Value>) -> Result<char, TextError> {
        free_mark(|mark| {
            let mut used = self.engine.source().contains(mark);
            for_each_string(input, &mut |text| used |= text.contains(mark));
            used
        })
    }
}

/// Returns the variables of the template, of which users control `input`.
fn variables(mut input: Map<String, Value>, options: &RenderOptions) -> Map<String, Value> {
    input.insert("add_generation_prompt".into(), options.add_generation_prompt.into());
    input.entry("documents").or_insert(Value::Null);
    for (name, token) in [("bos_token", &options.bos_token), ("eos_token", &options.eos_token)] {
        if let Some(token) = token {
            input.insert(name.into(), token.clone().into());
        }
    }
    input
}

fn for_each_string(input: &Map<String, Value>, visit: &mut impl FnMut(&str)) {
    input.values().for_each(|value| visit_strings(value, visit));
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
