//! Where a model's tokens come from: a `tokenizer.json`, or the vocabulary inside a GGUF file.
//!
//! This crate hands the tokens on and checks that their tables fit each other; it does not tokenise.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::generation::GenerationDefaults;
use crate::gguf::value::Metadata;
use crate::size;

/// Most tokens and merges of a vocabulary. Keeps its memory below 64 MiB whatever a file says.
pub(crate) const MAX_TOKENS: u64 = 1 << 20;

/// Number of the token type that is text like any other.
pub(crate) const NORMAL_TYPE: i32 = 1;
/// Number of the token type that steers: begin of text, end of turn.
pub(crate) const CONTROL_TYPE: i32 = 3;
/// Number of the token type that a user added.
pub(crate) const USER_DEFINED_TYPE: i32 = 4;
/// Number of the token type that only fills a place.
pub(crate) const UNUSED_TYPE: i32 = 5;

/// The name GGUF has for how Llama 3 cuts text before BPE.
pub(crate) const LLAMA_3_CUT: &str = "llama-bpe";

/// The source of a tokenizer.
#[derive(Debug, Clone, PartialEq)]
pub enum TokenizerSource {
    /// The bytes of a Hugging Face `tokenizer.json`.
    Json(Vec<u8>),
    /// The vocabulary of a GGUF file.
    Gguf(GgufVocabulary),
    /// None was found.
    Missing {
        /// Where one would have been.
        looked: String,
    },
}

/// The `tokenizer.ggml.*` tables of a GGUF file. Tables have one entry a token, or are empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GgufVocabulary {
    /// Kind of tokenizer: `gpt2` is byte-level BPE, `llama` is SentencePiece.
    pub model: String,
    /// How text is cut before BPE: `llama-bpe`, `gpt-2`, …
    pub pre: Option<String>,
    /// Text of each token.
    pub tokens: Vec<String>,
    /// Type of each token: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
    pub token_types: Vec<i32>,
    /// Pairs to join, most important first, each as `left right`.
    pub merges: Vec<String>,
    /// First token of a sequence.
    pub bos: Option<u32>,
    /// Token that ends a text.
    pub eos: Option<u32>,
    /// Token that ends a turn of a chat.
    pub eot: Option<u32>,
    /// Whether a sequence starts with `bos`.
    pub add_bos: Option<bool>,
    /// Whether a text to embed ends with `eos`.
    pub add_eos: Option<bool>,
    /// Whether a space goes before a text, for SentencePiece.
    pub add_space_prefix: Option<bool>,
    /// Score of each token, for SentencePiece.
    pub scores: Vec<f32>,
}

impl GgufVocabulary {
    /// Reads the vocabulary; `None` if the file has no tokens.
    pub(crate) fn read(
        metadata: &Metadata<'_>,
        decisions: &mut Vec<String>,
    ) -> Result<Option<Self>, Error> {
        let tokens_key = "tokenizer.ggml.tokens";
        let Some(tokens) = metadata.strings(tokens_key, MAX_TOKENS)? else { return Ok(None) };
        let model_key = "tokenizer.ggml.model";
        let Some(model) = metadata.string(model_key)? else {
            return Err(metadata.fault(model_key, "missing, though the file has tokens"));
        };
        let id = |name: &str| metadata.u32(&format!("tokenizer.ggml.{name}_token_id"));
        let mut vocabulary = Self {
            model: model.to_owned(),
            pre: metadata.string("tokenizer.ggml.pre")?.map(str::to_owned),
            token_types: metadata
                .integers("tokenizer.ggml.token_type", MAX_TOKENS)?
                .unwrap_or_default(),
            merges: metadata.strings("tokenizer.ggml.merges", MAX_TOKENS)?.unwrap_or_default(),
            bos: id("bos")?,
            eos: id("eos")?,
            eot: id("eot")?,
            add_bos: metadata.bool("tokenizer.ggml.add_bos_token")?,
            add_eos: metadata.bool("tokenizer.ggml.add_eos_token")?,
            add_space_prefix: metadata.bool("tokenizer.ggml.add_space_prefix")?,
            scores: metadata.floats("tokenizer.ggml.scores", MAX_TOKENS)?.unwrap_or_default(),
            tokens,
        };
        vocabulary.check(metadata)?;
        if vocabulary.pre.as_deref().is_none_or(|pre| pre == "default") && vocabulary.is_llama_3() {
            let why = "tokenizer.ggml.pre does not say, and the vocabulary is Llama 3's";
            decisions.push(format!("text is cut as {LLAMA_3_CUT}: {why}"));
            vocabulary.pre = Some(LLAMA_3_CUT.to_owned());
        }
        Ok(Some(vocabulary))
    }

    /// Whether the tokens are those of Llama 3, which BitNet-b1.58-2B-4T has too. The converter that
    /// made its published files writes no `pre`.
    fn is_llama_3(&self) -> bool {
        let begin = self.tokens.get(128_000).map(String::as_str);
        let is_begin = begin == Some("<|begin_of_text|>");
        self.model == "gpt2" && self.tokens.len() == 128_256 && is_begin
    }

    fn check(&self, metadata: &Metadata<'_>) -> Result<(), Error> {
        let tokens = self.tokens.len();
        if tokens == 0 {
            return Err(metadata.fault("tokenizer.ggml.tokens", "an empty array"));
        }
        let tables = [
            ("tokenizer.ggml.token_type", self.token_types.len()),
            ("tokenizer.ggml.scores", self.scores.len()),
        ];
        for (key, len) in tables {
            if len != 0 && len != tokens {
                return Err(metadata.fault(key, format!("{len} entries for {tokens} tokens")));
            }
        }
        if let Some(at) = self.scores.iter().position(|score| !score.is_finite()) {
            let what = format!("the score of token {at} is not a finite number");
            return Err(metadata.fault("tokenizer.ggml.scores", what));
        }
        let ids = [("bos", self.bos), ("eos", self.eos), ("eot", self.eot)];
        for (name, id) in ids {
            if let Some(id) = id.filter(|&id| u64::from(id) >= size::widen(tokens)) {
                let key = format!("tokenizer.ggml.{name}_token_id");
                return Err(metadata.fault(&key, format!("{id}, there are {tokens} tokens")));
            }
        }
        Ok(())
    }

    /// The number of the token with this text.
    pub fn find(&self, text: &str) -> Option<u32> {
        self.tokens.iter().position(|token| token == text).and_then(|at| u32::try_from(at).ok())
    }
}

/// What turns text to tokens and back, as a model's files hold it.
#[derive(Debug)]
pub(crate) struct ModelText {
    pub(crate) tokenizer: TokenizerSource,
    pub(crate) chat_template: Option<String>,
    pub(crate) special_tokens: SpecialTokenTexts,
    pub(crate) generation: GenerationDefaults,
}

/// Texts of special tokens, which chat templates name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpecialTokenTexts {
    /// Text of the token that begins a sequence.
    pub bos: Option<String>,
    /// Text of the token that ends one.
    pub eos: Option<String>,
}
