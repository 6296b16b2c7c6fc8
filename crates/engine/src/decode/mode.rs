//! Interface of decoding modes: their settings, and the capabilities of models that decide which are supported.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use wf_model::{BlockDiffusion, Window};

use super::Decoder;

/// A decoding mode, implemented by its parameters.
pub(super) trait Mode {
    /// Describes the mode.
    fn info(&self) -> ModeInfo;

    /// Applies one of the mode's settings. Its value has the declared type.
    fn set(&mut self, _name: &str, _value: &Value) -> Result<(), UnsupportedMode> {
        Ok(())
    }

    /// Returns `true` if the mode is the default of such a model.
    fn is_default(&self, _model: Capabilities) -> bool {
        false
    }

    /// Returns a decoder for such a model, or the reason why the model does not support the mode.
    fn decoder(&self, model: Capabilities) -> Result<Box<dyn Decoder>, UnsupportedMode>;
}

/// Description of a decoding mode.
#[derive(Clone, Copy, Debug)]
pub struct ModeInfo {
    /// Name in requests and on the command line.
    pub name: &'static str,
    /// One line for help texts.
    pub summary: &'static str,
    /// Settings of the mode, in the order in which they apply.
    pub settings: &'static [Setting],
    /// True if tokens are sampled from left to right, as grammars and prompt logprobs need it.
    pub is_left_to_right: bool,
    /// True if a draft model is used where one is loaded.
    pub uses_draft_model: bool,
}

impl ModeInfo {
    pub(super) const DEFAULT: Self = Self {
        name: "",
        summary: "",
        settings: &[],
        is_left_to_right: true,
        uses_draft_model: false,
    };
}

/// Declaration of a setting. API fields, command-line flags and type checks derive from it.
#[derive(Debug, PartialEq, Eq)]
pub struct Setting {
    /// Object of an API request that holds the setting.
    pub object: &'static str,
    /// Name of the setting inside that object.
    pub name: &'static str,
    /// Type of its value.
    pub kind: SettingKind,
    /// One line of documentation, without a full stop.
    pub help: &'static str,
    /// Long name of its command-line flag, without dashes.
    pub flag: Option<&'static str>,
}

/// Type of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// A non-negative integer.
    Count,
    /// A number.
    Number,
    /// A boolean.
    Bool,
    /// A name.
    Name,
}

impl SettingKind {
    /// Returns a description if the value does not have this type.
    pub fn mismatch(self, value: &Value) -> Option<&'static str> {
        let (matches, expected) = match self {
            Self::Count => (value.is_u64(), "a whole number"),
            Self::Number => (value.is_number(), "a number"),
            Self::Bool => (value.is_boolean(), "true or false"),
            Self::Name => (value.is_string(), "a string"),
        };
        (!matches).then_some(expected)
    }
}

/// Returns the value of a setting of the type `Count`.
pub(super) fn count(value: &Value) -> usize {
    value.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX)
}

/// Returns the value of a setting of the type `Number`.
pub(super) fn number(value: &Value) -> f32 {
    value.as_f64().unwrap_or(f64::NAN) as f32
}

/// Decoding settings of a request or of the command line. Absent ones keep their defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecodeSettings {
    /// Name of a mode.
    pub mode: Option<String>,
    /// Settings by object and name.
    pub objects: BTreeMap<String, Map<String, Value>>,
}

impl DecodeSettings {
    /// Returns settings that select a mode by name.
    pub fn of_mode(name: &str) -> Self {
        Self { mode: Some(name.to_owned()), ..Self::default() }
    }

    /// Returns `self` with one more setting.
    #[must_use]
    pub fn with(mut self, object: &str, name: &str, value: impl Into<Value>) -> Self {
        self.objects.entry(object.to_owned()).or_default().insert(name.to_owned(), value.into());
        self
    }
}

/// Properties of a loaded model that decide which modes it supports.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// Block layout of a model trained to fill masks.
    pub blocks: Option<BlockDiffusion>,
    /// True if a draft model is loaded.
    pub draft_model: bool,
    /// True if the model has a multi-token prediction head.
    pub mtp: bool,
    /// Maximum number of tokens of a step.
    pub max_batch_tokens: usize,
    /// True if the model has recurrent layers, which see no tokens behind their own.
    pub recurrent: bool,
    /// Positions that attention reads, if not all.
    pub window: Option<Window>,
}

impl Capabilities {
    /// Returns `true` if the logits of a token predict the token after it.
    pub(super) fn predicts_next_token(&self) -> bool {
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

    /// Rejects a mode whose tokens see tokens behind them.
    pub(super) fn require_no_states(&self, mode: &str) -> Result<(), UnsupportedMode> {
        match self.recurrent {
            false => Ok(()),
            true => Err(UnsupportedMode(format!(
                "decode is {mode}, but the model has recurrent layers, which see no tokens behind their own: use \
                 autoregressive, lookup or drafted"
            ))),
        }
    }

    /// Rejects blocks whose tokens would not see each other.
    pub(crate) fn require_in_window(&self, block_len: usize) -> Result<(), UnsupportedMode> {
        match self.window.filter(|window| window.len < block_len) {
            None => Ok(()),
            Some(Window { len, .. }) => Err(UnsupportedMode(format!(
                "tokens are read in blocks of {block_len}, but --attention reads a window of {len}: it must be at \
                 least as long as a block"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_at_least_as_long_as_a_block() {
        let capabilities = |window| Capabilities {
            blocks: None,
            draft_model: false,
            mtp: false,
            max_batch_tokens: 64,
            recurrent: false,
            window,
        };
        let sliding = capabilities(Some(Window { len: 32, sinks: 4 }));
        assert_eq!(sliding.require_in_window(32), Ok(()));
        let message = sliding.require_in_window(33).unwrap_err().to_string();
        assert!(message.contains("blocks of 33"), "{message}");
        assert!(message.contains("a window of 32"), "{message}");
        assert_eq!(capabilities(None).require_in_window(1024), Ok(()));
    }
}
