//! Tools for templates that know none: everything about them as plain text, in the format of
//! [`ToolFormat::Hermes`](super::ToolFormat).

use serde_json::Value;

use super::history::{calls_of, function_of};
use crate::ChatMessage;

/// Where the tools are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the system message, which is put first if there is none.
    System,
    /// At the start of the first message, for templates that have no system message.
    First,
}

/// What ends a result.
const RESULT_END: &str = "</tool_response>";

/// The messages with tools, calls and results written out.
pub(crate) fn in_plain_text(
    messages: &[ChatMessage],
    tools: &[Value],
    place: Place,
) -> Vec<ChatMessage> {
    let mut written: Vec<ChatMessage> = Vec::with_capacity(messages.len() + 1);
    for message in messages {
        let mut plain = message.clone();
        for field in ["tool_calls", "tool_call_id"] {
            plain.extra.shift_remove(field);
        }
        for call in calls_of(message) {
            if !plain.content.is_empty() {
                plain.content.push('\n');
            }
            plain.content.push_str(&call_text(call));
        }
        if message.role == "tool" {
            plain.role = "user".to_owned();
            plain.content = format!("<tool_response>\n{}\n{RESULT_END}", message.content);
            // Results of calls that were made together are told together.
            if let Some(last) = written.last_mut()
                && last.role == "user"
                && last.content.ends_with(RESULT_END)
            {
                last.content.push('\n');
                last.content.push_str(&plain.content);
                continue;
            }
        }
        written.push(plain);
    }
    if !tools.is_empty() {
        list(&mut written, tools, place);
    }
    written
}

fn call_text(call: &Value) -> String {
    let (name, arguments) = function_of(call);
    let name = Value::from(name);
    format!("<tool_call>\n{{\"name\": {name}, \"arguments\": {arguments}}}\n</tool_call>")
}

/// Puts the list of tools before everything else that is said, or after the system message.
fn list(messages: &mut Vec<ChatMessage>, tools: &[Value], place: Place) {
    let tools: Vec<String> = tools.iter().map(Value::to_string).collect();
    let text = format!(
        "These tools can be called:\n<tools>\n{}\n</tools>\n\
         To call one, answer with JSON between these marks, once for each call:\n\
         <tool_call>\n{{\"name\": <its name>, \"arguments\": <its arguments>}}\n</tool_call>\n\
         What it gives is then told between <tool_response> and </tool_response>.",
        tools.join("\n")
    );
    match (place, messages.first_mut()) {
        (Place::System, Some(first)) if first.role == "system" => {
            first.content = format!("{}\n\n{text}", first.content);
        }
        (Place::First, Some(first)) => first.content = format!("{text}\n\n{}", first.content),
        _ => messages.insert(0, ChatMessage::new("system", text)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_and_results_are_written_out() {
        let call = |name: &str| {
            json!({"id": name, "type": "function",
                                       "function": {"name": name, "arguments": "{\"a\": 1}"}})
        };
        let mut assistant = ChatMessage::new("assistant", "Let me see.");
        assistant.extra.insert("tool_calls".into(), json!([call("f"), call("g \"h\"")]));
        let tool = |text| ChatMessage::new("tool", text);
        let messages = [ChatMessage::new("user", "x"), assistant, tool("1"), tool("2")];
        let tools = [json!({"type": "function", "function": {"name": "f"}})];
        let plain = in_plain_text(&messages, &tools, Place::System);
        let roles: Vec<&str> = plain.iter().map(|message| message.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "user"]);
        assert!(
            plain[0].content.contains("\n{\"type\":\"function\",\"function\":{\"name\":\"f\"}}\n")
        );
        let calls = "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n</tool_call>\n\
                     <tool_call>\n{\"name\": \"g \\\"h\\\"\", \"arguments\": {\"a\":1}}\n</tool_call>";
        assert_eq!(plain[2].content, calls);
        assert!(plain[2].extra.is_empty());
        let results = "<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>";
        assert_eq!(plain[3].content, results);

        let folded = in_plain_text(&messages[..1], &tools, Place::First);
        assert_eq!((folded.len(), folded[0].role.as_str()), (1, "user"));
        assert!(folded[0].content.ends_with("\n\nx"));
        let system = [ChatMessage::new("system", "Be kind"), ChatMessage::new("user", "x")];
        let listed = in_plain_text(&system, &tools, Place::System);
        assert!(listed.len() == 2 && listed[0].content.starts_with("Be kind\n\nThese tools"));
        assert_eq!(in_plain_text(&system, &[], Place::System), system);
    }
}
