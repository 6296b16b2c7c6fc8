//! Parts of replies in the words of OpenAI's chats.

use wf_client::wire::{
    CalledFunction, Delta, FunctionDelta, ReplyMessage, ToolCall, ToolCallDelta,
};
use wf_engine::{Finish, FinishReason, StoppedAt};
use wf_text::CallPart;

use super::call_id;

/// The calls of one reply so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    calls: u32,
}

impl Counted {
    /// What a part adds to a streamed message; the end of a call adds nothing.
    pub(crate) fn delta(&mut self, part: CallPart) -> Option<Delta> {
        let call = match part {
            CallPart::Text(text) => return Some(Delta { content: Some(text), ..Delta::default() }),
            CallPart::Begin { name } => {
                self.calls += 1;
                ToolCallDelta {
                    id: Some(call_id("call")),
                    kind: Some("function".into()),
                    function: FunctionDelta { name: Some(name), arguments: String::new() },
                    ..ToolCallDelta::default()
                }
            }
            CallPart::Arguments(arguments) => {
                let function = FunctionDelta { name: None, arguments };
                ToolCallDelta { function, ..ToolCallDelta::default() }
            }
            CallPart::End => return None,
        };
        let call = ToolCallDelta { index: self.calls.saturating_sub(1), ..call };
        Some(Delta { tool_calls: Some(vec![call]), ..Delta::default() })
    }

    /// Why the reply ended.
    pub(crate) fn reason(self, finish: &Finish) -> &'static str {
        finish_reason(self.calls > 0, finish)
    }
}

/// Adds a part to a whole message.
pub(crate) fn add(message: &mut ReplyMessage, part: CallPart) {
    match part {
        CallPart::Text(text) => message.content.get_or_insert_default().push_str(&text),
        CallPart::Begin { name } => message.tool_calls.get_or_insert_default().push(ToolCall {
            id: call_id("call"),
            kind: "function".into(),
            function: CalledFunction { name, arguments: String::new() },
        }),
        CallPart::Arguments(more) => {
            if let Some(call) = message.tool_calls.as_mut().and_then(|calls| calls.last_mut()) {
                call.function.arguments.push_str(&more);
            }
        }
        CallPart::End => {}
    }
}

/// Ends a whole message: why, and null where it has calls and no text.
pub(crate) fn end(message: &mut ReplyMessage, finish: &Finish) -> &'static str {
    let has_calls = message.tool_calls.is_some();
    if has_calls {
        message.content = message.content.take().filter(|content| !content.is_empty());
    }
    finish_reason(has_calls, finish)
}

/// Why a reply ended. A text that stops replies may have stopped it within a call.
pub(crate) fn finish_reason(has_calls: bool, finish: &Finish) -> &'static str {
    match (finish.reason, &finish.stopped_at) {
        (FinishReason::Stop, None | Some(StoppedAt::Token(_))) if has_calls => "tool_calls",
        (reason, _) => reason.name(),
    }
}
