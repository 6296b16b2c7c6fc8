//! Vocabularies as GGUF files store them.

use crate::TokenId;

/// The `tokenizer.ggml.*` tables of a GGUF file.
///
/// Tables have one entry per token or are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vocabulary {
    /// Tokenizer model: `gpt2` is byte-level BPE, `llama` is SentencePiece with scores.
    pub model: String,
    /// Name of the pre-tokenizer of a `gpt2` model, for example `llama-bpe`.
    pub pre: Option<String>,
    /// Text of each token, in order of token ids.
    pub tokens: Vec<String>,
    /// [Type](token_type) of each token; an empty table means that all are normal.
    pub token_types: Vec<i32>,
    /// Merges of a `gpt2` model as `"left right"`, highest priority first.
    pub merges: Vec<String>,
    /// Score of each token of a `llama` model.
    pub scores: Vec<f32>,
    /// First token of a sequence.
    pub bos: Option<TokenId>,
    /// Token that ends a text.
    pub eos: Option<TokenId>,
    /// Token that ends a turn of a chat.
    pub eot: Option<TokenId>,
    /// Prepends `bos` to a prompt; absent, it is true for `llama` models and the Llama 3 family.
    pub add_bos: Option<bool>,
    /// Appends `eos` to a text to embed; absent, it is false.
    pub add_eos: Option<bool>,
    /// Prepends a space to the text of a `llama` model; absent, it is true.
    pub add_space_prefix: Option<bool>,
}

impl Vocabulary {
    /// Maximum number of tokens and of merges. Keeps the memory of a vocabulary below 64 MiB.
    pub const MAX_ENTRIES: usize = 1 << 20;
    /// Maximum length of the text of a token in bytes.
    pub const MAX_TOKEN_LEN: usize = 64 << 10;

    /// Returns the id of the token with this text.
    pub fn find(&self, text: &str) -> Option<TokenId> {
        self.tokens.iter().position(|token| token == text).and_then(|at| at.try_into().ok())
    }
}

/// Values of `tokenizer.ggml.token_type`.
pub mod token_type {
    /// Ordinary text.
    pub const NORMAL: i32 = 1;
    /// Stands for text that has no token.
    pub const UNKNOWN: i32 = 2;
    /// Control token, such as begin of text or end of turn.
    pub const CONTROL: i32 = 3;
    /// Added by a user; matched as a whole wherever it occurs.
    pub const USER_DEFINED: i32 = 4;
    /// Placeholder without a meaning.
    pub const UNUSED: i32 = 5;
    /// Byte that no other token covers.
    pub const BYTE: i32 = 6;
}
