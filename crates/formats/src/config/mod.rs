//! The configuration of a model: its network, and the facts about it that are not the network.
//!
//! [`gguf`] reads GGUF metadata, [`hugging_face`] reads `config.json` and the files beside it. The
//! network itself is read by the model's family (`families/`).

pub(crate) mod gguf;
pub(crate) mod hugging_face;
mod pooling;
pub(crate) mod settings;

pub use pooling::Pooling;
use wf_core::{Network, TokenId};

use crate::error::Error;

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
