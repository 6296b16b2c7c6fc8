//! The configuration of a model: its network, and the facts about it that are not the network.
//!
//! [`gguf`] reads GGUF metadata, [`hugging_face`] reads `config.json` and the files beside it. The
//! network itself is read by the model's family (`families/`).

pub(crate) mod gguf;
pub(crate) mod hugging_face;
pub(crate) mod settings;

use wf_core::{Network, TokenId};

use self::settings::Settings;
use crate::error::{Error, quote_safely};

/// Last part of the error for plain float weights.
pub(crate) const NAIVE_HINT: &str =
    "--naive rounds the weights anyway, for speed tests only: the output is nonsense";

/// Text of the mask token, for files that do not name its id.
pub const MASK_TEXT: &str = "|<MASK>|";

/// A network and the facts about its model.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) network: Network,
    pub(crate) info: ModelInfo,
}

impl Config {
    /// Pairs the two, after checking that `info` fits `network`.
    fn new(file: &str, network: Network, info: ModelInfo) -> Result<Self, Error> {
        info.check(file, network.vocab_len)?;
        Ok(Self { network, info })
    }
}

/// Facts about a model that are not part of its network.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelInfo {
    /// Architecture as the file names it.
    pub architecture: String,
    /// Name of the model.
    pub name: Option<String>,
    /// Maximum number of tokens of a sequence.
    pub context_len: usize,
    /// Token that begins a sequence.
    pub bos: Option<TokenId>,
    /// Tokens that end a completion.
    pub eos: Vec<TokenId>,
    /// Parameters of block diffusion, for models trained for it.
    pub block_diffusion: Option<BlockDiffusion>,
    /// Pooling that the model's embeddings are made with.
    pub pooling: Option<Pooling>,
}

/// Parameters of decoding by block diffusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockDiffusion {
    /// Token that stands for a position not yet decoded.
    pub mask_token: TokenId,
    /// Number of tokens in a block.
    pub block_len: usize,
    /// Number of tokens in each part of a block that is filled at once.
    pub sub_block_len: Option<usize>,
    /// True if the logits at position p score the token at p + 1, false if they score the one at p.
    pub token_shift: bool,
    /// True if finished tokens attend causally, false if they attend to their whole block.
    pub causal_context: bool,
}

/// Reads whether finished tokens attend causally, from a key that is `causal` or `block`.
fn causal_context(settings: &Settings, key: &str) -> Result<Option<bool>, Error> {
    match settings.string(key)? {
        None => Ok(None),
        Some("causal") => Ok(Some(true)),
        Some("block") => Ok(Some(false)),
        Some(other) => {
            let what = format!("\"{}\", must be causal or block", quote_safely(other));
            Err(settings.fault(key, what))
        }
    }
}

/// Longest context.
const MAX_CONTEXT_LEN: usize = i32::MAX as usize;

impl ModelInfo {
    /// Checks that lengths are possible and token ids are in the vocabulary.
    fn check(&self, file: &str, vocab_len: usize) -> Result<(), Error> {
        let reject = |key: &str, what: String| Err(Error::setting(file, key, what));
        if !(1..=MAX_CONTEXT_LEN).contains(&self.context_len) {
            let what = format!("{}, must be between 1 and {MAX_CONTEXT_LEN}", self.context_len);
            return reject("context length", what);
        }
        let mask = self.block_diffusion.map(|block| ("mask token", block.mask_token));
        let bos = self.bos.map(|id| ("bos token", id));
        let eos = self.eos.iter().map(|&id| ("eos token", id));
        for (key, id) in bos.into_iter().chain(eos).chain(mask) {
            if usize::try_from(id).is_ok_and(|id| id >= vocab_len) {
                return reject(key, format!("{id}, must be below the vocabulary size {vocab_len}"));
            }
        }
        let Some(block) = self.block_diffusion else { return Ok(()) };
        if !(1..=self.context_len).contains(&block.block_len) {
            let max = self.context_len;
            let what =
                format!("{}, must be between 1 and the context length {max}", block.block_len);
            return reject("block size", what);
        }
        match block.sub_block_len {
            Some(len) if len == 0 || !block.block_len.is_multiple_of(len) => {
                let what = format!("{len}, must divide the block size {}", block.block_len);
                reject("sub-block size", what)
            }
            _ => Ok(()),
        }
    }
}

/// Hidden states that make up the embedding of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// Mean of all positions.
    Mean = 1,
    /// First position, which in a causal model sees only itself.
    First = 2,
    /// Last position, which sees the whole text.
    Last = 3,
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
        self as u32
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
