//! How the hidden states of a text become one vector.

use crate::config::settings::Settings;
use crate::error::Error;

/// Which hidden states of a text its embedding is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// The mean of all of them.
    Mean,
    /// The first one, which in a causal model has seen nothing but itself.
    First,
    /// The last one, which has seen all.
    Last,
}

impl Pooling {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Mean, Self::First, Self::Last];

    /// The name that llama.cpp, sentence-transformers and our own keys use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::First => "cls",
            Self::Last => "last",
        }
    }

    /// The pooling of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pooling| pooling.name() == name)
    }

    /// The number in `pooling_type` of a GGUF file.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Mean => 1,
            Self::First => 2,
            Self::Last => 3,
        }
    }

    /// The same back; 0 is none, and larger ones are no embeddings.
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|pooling| pooling.number() == number)
    }

    /// What `1_Pooling/config.json` of sentence-transformers says. Of several at once it would make
    /// a longer vector: then nothing is said.
    pub(crate) fn from_sentence_transformers(settings: &Settings) -> Result<Option<Self>, Error> {
        let keys = [
            ("pooling_mode_mean_tokens", Some(Self::Mean)),
            ("pooling_mode_cls_token", Some(Self::First)),
            ("pooling_mode_lasttoken", Some(Self::Last)),
            ("pooling_mode_max_tokens", None),
            ("pooling_mode_mean_sqrt_len_tokens", None),
            ("pooling_mode_weightedmean_tokens", None),
        ];
        let mut asked = Vec::new();
        for (key, pooling) in keys {
            if settings.bool(key)? == Some(true) {
                asked.push(pooling);
            }
        }
        Ok(match asked.as_slice() {
            [one] => *one,
            _ => None,
        })
    }
}
