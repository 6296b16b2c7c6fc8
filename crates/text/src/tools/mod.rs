//! Tool calls: how models write them, how they are found in a growing text, and how conversations with
//! them are put before a template.
//!
//! Models learn one of few notations, and a model's chat template shows which ([`ToolFormat`]). What is
//! written in it is found by [`CallFinder`]. Templates that know nothing of tools get conversations in
//! which everything about them is plain text (`plain.rs`).

mod find;
mod history;
mod json;
mod plain;

pub use find::{CallFinder, CallPart};
pub(crate) use history::{for_template, uses_tools};
pub(crate) use plain::{Place, in_plain_text};

/// How a model writes its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolFormat {
    /// `<tool_call>\n{"name": …, "arguments": …}\n</tool_call>`, as Hermes, Qwen and many others. Also what
    /// models are told to write whose template does not say.
    #[default]
    Hermes,
    /// `{"name": …, "parameters": …}`, as Llama 3, perhaps after `<|python_tag|>`.
    Llama,
    /// `[TOOL_CALLS][{"name": …, "arguments": …}]`, as Mistral.
    Mistral,
    /// `{"name": …, "arguments": …}` and nothing else.
    Json,
}

impl ToolFormat {
    /// The format of a template that writes tools, by the marks in its source.
    pub fn of_template(source: &str) -> Self {
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

    /// What announces calls.
    pub fn mark(self) -> Option<&'static str> {
        match self {
            Self::Hermes => Some("<tool_call>"),
            Self::Llama => Some("<|python_tag|>"),
            Self::Mistral => Some("[TOOL_CALLS]"),
            Self::Json => None,
        }
    }

    /// What ends a call.
    pub fn end_mark(self) -> Option<&'static str> {
        (self == Self::Hermes).then_some("</tool_call>")
    }

    /// What the arguments of a call are called.
    pub fn arguments_name(self) -> &'static str {
        if self == Self::Llama { "parameters" } else { "arguments" }
    }
}
