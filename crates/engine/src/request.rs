//! Requests to the engine, and the events they produce.

use std::time::Instant;

use wf_core::{SamplingError, SamplingParams};
use wf_model::{Pooling, TokenId};

use crate::decode::{DecodeMode, UnsupportedMode};
use crate::grammar::Grammar;
use crate::output::{DecodeStats, FinishReason, Limits, Logprobs, SampledToken};
use crate::schedule::Origin;
use crate::thinking::Thinking;

/// Request for a completion.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Prompt tokens.
    pub prompt: Vec<TokenId>,
    /// Sampling parameters.
    pub sampling: SamplingParams,
    /// Grammar that constrains the completion.
    pub grammar: Option<Grammar>,
    /// Thinking that the prompt has opened. It is not constrained by the grammar.
    pub thinking: Option<Thinking>,
    /// Decoding mode.
    pub decode: DecodeMode,
    /// Conditions that end the completion.
    pub limits: Limits,
    /// Reports logprobs of each token, and of this many alternatives.
    pub logprobs: Option<usize>,
    /// Reports the same for the prompt tokens.
    pub prompt_logprobs: Option<usize>,
    /// Salt of the prefix cache: only requests with equal salts share K/V.
    pub cache_salt: u64,
    /// Priority among the requests of its caller: higher runs first; equal ones in order of arrival.
    pub priority: i32,
    /// Caller and request, between which steps and pages are shared.
    pub origin: Origin,
    /// Maximum number of tokens in the K/V cache of all running sequences of the caller.
    pub max_kv_tokens: Option<usize>,
}

impl Request {
    /// Checks the request against the maximum length and the vocabulary of a model.
    pub(crate) fn check(&self, limit: usize, vocab_len: usize) -> Result<(), RequestError> {
        let tokens = self.prompt.len();
        // Without tokens to generate, the prompt may fill the context.
        let has_room = tokens < limit || (tokens == limit && self.limits.max_tokens == 0);
        if !has_room {
            return Err(RequestError::PromptTooLong { tokens, limit });
        }
        if self.limits.max_tokens == 0 && self.prompt_logprobs.is_none() {
            return Err(RequestError::ZeroMaxTokens);
        }
        check_tokens(&self.prompt, vocab_len)?;
        self.limits.stop_tokens.iter().try_for_each(|&token| check_token(token, vocab_len))?;
        if !self.decode.is_left_to_right() {
            let mode = self.decode.name();
            let conflict = |field: &str| {
                let reason = "it needs tokens to be decoded from left to right";
                Err(UnsupportedMode(format!("{field} does not work with decode {mode}: {reason}")))
            };
            if self.prompt_logprobs.is_some() {
                conflict("prompt_logprobs")?;
            }
            if self.grammar.is_some() {
                conflict("a grammar")?;
            }
            if self.thinking.as_ref().is_some_and(|thinking| thinking.max_tokens.is_some()) {
                conflict("a limit of thinking tokens")?;
            }
        }
        Ok(self.sampling.check(vocab_len)?)
    }
}

fn check_tokens(tokens: &[TokenId], vocab_len: usize) -> Result<(), RequestError> {
    if tokens.is_empty() {
        return Err(RequestError::EmptyPrompt);
    }
    tokens.iter().try_for_each(|&token| check_token(token, vocab_len))
}

fn check_token(token: TokenId, vocab_len: usize) -> Result<(), RequestError> {
    match (token as usize) < vocab_len {
        true => Ok(()),
        false => Err(RequestError::UnknownToken { token, last: vocab_len as TokenId - 1 }),
    }
}

