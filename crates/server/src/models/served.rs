//! A loaded model, and facts about it that stay known when it leaves memory.

use std::ops::Deref;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use wf_core::{AttentionMode, SamplingParams, TokenId};
use wf_engine::{Capabilities, DecodeMode, Frontend, MODES};

use super::listing::Listing;
use crate::error::ApiError;

/// Facts that the operator's options and the loaded model decide together.
#[derive(Clone, Debug)]
pub struct Description {
    /// Facts that were known before.
    pub listing: Listing,
    /// Digest of its weights.
    pub digest: String,
    /// Instruction set in use.
    pub isa: String,
    /// Number of worker threads.
    pub threads: usize,
    /// Data type of the KV cache.
    pub kv: String,
    /// Activations that are set to zero: text that differs where results do.
    pub activation_sparsity: String,
    /// Maximum number of sequences that run at once.
    pub max_running: usize,
    /// Memory of weights and KV cache in bytes.
    pub memory_bytes: usize,
    /// Sampling parameters of requests that do not set them.
    pub defaults: SamplingParams,
    /// Decoding mode of requests that do not set it.
    pub decode: DecodeMode,
}

/// Facts about a model that has been loaded. They stay known when it leaves memory.
pub struct Profile {
    description: Description,
    pub(crate) context_len: usize,
    /// Maximum number of tokens of prompt and completion.
    pub(crate) max_len: usize,
    pub(crate) attention: AttentionMode,
    pub(crate) kv_tokens: usize,
    /// Number of weights.
    pub(crate) parameters: u64,
    /// The chat template declares thinking.
    pub(crate) can_think: bool,
    /// Number of tokens that the output head knows.
    pub(crate) vocab_len: usize,
    /// Number of tokens that the tokenizer knows.
    pub(crate) tokenizer_len: usize,
    pub(crate) template: Option<String>,
    pub(crate) bos: Option<String>,
    pub(crate) eos: Option<String>,
    pub(crate) capabilities: Capabilities,
    /// Decoding modes that the model supports.
    pub(crate) modes: Vec<DecodeMode>,
}

impl Profile {
    fn new(frontend: &Frontend, description: Description) -> Self {
        let (engine, text) = (frontend.engine(), frontend.text());
        let is_supported = |mode: &DecodeMode| engine.check_mode(*mode).is_ok();
        Self {
            description,
            context_len: frontend.context_len(),
            max_len: engine.max_len(),
            attention: engine.attention(),
            kv_tokens: engine.kv_tokens(),
            parameters: engine.parameters(),
            can_think: text.can_think(),
            vocab_len: engine.vocab_len(),
            tokenizer_len: text.tokenizer.len(),
            template: text.template_source.clone(),
            bos: text.bos_text.clone(),
            eos: text.eos_text.clone(),
            capabilities: engine.capabilities(),
            modes: MODES.into_iter().filter(is_supported).collect(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.listing.name()
    }

    /// Returns the fingerprint: equal requests with equal fingerprints get equal responses.
    pub(crate) fn fingerprint(&self) -> String {
        let digest = self.digest.get(..12).unwrap_or(&self.digest);
        let attention = match self.attention {
            AttentionMode::Dense => String::new(),
            mode => format!("-{mode}"),
        };
        let zeros = match self.activation_sparsity.as_str() {
            "off" => String::new(),
            // As many digits of a calibration's digest as of the model's.
            zeros => format!("-{}", zeros.get(..22).unwrap_or(zeros)),
        };
        format!("wf-n{}-{}{attention}-{digest}{zeros}", wf_engine::NUMERICS, self.kv)
    }
}

impl Deref for Profile {
    type Target = Description;

    fn deref(&self) -> &Description {
        &self.description
    }
}

/// A loaded model: its engine with tokenizer and chat template, and its description.
pub struct ServedModel {
    pub(crate) frontend: Frontend,
    pub(super) profile: Arc<Profile>,
}

impl Deref for ServedModel {
    type Target = Profile;

    fn deref(&self) -> &Profile {
        &self.profile
    }
}

impl ServedModel {
    /// Describes a loaded model.
    pub fn new(frontend: Frontend, description: Description) -> Self {
        let profile = Arc::new(Profile::new(&frontend, description));
        Self { frontend, profile }
    }

    /// Returns the number of tokens of the context.
    pub fn context_len(&self) -> usize {
        self.context_len
    }

    /// Returns the number of tokens that the KV cache holds.
    pub fn kv_tokens(&self) -> usize {
        self.kv_tokens
    }

    /// Runs `work` on a thread where it may take long.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Frontend) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let frontend = self.frontend.clone();
        spawn_blocking(move || work(&frontend)).await.map_err(|_| ApiError::internal())
    }

    /// Rejects token ids that are not in the vocabulary.
    pub(crate) fn check_tokens(&self, field: &str, tokens: &[TokenId]) -> Result<(), ApiError> {
        let vocab_len = self.vocab_len;
        match tokens.iter().find(|&&token| token as usize >= vocab_len) {
            None => Ok(()),
            Some(token) => {
                let what =
                    format!("{token} is not a token id: must be between 0 and {}", vocab_len - 1);
                Err(ApiError::at(field, &what))
            }
        }
    }
}
