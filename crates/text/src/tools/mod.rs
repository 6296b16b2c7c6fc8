//! Tool calls: their formats, parsing them from a growing text, and rendering conversations that contain them.
//!
//! A model writes calls in one of a few formats, which its chat template reveals ([`ToolFormat`]).
//! [`ToolCallParser`] finds them in the output. For templates without support for tools, everything about them is
//! rendered as plain text (`plain.rs`).

mod find;
mod history;
mod json;
mod plain;
mod tagged;

pub use find::{ToolCallEvent, ToolCallParser};
pub(crate) use history::{for_template, uses_tools};
pub(crate) use plain::{ToolListPosition, in_plain_text};

/// Format of tool calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolFormat {
    /// `<tool_call>\n{"name": …, "arguments": …}\n</tool_call>`, as in Hermes, Qwen and many others. Also used with
    /// templates that do not support tools. Also `<function=…><parameter=…>…</parameter></function>`, as in Qwen-Coder.
    #[default]
    Hermes,
    /// `{"name": …, "parameters": …}`, as in Llama 3, optionally after `<|python_tag|>`.
    Llama,
    /// `[TOOL_CALLS][{"name": …, "arguments": …}]`, as in Mistral, or `[TOOL_CALLS]name[ARGS]{…}`.
    Mistral,
    /// `{"name": …, "arguments": …}` alone.
    Json,
}

impl ToolFormat {
    /// Returns the format of a template that writes tools, by the markers in its source.
    pub fn from_template(source: &str) -> Self {
        if source.contains("<tool_call>") {
            Self::Hermes
        } else if source.contains("[TOOL_CALLS]") {
            Self::Mistral
        } else if source.contains("<|python_tag|>") || source.contains("\"parameters\": ") {
            Self::Llama
        } else {
            Self::Json
        }
    }

    /// Returns the marker before calls.
    pub fn call_start(self) -> Option<&'static str> {
        match self {
            Self::Hermes => Some("<tool_call>"),
            Self::Llama => Some("<|python_tag|>"),
            Self::Mistral => Some("[TOOL_CALLS]"),
            Self::Json => None,
        }
    }

    /// Returns the marker after a call.
    pub fn call_end(self) -> Option<&'static str> {
        (self == Self::Hermes).then_some("</tool_call>")
    }

    /// Returns the name of the field with the arguments of a call.
    pub fn arguments_key(self) -> &'static str {
        if self == Self::Llama { "parameters" } else { "arguments" }
    }
}
