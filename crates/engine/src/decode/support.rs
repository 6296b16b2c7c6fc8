//! Interface of decoding modes, and the capabilities of models that decide which of them are supported.

use serde_json::Value;
use wf_model::BlockDiffusion;

use super::Decoder;
use super::settings::Setting;

/// Description of a decoding mode, implemented by its parameters.
pub(super) trait Mode {
    /// Name in requests and on the command line.
    fn name(&self) -> &'static str;

    /// One line for help texts.
    fn summary(&self) -> &'static str;

    /// Settings of the mode, in the order in which they apply.
    fn settings(&self) -> &'static [Setting] {
        &[]
    }

    /// Applies one of `settings`. Its value has the declared type.
    fn set(&mut self, _name: &str, _value: &Value) -> Result<(), UnsupportedMode> {
        Ok(())
    }

    /// Returns `true` if the mode is the default of such a model.
    fn is_default(&self, _model: Capabilities) -> bool {
        false
    }

    /// Returns `true` if tokens are sampled from left to right, as grammars and prompt logprobs need it.
    fn is_left_to_right(&self) -> bool {
        true
    }

    /// Returns `true` if a draft model is used where one is loaded.
    fn uses_draft_model(&self) -> bool {
        false
    }

    /// Returns a decoder for such a model, or the reason why the model does not support the mode.
    fn decoder(&self, model: Capabilities) -> Result<Box<dyn Decoder>, UnsupportedMode>;
}

/// Properties of a loaded model that decide which modes it supports.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// Block layout of a model trained to fill masks.
    pub blocks: Option<BlockDiffusion>,
    /// True if a draft model is loaded.
    pub draft_model: bool,
    /// Maximum number of tokens of a step.
    pub max_batch_tokens: usize,
}

impl Capabilities {
    /// Returns `true` if the logits of a token predict the token after it.
    pub fn predicts_next_token(&self) -> bool {
        self.blocks.is_none_or(|blocks| blocks.token_shift)
    }

    pub(super) fn require_next_token(&self, mode: &str) -> Result<(), UnsupportedMode> {
        match self.predicts_next_token() {
            true => Ok(()),
            false => Err(UnsupportedMode(format!(
                "decode is {mode}, but the logits of this model predict the token in place, not the next one: \
                 use diffusion"
            ))),
        }
    }
}

/// Error for a decoding mode, or settings of one, that the model does not support.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnsupportedMode(pub String);

impl UnsupportedMode {
    pub(super) fn no_masks(mode: &str) -> Self {
        Self(format!(
            "decode is {mode}, but the model was not trained to fill masks: its file has no block_diffusion, \
             bd_size, block_size or mask token (autoregressive and lookup work with every model)"
        ))
    }
}
