//! What enters the engine, what leaves it, and why it may be refused.

use std::time::Instant;

use wf_model::TokenId;

use crate::decode::{DecodeMode, Unsupported};
use crate::grammar::Grammar;
use crate::sample::{BadSampling, SamplingParams};

/// Where a reply ends.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The most tokens to write.
    pub max_tokens: usize,
    /// Tokens that end the reply. They are part of it.
    pub stop_tokens: Vec<TokenId>,
    /// Stop tokens are not picked before this many tokens were written.
    pub min_tokens: usize,
    /// When to end it, finished or not.
    pub deadline: Option<Instant>,
}

/// One reply to write.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// What comes before it.
    pub prompt: Vec<TokenId>,
    /// How scores become tokens.
    pub sampling: SamplingParams,
    /// What form it must have, if any.
    pub grammar: Option<Grammar>,
    /// How tokens are found.
    pub decode: DecodeMode,
    /// Where it ends.
    pub limits: Limits,
    /// Tell how likely each token was, and that of this many of the likeliest in its place.
    pub logprobs: Option<usize>,
    /// The same for the tokens of the prompt.
    pub prompt_logprobs: Option<usize>,
    /// Only requests with the same salt share K/V of prompts that start alike.
    pub cache_salt: u64,
    /// Higher runs first; among equals, who came first.
    pub priority: i32,
}

/// A token that is final.
#[derive(Clone, Debug, PartialEq)]
pub struct Picked {
    /// Its number.
    pub token: TokenId,
    /// How likely it was, if asked for.
    pub logprobs: Option<Logprobs>,
}

/// How likely a token was by the model's own scores: before bias, penalties and temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// The natural logarithm of its probability.
    pub logprob: f32,
    /// The likeliest tokens in its place with theirs, likeliest first.
    pub top: Vec<(TokenId, f32)>,
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// A stop token was written, or the grammar allows no more.
    Stop,
    /// `max_tokens` were written, or the context is full.
    Length,
    /// Its deadline passed.
    Deadline,
    /// The model gave no finite score: its weights are broken or overflow.
    NoFiniteScore,
    /// The grammar allowed no token, or became too large to follow.
    DeadEnd,
    /// The step it was part of panicked.
    Failed,
}

impl FinishReason {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Deadline => "deadline",
            Self::NoFiniteScore | Self::DeadEnd | Self::Failed => "error",
        }
    }
}

/// What it took to write a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Forward passes, those that only read the prompt not counted.
    pub passes: usize,
    /// Rows of those passes.
    pub rows: usize,
    /// Tokens that were guessed and checked.
    pub drafted: usize,
    /// Those of them that were right.
    pub agreed: usize,
}

/// What leaves the engine. The last event is `Done`.
#[derive(Clone, Debug)]
pub enum Event {
    /// It begins, for the first time.
    Started {
        /// Tokens of the prompt whose K/V was there already.
        cached: usize,
    },
    /// How likely the next tokens of the prompt are, from its second one on, if asked for.
    PromptLogprobs(Vec<Logprobs>),
    /// A long prompt is being read.
    Progress {
        /// Tokens read so far.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
    },
    /// Tokens became final.
    Tokens {
        /// The tokens.
        picked: Vec<Picked>,
        /// What it took to find all tokens so far.
        work: Work,
    },
    /// How the block being filled stands, if asked for: nothing where a mask is.
    Preview(Vec<Option<TokenId>>),
    /// What the text comes to, where that was asked for and not a reply.
    Embedding(Vec<f32>),
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
    /// A text to embed that the context cannot hold.
    #[error("the text has {tokens} tokens; at most {limit} fit the context")]
    TextTooLong {
        /// Tokens of the text.
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
    /// Too many wait already.
    #[error("{waiting} requests wait already, no more are taken: try again later")]
    Busy {
        /// How many.
        waiting: usize,
    },
    /// A sampling setting out of range.
    #[error(transparent)]
    Sampling(#[from] BadSampling),
    /// A way to decode that this model, or what else was asked for, does not allow.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The engine thread has ended.
    #[error("the engine has stopped")]
    Stopped,
}
