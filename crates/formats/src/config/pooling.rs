//! Pooling of hidden states into one embedding.

use crate::config::settings::Settings;
use crate::error::Error;

/// Hidden states that make up the embedding of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// Mean of all positions.
    Mean,
    /// First position, which in a causal model sees only itself.
    First,
    /// Last position, which sees the whole text.
    Last,
}

impl Pooling {
    /// All kinds of pooling.
    pub const ALL: [Self; 3] = [Self::Mean, Self::First, Self::Last];

    /// Name in llama.cpp, sentence-transformers and configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::First => "cls",
            Self::Last => "last",
        }
    }

    /// Returns the pooling with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pooling| pooling.name() == name)
    }

    /// Value of `pooling_type` in a GGUF file.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Mean => 1,
            Self::First => 2,
            Self::Last => 3,
        }
    }

    /// Returns the pooling of a `pooling_type`; `None` for 0 and for models that are not for embeddings.
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|pooling| pooling.number() == number)
    }

    /// Reads `1_Pooling/config.json` of sentence-transformers. Several modes at once make a longer
    /// vector, which is not supported: then there is none.
    pub(crate) fn from_sentence_transformers(settings: &Settings) -> Result<Option<Self>, Error> {
        let keys = [
            ("pooling_mode_mean_tokens", Some(Self::Mean)),
            ("pooling_mode_cls_token", Some(Self::First)),
            ("pooling_mode_lasttoken", Some(Self::Last)),
            ("pooling_mode_max_tokens", None),
            ("pooling_mode_mean_sqrt_len_tokens", None),
            ("pooling_mode_weightedmean_tokens", None),
        ];
        let mut modes = Vec::new();
        for (key, pooling) in keys {
            if settings.bool(key)? == Some(true) {
                modes.push(pooling);
            }
        }
        Ok(match modes.as_slice() {
            [one] => *one,
            _ => None,
        })
    }
}
