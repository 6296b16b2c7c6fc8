//! Constrained completions: a JSON schema, a regular expression, a grammar, a choice, or tool calls.
//!
//! [`Grammars`] compiles a [`GrammarSource`] to a [`Grammar`] on the caller's thread, against the bytes of the
//! model's tokens (`compile.rs`); the sampler follows it by token ids alone (`follow.rs`). The crate `llguidance`
//! decides which text matches; nothing outside this folder names it.

mod bnf;
mod bounded;
mod calls;
mod compile;
mod follow;
mod limits;
mod narrow;
mod schema;
mod slots;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use llguidance::Matcher;
use serde_json::Value;

pub use calls::{CallGrammar, Literal, NoCall, ToolCallGrammar};
pub use compile::Grammars;
pub(crate) use follow::{DeadEnd, Follower};

/// Source of a grammar.
#[derive(Clone, Debug, PartialEq)]
pub enum GrammarSource {
    /// A JSON value that matches this schema.
    JsonSchema(Value),
    /// A text that a regular expression matches entirely.
    Regex(String),
    /// A text of a grammar in the notation of Lark, or of GBNF, which contains `::=`.
    Grammar(String),
    /// One of several texts.
    Choice(Vec<String>),
    /// Tool calls.
    ToolCalls(ToolCallGrammar),
}

impl GrammarSource {
    /// Returns the grammar of any JSON object.
    pub fn json_object() -> Self {
        Self::JsonSchema(serde_json::json!({"type": "object"}))
    }

    /// Returns its approximate size in memory.
    fn size_bytes(&self) -> usize {
        match self {
            Self::JsonSchema(schema) => 8 * schema.to_string().len(),
            Self::Regex(text) | Self::Grammar(text) => text.len(),
            Self::Choice(texts) => texts.iter().map(|text| 32 + text.len()).sum(),
            Self::ToolCalls(calls) => {
                calls.schemas().map(|schema| 256 + 8 * schema.to_string().len()).sum()
            }
        }
    }
}

/// Error of compiling a grammar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// The source is invalid or exceeds a limit.
    #[error("{0}")]
    Invalid(String),
    /// The grammar waited for others to compile, up to the time limit.
    #[error("{0} grammars are still being compiled, which is the limit: try again later")]
    Busy(usize),
}

impl GrammarError {
    fn new(what: impl Into<String>) -> Self {
        Self::Invalid(what.into())
    }
}

/// A compiled grammar. Cheap to clone; each completion follows its own copy.
#[derive(Clone)]
pub struct Grammar {
    /// Matcher at the start of a completion.
    start: Arc<Matcher>,
    /// Approximate size in memory.
    size_bytes: usize,
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammar").finish_non_exhaustive()
    }
}
