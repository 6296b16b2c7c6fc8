//! The input of a response: messages, and the items of earlier responses that a client sends back.
//!
//! Clients replay items of tools that this server never calls, for example after a change of the model. Calls that
//! the client ran itself become calls of a function with the same input; items of tools that another server ran have
//! nothing to say to this model, and are ignored and reported.

use serde_json::{Value, json};
use wf_api::wire::Content;
use wf_text::ChatMessage;

use super::reasoning::{add_reasoning, read_reasoning};
use super::wire::{InputItem, ResponsesInput};
use crate::error::ApiError;
use crate::generation::Context;
use crate::generation::conversation::read_text;
use crate::generation::fields::check_count;

/// Types of items of tools that another server ran.
const FOREIGN_ITEMS: [&str; 9] = [
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_list_tools",
    "tool_search_call",
    "tool_search_output",
    "compaction",
    "item_reference",
];

/// Reads instructions and input as a conversation.
pub(super) fn conversation(
    cx: &Context,
    instructions: Option<&str>,
    input: Option<ResponsesInput>,
) -> Result<Vec<ChatMessage>, ApiError> {
    let mut messages: Vec<_> =
        instructions.map(|text| ChatMessage::new("system", text)).into_iter().collect();
    match input {
        None => return Err(ApiError::required("input")),
        Some(ResponsesInput::Text(text)) => messages.push(ChatMessage::new("user", text)),
        Some(ResponsesInput::Items(items)) if items.is_empty() => {
            return Err(ApiError::at("input", "must have at least one item"));
        }
        Some(ResponsesInput::Items(items)) => {
            check_count("input", items.len(), cx.app.options.limits.messages)?;
            let mut thought = None;
            for (at, item) in items.into_iter().enumerate() {
                match item.kind.as_deref() {
                    Some("reasoning") => {
                        thought = Some(read_reasoning(at, &item, &cx.unknown_fields));
                        continue;
                    }
                    Some(kind) if FOREIGN_ITEMS.contains(&kind) => {
                        cx.unknown_fields.ignore(&format!("input[{at}]:{kind}"));
                        continue;
                    }
                    Some(kind) if kind.ends_with("_call_output") => {
                        messages.push(read_call_output(at, item)?);
                    }
                    Some(kind) if CALLS.iter().any(|(call, _)| *call == kind) => {
                        read_call(&mut messages, at, &item)?;
                    }
                    _ => messages.push(read_message(at, item)?),
                }
                let thought = thought.take();
                if let Some(message) = messages.last_mut().filter(|last| last.role == "assistant") {
                    add_reasoning(message, thought);
                }
            }
        }
    }
    match messages.is_empty() {
        true => Err(ApiError::at("input", "must have at least one message")),
        false => Ok(messages),
    }
}

fn read_message(at: usize, item: InputItem) -> Result<ChatMessage, ApiError> {
    if let Some(kind) = item.kind.filter(|kind| kind != "message") {
        let param = format!("input[{at}].type");
        let message = format!(
            "{param} is {kind:?}: must be message, reasoning, a call such as function_call, or its output"
        );
        return Err(ApiError::unsupported(param, message));
    }
    let role = match item.role.as_str() {
        "user" | "assistant" | "system" => item.role.as_str(),
        "developer" => "system",
        _ => {
            let param = format!("input[{at}].role");
            let what = format!("{:?} is not one of user, assistant, system, developer", item.role);
            return Err(ApiError::at(param, &what));
        }
    };
    let field = format!("input[{at}].content");
    let content = item.content.ok_or_else(|| ApiError::required(&field))?;
    Ok(ChatMessage::new(role, read_text(&field, plain(content))?))
}

fn text_field(at: usize, item: &InputItem, name: &str) -> Result<String, ApiError> {
    match item.extra.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(ApiError::at(format!("input[{at}].{name}"), "must be a string")),
    }
}

/// Types of calls, and the field with their input.
const CALLS: [(&str, &str); 5] = [
    ("function_call", "arguments"),
    ("custom_tool_call", "input"),
    ("local_shell_call", "action"),
    ("shell_call", "action"),
    ("apply_patch_call", "operation"),
];

/// Returns the name and the arguments of a call. Tools that are no functions have one argument, or an object of
/// their own; tools that a vendor defines have the name of their type.
fn read_function(at: usize, item: &InputItem, kind: &str) -> Result<(String, String), ApiError> {
    let field =
        CALLS.iter().find(|(call, _)| *call == kind).map_or("arguments", |(_, field)| field);
    match kind {
        "function_call" => Ok((text_field(at, item, "name")?, text_field(at, item, field)?)),
        "custom_tool_call" => {
            let input = text_field(at, item, field)?;
            Ok((text_field(at, item, "name")?, json!({field: input}).to_string()))
        }
        _ => match item.extra.get(field) {
            Some(Value::Object(action)) => {
                let name = kind.trim_end_matches("_call").to_owned();
                Ok((name, Value::Object(action.clone()).to_string()))
            }
            _ => Err(ApiError::at(format!("input[{at}].{field}"), "must be an object")),
        },
    }
}

/// Adds a call to the last message of the assistant: calls made together are one message.
fn read_call(messages: &mut Vec<ChatMessage>, at: usize, item: &InputItem) -> Result<(), ApiError> {
    let kind = item.kind.as_deref().unwrap_or_default();
    let (name, arguments) = read_function(at, item, kind)?;
    let id = text_field(at, item, "call_id")?;
    let function = json!({"name": name, "arguments": arguments});
    let call = json!({"id": id, "type": "function", "function": function});
    if messages.last().is_none_or(|last| last.role != "assistant") {
        messages.push(ChatMessage::new("assistant", ""));
    }
    if let Some(last) = messages.last_mut() {
        let calls = last.extra.entry("tool_calls").or_insert_with(|| json!([]));
        calls.as_array_mut().into_iter().for_each(|calls| calls.push(call.clone()));
    }
    Ok(())
}

fn read_call_output(at: usize, mut item: InputItem) -> Result<ChatMessage, ApiError> {
    // A local shell has the id of its call in another field.
    let is_local_shell = item.kind.as_deref() == Some("local_shell_call_output");
    let has_call_id = item.extra.contains_key("call_id");
    let id_field = if is_local_shell && !has_call_id { "id" } else { "call_id" };
    let id = text_field(at, &item, id_field)?;
    let field = format!("input[{at}].output");
    let output = item.extra.remove("output").unwrap_or_default();
    let text = match serde_json::from_value(output.clone()) {
        Ok(content) => read_text(&field, plain(content))?,
        // Outputs of a shell are objects, which the model can read as they are.
        Err(_) if item.kind.as_deref() == Some("shell_call_output") => output.to_string(),
        Err(_) => return Err(ApiError::at(&field, "must be a string or a list of parts")),
    };
    let mut message = ChatMessage::new("tool", text);
    message.extra.insert("tool_call_id".into(), id.into());
    Ok(message)
}

/// Renames parts of type `input_text` and `output_text` to `text`.
fn plain(mut content: Content) -> Content {
    if let Content::Parts(parts) = &mut content {
        for part in parts {
            if matches!(part.kind.as_str(), "input_text" | "output_text") {
                part.kind = "text".to_owned();
            }
        }
    }
    content
}
