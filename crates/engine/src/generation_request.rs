//! Request for a completion as text.

use std::time::Instant;

use wf_core::SamplingParams;
use wf_model::TokenId;
use wf_text::ThinkingStart;

use crate::decode::DecodeMode;
use crate::grammar::Grammar;
use crate::model_text::PromptInput;
use crate::schedule::Origin;

/// Request for a completion as text.
#[derive(Clone, Debug, Default)]
pub struct GenerationRequest {
    /// Prompt.
    pub input: PromptInput,
    /// Sampling parameters. Their seed is replaced by `seed`.
    pub sampling: SamplingParams,
    /// Random seed; a random one if absent.
    pub seed: Option<u64>,
    /// Grammar that constrains the completion.
    pub grammar: Option<Grammar>,
    /// Separates thinking from the answer in a completion that begins here. Stop strings and the grammar are those of
    /// the answer. Set for conversations, if the template declares thinking.
    pub thinking: Option<ThinkingStart>,
    /// Turns the thinking of a conversation on or off; up to the template if absent. The encoded prompt of
    /// [`generate_from`](crate::Frontend::generate_from) has decided it already.
    pub enable_thinking: Option<bool>,
    /// Maximum number of tokens of thinking that the prompt has opened; then the answer begins.
    pub max_thinking_tokens: Option<usize>,
    /// Includes special tokens in the text.
    pub include_specials: bool,
    /// Special tokens that are always part of the text.
    pub visible_specials: Vec<TokenId>,
    /// Decoding mode.
    pub decode: DecodeMode,
    /// Maximum number of tokens; limited by the context if absent.
    pub max_tokens: Option<usize>,
    /// Minimum number of tokens.
    pub min_tokens: usize,
    /// Stop strings. They are not part of the text.
    pub stop: Vec<String>,
    /// Tokens that end the completion, in addition to the model's end tokens.
    pub stop_tokens: Vec<TokenId>,
    /// Continues after the model's end tokens.
    pub ignore_eos: bool,
    /// Reports logprobs of each token, and of this many alternatives.
    pub logprobs: Option<usize>,
    /// Reports the same for the prompt tokens.
    pub prompt_logprobs: Option<usize>,
    /// Salt of the prefix cache: only requests with equal salts share K/V.
    pub cache_salt: u64,
    /// Priority among the requests of its caller: higher runs first.
    pub priority: i32,
    /// Caller and request, between which steps and pages are shared.
    pub origin: Origin,
    /// Maximum number of tokens in the K/V cache of all running sequences of the caller.
    pub max_kv_tokens: Option<usize>,
    /// Time at which the completion ends, finished or not.
    pub deadline: Option<Instant>,
}

impl GenerationRequest {
    /// Creates a request for a greedy completion.
    pub fn new(input: PromptInput) -> Self {
        Self { input, ..Self::default() }
    }
}
