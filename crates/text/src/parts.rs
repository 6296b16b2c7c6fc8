//! Contents of a vocabulary file, in one form for all file formats.

use crate::TokenId;
use crate::added::AddedToken;
use crate::bpe::{BpeRules, MergeSource};
use crate::normalize::Normalizer;
use crate::split::Splitter;
use crate::vocab::Alphabet;

pub(crate) struct Parts {
    pub(crate) alphabet: Alphabet,
    pub(crate) entries: Vec<(String, TokenId)>,
    pub(crate) added: Vec<AddedToken>,
    pub(crate) merges: MergeSource,
    pub(crate) rules: BpeRules,
    pub(crate) normalizer: Vec<Normalizer>,
    pub(crate) splitter: Splitter,
    pub(crate) ends: PromptEnds,
    /// Decoding drops the space that encoding put before the first word.
    pub(crate) strip_leading_space: bool,
}

/// Tokens around a raw prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PromptEnds {
    pub(crate) prefix: Vec<TokenId>,
    pub(crate) suffix: Vec<TokenId>,
    pub(crate) bos: Option<TokenId>,
}
