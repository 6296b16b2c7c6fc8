//! Calls and their results in the items of `/v1/responses`.

use serde_json::{Value, json};
use wf_client::wire::{
    Content, InputItem, OutputCall, OutputItem, OutputMessage, OutputText, ResponseNews, TextPlace,
};
use wf_text::{CallPart, ChatMessage};

use super::call_id;
use crate::error::ApiError;
use crate::routes::chat;

/// Adds a call that was made, or what one gave, to the conversation. Calls that were made together are one
/// message.
pub(crate) fn add_to(
    messages: &mut Vec<ChatMessage>,
    at: usize,
    item: &InputItem,
) -> Result<(), ApiError> {
    let wrong = |name: &str, what: &str| {
        let param = format!("input[{at}].{name}");
        ApiError::field(param.clone(), format!("{param}: {what}"))
    };
    let text = |name: &str| match item.rest.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(wrong(name, "a text is needed")),
    };
    let id = text("call_id")?;
    if item.kind.as_deref() == Some("function_call") {
        let function = json!({"name": text("name")?, "arguments": text("arguments")?});
        let call = json!({"id": id, "type": "function", "function": function});
        if messages.last().is_none_or(|last| last.role != "assistant") {
            messages.push(ChatMessage::new("assistant", ""));
        }
        if let Some(last) = messages.last_mut() {
            let calls = last.extra.entry("tool_calls").or_insert_with(|| json!([]));
            calls.as_array_mut().into_iter().for_each(|calls| calls.push(call.clone()));
        }
        return Ok(());
    }
    let output = item.rest.get("output").cloned().unwrap_or_default();
    let field = format!("input[{at}].output");
    let output = serde_json::from_value::<Content>(output)
        .map_err(|_| wrong("output", "a text or a list of parts is needed"))?;
    let mut message = ChatMessage::new("tool", chat::text_of(&field, plain(output))?);
    message.extra.insert("tool_call_id".into(), id.into());
    messages.push(message);
    Ok(())
}

/// The same content with parts of type `text`: what was asked and what was answered have names of their own.
pub(crate) fn plain(mut content: Content) -> Content {
    if let Content::Parts(parts) = &mut content {
        let texts = parts
            .iter_mut()
            .filter(|part| matches!(part.kind.as_str(), "input_text" | "output_text"));
        texts.for_each(|part| part.kind = "text".to_owned());
    }
    content
}

/// An event: what it is called, and what it says.
pub(crate) type News = (&'static str, ResponseNews);

/// The items of an answer as it is written.
#[derive(Debug)]
pub(crate) struct Items {
    pub(crate) output: Vec<OutputItem>,
    /// Whether the last one is a message that goes on.
    has_open_message: bool,
    message_id: String,
}

impl Items {
    /// None yet; the first message has this name.
    pub(crate) fn new(message_id: String) -> Self {
        Self { output: Vec::new(), has_open_message: false, message_id }
    }

    fn last(&self) -> u32 {
        self.output.len().saturating_sub(1) as u32
    }

    fn item(&self) -> ResponseNews {
        let item = self.output.last().cloned();
        let item = item.unwrap_or_else(|| OutputItem::FunctionCall(OutputCall::default()));
        ResponseNews::Item { output_index: self.last(), item }
    }

    /// Begins a message.
    pub(crate) fn begin_message(&mut self) -> Vec<News> {
        let id = match self.output.len() {
            0 => self.message_id.clone(),
            at => format!("{}_{at}", self.message_id),
        };
        self.output.push(OutputItem::Message(OutputMessage {
            id,
            status: "in_progress".into(),
            role: "assistant".into(),
            content: Vec::new(),
        }));
        self.has_open_message = true;
        let begun = self.item();
        let (place, part) = self.text(|text| text.clone());
        let part = ResponseNews::Part { place, part };
        vec![("response.output_item.added", begun), ("response.content_part.added", part)]
    }

    /// Does something with the text of the message that goes on, and says where that is.
    fn text<T>(&mut self, with: impl FnOnce(&mut OutputText) -> T) -> (TextPlace, T) {
        let output_index = self.last();
        let mut none = OutputText::default();
        let (item_id, text) = match self.output.last_mut() {
            Some(OutputItem::Message(message)) => {
                if message.content.is_empty() {
                    message.content.push(OutputText::default());
                }
                (message.id.clone(), &mut message.content[0])
            }
            _ => (String::new(), &mut none),
        };
        (TextPlace { item_id, output_index, content_index: 0 }, with(text))
    }

    /// Adds a part of the answer, and says so.
    pub(crate) fn add(&mut self, part: CallPart) -> Vec<News> {
        match part {
            CallPart::Text(delta) => {
                let mut news = match self.has_open_message {
                    true => Vec::new(),
                    false => self.begin_message(),
                };
                let (place, ()) = self.text(|text| text.text.push_str(&delta));
                let delta = ResponseNews::Delta { place, delta, logprobs: Vec::new() };
                news.push(("response.output_text.delta", delta));
                news
            }
            CallPart::Begin { name } => {
                let mut news = self.end_message("completed");
                self.output.push(OutputItem::FunctionCall(OutputCall {
                    id: call_id("fc"),
                    call_id: call_id("call"),
                    name,
                    arguments: String::new(),
                    status: "in_progress".into(),
                }));
                news.push(("response.output_item.added", self.item()));
                news
            }
            CallPart::Arguments(delta) => {
                let output_index = self.last();
                let Some(OutputItem::FunctionCall(call)) = self.output.last_mut() else {
                    return Vec::new();
                };
                call.arguments.push_str(&delta);
                let item_id = call.id.clone();
                let delta = ResponseNews::ArgumentsDelta { item_id, output_index, delta };
                vec![("response.function_call_arguments.delta", delta)]
            }
            CallPart::End => self.end_call(),
        }
    }

    fn end_call(&mut self) -> Vec<News> {
        let output_index = self.last();
        let Some(OutputItem::FunctionCall(call)) = self.output.last_mut() else {
            return Vec::new();
        };
        let is_whole = serde_json::from_str::<Value>(&call.arguments).is_ok();
        call.status = if is_whole { "completed" } else { "incomplete" }.to_owned();
        let OutputCall { id: item_id, name, arguments, .. } = call.clone();
        let all = ResponseNews::Arguments { item_id, output_index, name, arguments };
        let done = self.item();
        vec![("response.function_call_arguments.done", all), ("response.output_item.done", done)]
    }

    /// Ends the message that goes on, if one does.
    pub(crate) fn end_message(&mut self, status: &str) -> Vec<News> {
        if !std::mem::take(&mut self.has_open_message) {
            return Vec::new();
        }
        let (place, part) = self.text(|text| text.clone());
        if let Some(OutputItem::Message(message)) = self.output.last_mut() {
            message.status = status.to_owned();
        }
        let text = part.text.clone();
        let all = ResponseNews::Text { place: place.clone(), text, logprobs: Vec::new() };
        vec![
            ("response.output_text.done", all),
            ("response.content_part.done", ResponseNews::Part { place, part }),
            ("response.output_item.done", self.item()),
        ]
    }
}
