//! Plain text for templates without support for tools, in the format of [`ToolFormat::Hermes`](super::ToolFormat).

use serde_json::Value;

use super::history::{calls_of, function_of};
use crate::ChatMessage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolListPosition {
    /// In the system message, which is added if there is none.
    System,
    /// At the start of the first message, for templates that have no system message.
    First,
}

const RESULT_END: &str = "</tool_response>";

/// Returns the messages with tools, calls and results as text.
pub(crate) fn in_plain_text(
    messages: &[ChatMessage],
    tools: &[Value],
    position: ToolListPosition,
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
            // Results of parallel calls form one message.
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
        add_tool_list(&mut written, tools, position);
    }
    written
}

fn call_text(call: &Value) -> String {
    let (name, arguments) = function_of(call);
    let name = Value::from(name);
    format!("<tool_call>\n{{\"name\": {name}, \"arguments\": {arguments}}}\n</tool_call>")
}

/// Adds the list of tools before all other text, or after that of the system message.
fn add_tool_list(messages: &mut Vec<ChatMessage>, tools: &[Value], position: ToolListPosition) {
    let tools: Vec<String> = tools.iter().map(Value::to_string).collect();
    let text = format!(
        "These tools can be called:\n<tools>\n{}\n</tools>\n\
         To call one, answer with JSON between these marks, once for each call:\n\
         <tool_call>\n{{\"name\": <its name>, \"arguments\": <its arguments>}}\n</tool_call>\n\
         What it gives is then told between <tool_response> and </tool_response>.",
        tools.join("\n")
    );
    match (position, messages.first_mut()) {
        (ToolListPosition::System, Some(first)) if first.role == "system" => {
            first.content = format!("{}\n\n{text}", first.content);
        }
        (ToolListPosition::First, Some(first)) => {
            first.content = format!("{text}\n\n{}", first.content)
        }
        _ => messages.insert(0, ChatMessage::new("system", text)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_and_results_become_text() {
        let call = |name: &str| {
            json!({"id": name, "type": "function",
                                       "function": {"name": name, "arguments": "{\"a\": 1}"}})
        };
        let mut assistant = ChatMessage::new("assistant", "Let me see.");
        assistant.extra.insert("tool_calls".into(), json!([call("f"), call("g \"h\"")]));
        let tool = |text| ChatMessage::new("tool", text);
        let messages = [ChatMessage::new("user", "x"), assistant, tool("1"), tool("2")];
        let tools = [json!({"type": "function", "function": {"name": "f"}})];
        let plain = in_plain_text(&messages, &tools, ToolListPosition::System);
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

        let folded = in_plain_text(&messages[..1], &tools, ToolListPosition::First);
        assert_eq!((folded.len(), folded[0].role.as_str()), (1, "user"));
        assert!(folded[0].content.ends_with("\n\nx"));
        let system = [ChatMessage::new("system", "Be kind"), ChatMessage::new("user", "x")];
        let listed = in_plain_text(&system, &tools, ToolListPosition::System);
        assert!(listed.len() == 2 && listed[0].content.starts_with("Be kind\n\nThese tools"));
        assert_eq!(in_plain_text(&system, &[], ToolListPosition::System), system);
    }
}
