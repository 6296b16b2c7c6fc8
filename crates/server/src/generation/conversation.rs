//! Messages and their text parts, in the shape that OpenAI's chat API and its relatives share.

use serde_json::Value;
use wf_api::wire::{self, Content, ContentPart, JsonObject};
use wf_engine::ChatOptions;
use wf_text::ChatMessage;

use super::fields::check_count;
use super::thinking::rename_replayed;
use crate::app::App;
use crate::error::ApiError;
use crate::http::json::check_inner;

const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

pub(crate) fn read_messages(
    app: &App,
    messages: Vec<wire::ChatMessage>,
) -> Result<Vec<ChatMessage>, ApiError> {
    check_message_count(app, messages.len())?;
    messages.into_iter().enumerate().map(|(at, message)| read_message(at, message)).collect()
}

/// Rejects empty conversations and conversations over the limit.
pub(crate) fn check_message_count(app: &App, count: usize) -> Result<(), ApiError> {
    if count == 0 {
        return Err(ApiError::at("messages", "must have at least one message"));
    }
    check_count("messages", count, app.options.limits.messages)
}

/// Converts the message at index `at`.
pub(crate) fn read_message(
    at: usize,
    mut message: wire::ChatMessage,
) -> Result<ChatMessage, ApiError> {
    if !ROLES.contains(&message.role.as_str()) {
        let what = format!("{:?} is not one of {}", message.role, ROLES.join(", "));
        return Err(ApiError::at(format!("messages[{at}].role"), &what));
    }
    check_tool_calls(at, &message.extra)?;
    rename_replayed(&mut message.extra);
    // Templates know the older name of this role.
    let role = if message.role == "developer" { "system" } else { &message.role };
    let content = match message.content {
        Some(content) => read_text(&format!("messages[{at}].content"), content)?,
        // A message with tool calls needs no text.
        None if message.role == "assistant" => String::new(),
        None => {
            return Err(ApiError::required(format!("messages[{at}].content")));
        }
    };
    Ok(ChatMessage { extra: message.extra, ..ChatMessage::new(role, content) })
}

/// Reads a message of OpenAI's chat API, for programs that run a model without a server.
///
/// # Errors
///
/// If a field of the message at index `at` is invalid, with the message of the API.
pub fn read_chat_message(at: usize, message: wire::ChatMessage) -> Result<ChatMessage, String> {
    read_message(at, message).map_err(|error| error.message)
}

/// Returns the text of a field that may be a string or a list of parts.
pub(crate) fn read_text(field: &str, content: Content) -> Result<String, ApiError> {
    let parts = match content {
        Content::Text(text) => return Ok(text),
        Content::Parts(parts) => parts,
    };
    let read = |(at, part)| read_part(&format!("{field}[{at}]"), part);
    let texts: Result<Vec<_>, _> = parts.into_iter().enumerate().map(read).collect();
    Ok(texts?.join("\n"))
}

pub(crate) fn read_part(field: &str, part: ContentPart) -> Result<String, ApiError> {
    match part.text {
        Some(text) if part.kind == "text" => Ok(text),
        _ => {
            let param = format!("{field}.type");
            let message = format!("{param}: {:?} is not supported, only \"text\" is", part.kind);
            Err(ApiError::unsupported(param, message))
        }
    }
}

/// Checks the `tool_calls` of an earlier assistant message.
fn check_tool_calls(at: usize, message: &JsonObject) -> Result<(), ApiError> {
    let field = format!("messages[{at}].tool_calls");
    let calls = match message.get("tool_calls") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(calls)) => calls,
        Some(_) => return Err(ApiError::at(field, "must be a list")),
    };
    for (call_at, call) in calls.iter().enumerate() {
        let of_function = |name: &str| call.get("function").and_then(|function| function.get(name));
        if of_function("name").and_then(Value::as_str).is_none() {
            let field = format!("{field}[{call_at}].function.name");
            return Err(ApiError::at(field, "must be the name of a function"));
        }
        let arguments = of_function("arguments");
        if !matches!(arguments, None | Some(Value::Null | Value::String(_) | Value::Object(_))) {
            let field = format!("{field}[{call_at}].function.arguments");
            return Err(ApiError::at(field, "must be a JSON object, or one in a string"));
        }
    }
    Ok(())
}

/// Limits the arguments of earlier calls, which templates parse.
pub(crate) fn check_arguments(messages: &[ChatMessage]) -> Result<(), ApiError> {
    let calls = messages.iter().filter_map(|message| message.extra.get("tool_calls")?.as_array());
    let arguments = calls.flatten().filter_map(|call| {
        let function = call.get("function").unwrap_or(call);
        function.get("arguments")?.as_str()
    });
    check_inner(arguments)
        .map_err(|what| ApiError::invalid(format!("arguments of tool calls: {what}")))
}

/// Rejects options that contradict each other.
pub(crate) fn check_options(
    options: &ChatOptions,
    add_generation_prompt: Option<bool>,
) -> Result<(), ApiError> {
    if options.continue_final && add_generation_prompt == Some(true) {
        let what = "cannot be combined with add_generation_prompt";
        return Err(ApiError::at("continue_final_message", what));
    }
    Ok(())
}
