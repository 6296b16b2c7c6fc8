//! Facts about the model of an engine: its sizes, its capabilities, and the limits that requests have to keep.

use wf_model::{AttentionMode, Forward, PAGE_LEN};

use super::EngineHandle;
use crate::decode::{Capabilities, DecodeMode, UnsupportedMode};
use crate::options::EngineOptions;
use crate::parameters;
use crate::prefix::window_pages;

#[derive(Clone, Copy)]
pub(super) struct ModelFacts {
    context_len: usize,
    attention: AttentionMode,
    /// Maximum number of pages that a sequence holds at once.
    pub(super) max_pages: usize,
    pub(super) vocab_len: usize,
    hidden_len: usize,
    parameters: u64,
    pub(super) capabilities: Capabilities,
    pages: usize,
}

impl ModelFacts {
    pub(super) fn new(model: &impl Forward, has_draft: bool, options: &EngineOptions) -> Self {
        let (network, info) = (model.network(), model.info());
        let (window, in_pages) = (model.attention().window(), model.pages() * PAGE_LEN);
        // Pages are for a part of a sequence that a window slides over.
        let in_pages = if window.is_some() { usize::MAX } else { in_pages };
        let context_len = info.context_len.min(in_pages);
        Self {
            context_len: options.context_len.map_or(context_len, |len| len.min(context_len)),
            attention: model.attention(),
            max_pages: window
                .map_or(usize::MAX, |window| window_pages(window, model.max_batch_tokens())),
            vocab_len: network.vocab_len,
            hidden_len: network.hidden_len,
            parameters: parameters::count(network),
            capabilities: Capabilities {
                blocks: options.blocks.or(info.block_diffusion),
                draft_model: has_draft,
                mtp: network.mtp.is_some(),
                max_batch_tokens: model.max_batch_tokens(),
                recurrent: network.is_recurrent(),
                window,
            },
            pages: model.pages(),
        }
    }

    pub(super) fn max_len(&self) -> usize {
        self.attention.max_len(self.context_len)
    }

    pub(super) fn max_len_within(&self, max_kv_tokens: Option<usize>) -> usize {
        let fits = |max: usize| self.attention.window().is_some_and(|w| max >= w.positions());
        let limit = max_kv_tokens.filter(|max| !fits(*max));
        limit.map_or(self.max_len(), |max| max.min(self.max_len()))
    }

    /// Limits `max_tokens` of a completion to the room that a prompt leaves of `max_len`. With a window, a
    /// completion without a limit has at most as many tokens as the context.
    pub(super) fn limited(&self, max_tokens: usize, prompt_len: usize, max_len: usize) -> usize {
        let has_limit = max_tokens < usize::MAX || self.attention.window().is_none();
        let room = max_len - prompt_len;
        let room = if has_limit { room } else { room.min(self.context_len) };
        max_tokens.min(room)
    }
}

impl EngineHandle {
    /// Returns the size of the vocabulary.
    pub fn vocab_len(&self) -> usize {
        self.facts.vocab_len
    }

    /// Returns the length of a hidden state.
    pub fn hidden_len(&self) -> usize {
        self.facts.hidden_len
    }

    /// Returns the number of parameters of the model.
    pub fn parameters(&self) -> u64 {
        self.facts.parameters
    }

    /// Returns the capabilities of the model.
    pub fn capabilities(&self) -> Capabilities {
        self.facts.capabilities
    }

    /// Checks that the model supports a decoding mode.
    ///
    /// # Errors
    ///
    /// If the model does not support the mode or one of its parameters.
    pub fn check_mode(&self, mode: DecodeMode) -> Result<(), UnsupportedMode> {
        mode.decoder(self.facts.capabilities).map(drop)
    }

    /// Returns the number of tokens that the K/V cache holds.
    pub fn kv_tokens(&self) -> usize {
        self.facts.pages * PAGE_LEN
    }

    /// Returns the number of tokens of the context: the most that attention reads.
    pub fn context_len(&self) -> usize {
        self.facts.context_len
    }

    /// Returns the positions that attention reads.
    pub fn attention(&self) -> AttentionMode {
        self.facts.attention
    }

    /// Returns the maximum number of tokens of prompt and completion: the context, unless a window slides over
    /// more.
    pub fn max_len(&self) -> usize {
        self.facts.max_len()
    }

    /// Returns the maximum number of tokens of prompt and completion of a caller with at most `max_kv_tokens` in
    /// the K/V cache. A window that fits into these slides over any number.
    pub fn max_len_within(&self, max_kv_tokens: Option<usize>) -> usize {
        self.facts.max_len_within(max_kv_tokens)
    }
}