/// Request for the embedding of a text.
#[derive(Clone, Debug)]
pub struct EmbeddingRequest {
    /// Tokens of the text.
    pub tokens: Vec<TokenId>,
    /// Pooling of the hidden states; the model's own if absent.
    pub pooling: Option<Pooling>,
    /// Number of dimensions to return; all if absent.
    pub dimensions: Option<usize>,
    /// Salt of the prefix cache: only requests with equal salts share K/V.
    pub cache_salt: u64,
    /// Priority among the requests of its caller: higher runs first.
    pub priority: i32,
    /// Caller and request, between which steps and pages are shared.
    pub origin: Origin,
    /// Maximum number of tokens in the K/V cache of all running sequences of the caller.
    pub max_kv_tokens: Option<usize>,
    /// Time at which the request is abandoned.
    pub deadline: Option<Instant>,
}

impl EmbeddingRequest {
    /// Creates a request with the model's own pooling and all dimensions.
    pub fn new(tokens: Vec<TokenId>) -> Self {
        Self {
            tokens,
            pooling: None,
            dimensions: None,
            cache_salt: 0,
            priority: 0,
            origin: Origin::default(),
            max_kv_tokens: None,
            deadline: None,
        }
    }

    /// Checks the request against the maximum length and the vocabulary of a model.
    pub(crate) fn check(&self, limit: usize, vocab_len: usize) -> Result<(), RequestError> {
        let tokens = self.tokens.len();
        if tokens > limit {
            return Err(RequestError::TextTooLong { tokens, limit });
        }
        check_tokens(&self.tokens, vocab_len)
    }
}

/// Event of a running request. The last one is `Done`.
#[derive(Clone, Debug)]
pub enum Event {
    /// The request starts to run.
    Started {
        /// Number of prompt tokens whose K/V was cached.
        cached: usize,
    },
    /// Logprobs of the next prompt tokens, from the second one on.
    PromptLogprobs(Vec<Logprobs>),
    /// Progress of prefill, for prompts that take several steps.
    Progress {
        /// Number of prompt tokens processed so far.
        done: usize,
        /// Number of prompt tokens.
        total: usize,
    },
    /// Tokens were appended to the completion.
    Tokens {
        /// The tokens.
        tokens: Vec<SampledToken>,
        /// Counters of the completion so far.
        stats: DecodeStats,
    },
    /// Block in progress, if previews are requested; `None` stands for a mask.
    Preview(Vec<Option<TokenId>>),
    /// Pooled hidden states of an embedding request.
    Embedding(Vec<f32>),
    /// The request ended.
    Done(FinishReason),
}

/// Error for a request that the engine does not accept. Nothing has run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// The prompt is empty.
    #[error("prompt is empty: at least one token is required")]
    EmptyPrompt,
    /// The prompt leaves no room for a token in the context.
    #[error(
        "prompt has {tokens} tokens: prompt and completion must fit the context of {limit} tokens"
    )]
    PromptTooLong {
        /// Number of prompt tokens.
        tokens: usize,
        /// Context length.
        limit: usize,
    },
    /// The text to embed exceeds the context.
    #[error("text has {tokens} tokens: it must fit the context of {limit} tokens")]
    TextTooLong {
        /// Number of tokens of the text.
        tokens: usize,
        /// Context length.
        limit: usize,
    },
    /// A token id outside of the vocabulary.
    #[error("token id {token} is not in the vocabulary: ids must be between 0 and {last}")]
    UnknownToken {
        /// The token id.
        token: TokenId,
        /// Highest token id of the vocabulary.
        last: TokenId,
    },
    /// `max_tokens` is zero.
    #[error("max_tokens is 0: must be at least 1")]
    ZeroMaxTokens,
    /// The queue is full.
    #[error("the queue is full: {waiting} requests are waiting; try again later")]
    QueueFull {
        /// Number of waiting requests.
        waiting: usize,
    },
    /// The request has more sequences than an empty queue has room for.
    #[error("the request has {count} sequences: the queue has room for {limit}")]
    TooManySequences {
        /// Number of sequences.
        count: usize,
        /// Maximum number of waiting sequences.
        limit: usize,
    },
    /// A sampling parameter is out of range.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The model, or another parameter, does not support the decoding mode.
    #[error(transparent)]
    UnsupportedMode(#[from] UnsupportedMode),
    /// The engine thread has ended.
    #[error("the engine has stopped")]
    EngineStopped,
}
