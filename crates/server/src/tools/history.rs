//! Calls and their results in the messages of a request.

use serde_json::Value;
use wf_client::wire::Rest;

use crate::error::ApiError;

/// Checks the calls that a message of the assistant says it made.
pub(crate) fn check_calls(at: usize, message: &Rest) -> Result<(), ApiError> {
    let field = format!("messages[{at}].tool_calls");
    let wrong =
        |field: String, what: &str| Err(ApiError::field(field.clone(), format!("{field}: {what}")));
    let calls = match message.get("tool_calls") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(calls)) => calls,
        Some(_) => return wrong(field, "a list is needed"),
    };
    for (call_at, call) in calls.iter().enumerate() {
        let function = call.get("function");
        let name = function.and_then(|function| function.get("name")).and_then(Value::as_str);
        if name.is_none() {
            let field = format!("{field}[{call_at}].function.name");
            return wrong(field, "the name of a function is needed");
        }
        let arguments = function.and_then(|function| function.get("arguments"));
        if !matches!(arguments, None | Some(Value::Null | Value::String(_) | Value::Object(_))) {
            let field = format!("{field}[{call_at}].function.arguments");
            return wrong(field, "JSON in a text is needed");
        }
    }
    Ok(())
}
