//! Replies that have to have a form: JSON of a schema, a regular expression, a grammar, a choice.
//!
//! Three parts. A [`GrammarSource`] is what was asked for; [`Grammars`] makes a [`Grammar`] of it, on
//! the caller's thread, against the bytes of the model's tokens (`compile.rs`); and the sampler of a
//! reply follows it with token numbers alone (`follow.rs`). What a text may be is decided by the crate
//! `llguidance`, which nothing outside this folder names.

mod bnf;
mod calls;
mod compile;
mod follow;
mod limits;
mod narrow;
mod schema;
#[cfg(test)]
mod suite;

use std::sync::Arc;

use llguidance::Matcher;
use serde_json::Value;

pub use calls::{Calls, Fixed, Instead, ToolCall};
pub use compile::Grammars;
pub(crate) use follow::{DeadEnd, Follower};

/// What form a reply must have.
#[derive(Clone, Debug, PartialEq)]
pub enum GrammarSource {
    /// A JSON value of this schema.
    JsonSchema(Value),
    /// A text that a regular expression matches as a whole.
    Regex(String),
    /// A text of a grammar, in the notation of Lark or in that of GBNF, which has `::=`.
    Grammar(String),
    /// One of several texts.
    Choice(Vec<String>),
    /// Calls of tools.
    Calls(Calls),
}

impl GrammarSource {
    /// Any JSON object.
    pub fn json_object() -> Self {
        Self::JsonSchema(serde_json::json!({"type": "object"}))
    }
}

impl GrammarSource {
    /// What it takes in memory, about.
    fn size_bytes(&self) -> usize {
        match self {
            Self::JsonSchema(schema) => 8 * schema.to_string().len(),
            Self::Regex(text) | Self::Grammar(text) => text.len(),
            Self::Choice(texts) => texts.iter().map(|text| 32 + text.len()).sum(),
            Self::Calls(calls) => {
                calls.schemas().map(|schema| 256 + 8 * schema.to_string().len()).sum()
            }
        }
    }
}

/// Why a form cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGrammar {
    /// What is wrong with it.
    #[error("{0}")]
    Source(String),
    /// Nobody looked at it.
    #[error("{0} grammars are being compiled already: try again later")]
    Busy(usize),
}

impl BadGrammar {
    fn new(what: impl Into<String>) -> Self {
        Self::Source(what.into())
    }
}

/// A form that replies can follow. Cheap to clone; each reply follows a copy of its own.
#[derive(Clone)]
pub struct Grammar {
    /// At the start of a reply.
    start: Arc<Matcher>,
    /// What it takes in memory, about.
    size_bytes: usize,
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammar").finish_non_exhaustive()
    }
}
