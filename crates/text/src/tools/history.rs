//! Conversations with tool calls, in the form that templates expect.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::ToolFormat;
use crate::ChatMessage;

/// Returns `true` if any message contains a tool call or a tool result.
pub(crate) fn uses_tools(messages: &[ChatMessage]) -> bool {
    messages.iter().any(|message| message.role == "tool" || !calls_of(message).is_empty())
}

pub(super) fn calls_of(message: &ChatMessage) -> &[Value] {
    match message.extra.get("tool_calls") {
        Some(Value::Array(calls)) if message.role == "assistant" => calls,
        _ => &[],
    }
}

/// Returns the name and the arguments of a call. Arguments in a JSON string are parsed.
pub(super) fn function_of(call: &Value) -> (String, Value) {
    let function = call.get("function").unwrap_or(call);
    let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
    let arguments = match function.get("arguments") {
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => Value::Object(fields),
            _ => Value::String(text.clone()),
        },
        Some(other) => other.clone(),
        None => Value::Object(serde_json::Map::new()),
    };
    (name.to_owned(), arguments)
}

/// Returns the messages with arguments as objects and with names of tools in their results. Call ids depend only
/// on the conversation, because some templates write them.
pub(crate) fn for_template(messages: &[ChatMessage], format: ToolFormat) -> Vec<ChatMessage> {
    let mut messages = messages.to_vec();
    // Original id to new id and name of the tool.
    let mut known: HashMap<String, (String, String)> = HashMap::new();
    // A result without an id belongs to the next call in order.
    let mut unanswered: VecDeque<String> = VecDeque::new();
    for message in &mut messages {
        if let Some(Value::Array(calls)) = message.extra.get_mut("tool_calls") {
            for call in calls {
                let (name, arguments) = function_of(call);
                let given = call.get("id").and_then(Value::as_str).map(str::to_owned);
                let given = given.unwrap_or_else(|| format!("call_{}", known.len() + 1));
                let id = match format {
                    // Templates of Mistral require nine letters and digits.
                    ToolFormat::Mistral => format!("{:09}", known.len() + 1),
                    _ => given.clone(),
                };
                *call = serde_json::json!({
                    "id": id,
                    "type": "function",
                    "function": {"name": name, "arguments": arguments},
                });
                known.insert(given.clone(), (id, name));
                unanswered.push_back(given);
            }
        }
        if message.role != "tool" {
            continue;
        }
        let next = unanswered.pop_front();
        let id = message.extra.get("tool_call_id").and_then(Value::as_str).or(next.as_deref());
        if let Some((id, name)) = id.and_then(|id| known.get(id)) {
            message.extra.insert("tool_call_id".into(), id.clone().into());
            message.extra.entry("name").or_insert_with(|| name.clone().into());
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_become_objects_and_results_get_names() {
        let call = json!({"id": "call_abc", "type": "function",
                          "function": {"name": "f", "arguments": "{\"a\": 1}"}});
        let mut assistant = ChatMessage::new("assistant", "");
        assistant.extra.insert("tool_calls".into(), json!([call]));
        let mut tool = ChatMessage::new("tool", "7");
        tool.extra.insert("tool_call_id".into(), "call_abc".into());
        let messages = [ChatMessage::new("user", "x"), assistant, tool];
        assert!(uses_tools(&messages) && !uses_tools(&messages[..1]));
        let hermes = for_template(&messages, ToolFormat::Hermes);
        assert_eq!(hermes[1].extra["tool_calls"][0]["function"]["arguments"], json!({"a": 1}));
        assert_eq!(hermes[1].extra["tool_calls"][0]["id"], "call_abc");
        assert_eq!(hermes[2].extra["name"], "f");
        let mistral = for_template(&messages, ToolFormat::Mistral);
        assert_eq!(mistral[1].extra["tool_calls"][0]["id"], "000000001");
        assert_eq!(mistral[2].extra["tool_call_id"], "000000001");
    }
}
