//! `functions` and `function_call`, the names of `tools` and `tool_choice` before there were several calls.

use serde_json::{Value, json};
use wf_api::wire::{AssistantMessage, Delta, JsonObject};

use super::super::openai::CHAT_TOOLS;
use crate::error::ApiError;
use crate::generation::{Context, ToolChoice, Tools};

/// Functions of a request, and the choice between them.
pub(super) struct Functions {
    tools: Vec<JsonObject>,
    choice: ToolChoice,
}

impl Functions {
    /// Takes the functions out of the untyped fields of a request, if there are any.
    pub(super) fn take(extra: &mut JsonObject, has_tools: bool) -> Result<Option<Self>, ApiError> {
        let choice = extra.remove("function_call").filter(|choice| !choice.is_null());
        let functions = match extra.remove("functions") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Array(functions)) if functions.is_empty() => return Ok(None),
            Some(_) if has_tools => {
                return Err(ApiError::at("functions", "cannot be combined with tools"));
            }
            Some(Value::Array(functions)) => functions,
            Some(_) => return Err(ApiError::at("functions", "must be a list of functions")),
        };
        let tool = |function| JsonObject::from_iter([("function".to_owned(), function)]);
        let tools = functions.into_iter().map(tool).collect();
        Ok(Some(Self { tools, choice: read_choice(choice.as_ref())? }))
    }

    pub(super) fn into_tools(self, cx: &Context) -> Result<Option<Tools>, ApiError> {
        let tools = CHAT_TOOLS.read(Some(&self.tools), &cx.unknown_fields).map_err(as_sent)?;
        Tools::new(tools, self.choice, false).map_err(as_sent)
    }
}

/// Names the fields of an error as the request does.
fn as_sent(mut error: ApiError) -> ApiError {
    let rename = |text: &str| {
        let text = text.replace("tool_choice", "function_call").replace("tools[", "functions[");
        text.replace("].function", "]")
    };
    error.param = error.param.as_deref().map(rename);
    error.message = rename(&error.message);
    error
}

fn read_choice(choice: Option<&Value>) -> Result<ToolChoice, ApiError> {
    let Some(choice) = choice else { return Ok(ToolChoice::Auto) };
    match (choice.as_str(), choice.get("name").and_then(Value::as_str)) {
        (Some("none"), _) => Ok(ToolChoice::None),
        (Some("auto"), _) => Ok(ToolChoice::Auto),
        (None, Some(name)) => Ok(ToolChoice::Named(name.to_owned())),
        _ => {
            let what = "must be none, auto, or an object with the name of a function";
            Err(ApiError::at("function_call", what))
        }
    }
}

/// Gives the part of a call the form that it had before tools.
pub(super) fn renamed(mut delta: Delta) -> Delta {
    let calls = delta.tool_calls.take();
    delta.function_call = calls.and_then(|calls| Some(calls.into_iter().next()?.function));
    delta
}

/// Adds the part of a call to a message.
pub(super) fn fold(message: &mut AssistantMessage, delta: &mut Delta) {
    let Some(part) = delta.function_call.take() else { return };
    let call = message.function_call.get_or_insert_default();
    part.name.into_iter().for_each(|name| call.name = name);
    call.arguments.push_str(&part.arguments);
}

/// Gives an earlier message the form of today: a call becomes a tool call, and a result one of a tool.
pub(crate) fn modernize(message: &mut wf_api::wire::ChatMessage) {
    if message.role == "function" {
        message.role = "tool".to_owned();
    }
    if let Some(call @ Value::Object(_)) = message.extra.remove("function_call") {
        let call = json!({"type": "function", "function": call});
        message.extra.entry("tool_calls").or_insert_with(|| json!([call]));
    }
}
