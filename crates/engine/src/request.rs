//! What enters the engine, what leaves it, and why it may be refused.

use wf_model::TokenId;

use crate::sample::{BadSampling, SamplingParams};

/// How tokens are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecodeMode {
    /// One token a step.
    #[default]
    Autoregressive,
}

/// Where a reply ends.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The most tokens to write.
    pub max_tokens: usize,
    /// Tokens that end the reply. They are part of it.
    pub stop_tokens: Vec<TokenId>,
    /// Stop tokens are not picked before this many tokens were written.
    pub min_tokens: usize,
}

/// One reply to write.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// What comes before it.
    pub prompt: Vec<TokenId>,
    /// How scores become tokens.
    pub sampling: SamplingParams,
    /// How tokens are found.
    pub decode: DecodeMode,
    /// Where it ends.
    pub limits: Limits,
}

/// A token that is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    /// Its number.
    pub token: TokenId,
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// A stop token was written.
    Stop,
    /// `max_tokens` were written, or the context is full.
    Length,
    /// The model gave no finite score: its weights are broken or overflow.
    NoFiniteScore,
}

/// What leaves the engine. The last event is `Done`.
#[derive(Clone, Debug)]
pub enum Event {
    /// A long prompt is being read.
    Progress {
        /// Tokens read so far.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
    },
    /// Tokens became final.
    Tokens(Vec<Picked>),
    /// The reply ended.
    Done(FinishReason),
}

/// Why a request was not taken. Nothing has run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// Nothing to continue.
    #[error("the prompt is empty: at least one token is needed")]
    EmptyPrompt,
    /// No room for the prompt and one token more.
    #[error("the prompt has {tokens} tokens; with the reply at most {limit} fit the context")]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens the context holds.
        limit: usize,
    },
    /// A token number beyond the vocabulary.
    #[error("token {token} is not in the vocabulary: numbers 0 to {last} are")]
    UnknownToken {
        /// The number.
        token: TokenId,
        /// The largest number there is.
        last: TokenId,
    },
    /// `max_tokens` of zero.
    #[error("max_tokens is 0: at least 1 is needed")]
    NothingToWrite,
    /// A sampling setting out of range.
    #[error(transparent)]
    Sampling(#[from] BadSampling),
    /// The engine thread has ended.
    #[error("the engine has stopped")]
    Stopped,
}
