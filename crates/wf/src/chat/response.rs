//! Chunks and counts of a response, and a description of its source.

use std::time::Duration;

use wf_core::AttentionMode;

use super::tools::ToolCall;
use crate::output::rate;

/// Tells how to go on past a limit of `max_len` tokens, after what else a user can do.
pub(crate) fn window_hint(max_len: usize) -> &'static str {
    match max_len < AttentionMode::MAX_LEN {
        true => "; a chat with --attention window=N,sinks=4 goes on and forgets its beginning",
        false => "",
    }
}

/// A description of a model.
pub(crate) struct About {
    pub(crate) name: String,
    /// Where and how it runs.
    pub(crate) details: String,
    /// Maximum number of tokens of a conversation, if known.
    pub(crate) context_len: Option<usize>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// Thinking before the text.
    Reasoning(String),
    Text(String),
    /// A tool call, once it is complete.
    Call(ToolCall),
    /// The end, with the `finish_reason` of the API.
    Done(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) prompt_tokens: usize,
    /// Number of prompt tokens found in the cache, if known.
    pub(crate) cached_tokens: Option<usize>,
    pub(crate) response_tokens: usize,
    /// Time to the first token.
    pub(crate) prompt: Duration,
    /// Time from the first token to the last.
    pub(crate) response: Duration,
    pub(crate) seed: Option<u64>,
    /// Number of tokens that a window has slid over.
    pub(crate) out_of_sight: usize,
}

impl Counts {
    pub(crate) fn prompt_rate(&self) -> f64 {
        let computed = self.prompt_tokens.saturating_sub(self.cached_tokens.unwrap_or(0));
        rate(computed, self.prompt)
    }

    /// Returns response tokens per second. The first token comes with the prompt.
    pub(crate) fn response_rate(&self) -> f64 {
        rate(self.response_tokens.saturating_sub(1), self.response)
    }

    /// Returns the number of tokens in the context.
    pub(crate) fn used(&self) -> usize {
        self.prompt_tokens + self.response_tokens
    }
}
