//! The source of a model's tokens: a `tokenizer.json`, or the vocabulary of a GGUF file.
//!
//! This crate checks that the tables of a vocabulary are consistent; it does not tokenize.

use serde::{Deserialize, Serialize};
use wf_core::Vocabulary;

use crate::error::Error;
use crate::generation::GenerationDefaults;
use crate::gguf::value::Metadata;
use crate::size;

/// Maximum number of tokens and of merges. Keeps the memory of a vocabulary below 64 MiB.
pub(crate) const MAX_TOKENS: u64 = 1 << 20;

/// GGUF's name of the pre-tokenizer of Llama 3.
pub(crate) const LLAMA_3_PRE: &str = "llama-bpe";

/// The source of a tokenizer.
#[derive(Debug, Clone, PartialEq)]
pub enum TokenizerSource {
    /// The bytes of a Hugging Face `tokenizer.json`.
    Json(Vec<u8>),
    /// The vocabulary of a GGUF file.
    Gguf(Vocabulary),
    /// The model has no tokenizer.
    Missing {
        /// The place where a tokenizer was expected.
        looked: String,
    },
}

/// Reads the vocabulary of a GGUF file; `None` if the file has no tokens.
pub(crate) fn read_vocabulary(
    metadata: &Metadata<'_>,
    decisions: &mut Vec<String>,
) -> Result<Option<Vocabulary>, Error> {
    let tokens_key = "tokenizer.ggml.tokens";
    let Some(tokens) = metadata.strings(tokens_key, MAX_TOKENS)? else { return Ok(None) };
    let model_key = "tokenizer.ggml.model";
    let Some(model) = metadata.string(model_key)? else {
        return Err(metadata.fault(model_key, "missing, but the file has tokens"));
    };
    let id = |name: &str| metadata.u32(&format!("tokenizer.ggml.{name}_token_id"));
    let token_types = metadata.integers("tokenizer.ggml.token_type", MAX_TOKENS)?;
    let mut vocabulary = Vocabulary {
        model: model.to_owned(),
        pre: metadata.string("tokenizer.ggml.pre")?.map(str::to_owned),
        token_types: token_types.unwrap_or_default(),
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
    check(&vocabulary, metadata)?;
    if vocabulary.pre.as_deref().is_none_or(|pre| pre == "default") && is_llama_3(&vocabulary) {
        let why = "tokenizer.ggml.pre is missing, and the vocabulary is that of Llama 3";
        decisions.push(format!("pre-tokenizer {LLAMA_3_PRE}: {why}"));
        vocabulary.pre = Some(LLAMA_3_PRE.to_owned());
    }
    Ok(Some(vocabulary))
}

/// Returns `true` if the tokens are those of Llama 3, which BitNet-b1.58-2B-4T has too. The converter
/// that made its published files writes no `pre`.
fn is_llama_3(vocabulary: &Vocabulary) -> bool {
    let begin = vocabulary.tokens.get(128_000).map(String::as_str);
    let is_begin = begin == Some("<|begin_of_text|>");
    vocabulary.model == "gpt2" && vocabulary.tokens.len() == 128_256 && is_begin
}

fn check(vocabulary: &Vocabulary, metadata: &Metadata<'_>) -> Result<(), Error> {
    let tokens = vocabulary.tokens.len();
    if tokens == 0 {
        return Err(metadata.fault("tokenizer.ggml.tokens", "an empty array"));
    }
    let tables = [
        ("tokenizer.ggml.token_type", vocabulary.token_types.len()),
        ("tokenizer.ggml.scores", vocabulary.scores.len()),
    ];
    for (key, len) in tables {
        if len != 0 && len != tokens {
            return Err(metadata.fault(key, format!("{len} entries for {tokens} tokens")));
        }
    }
    if let Some(at) = vocabulary.scores.iter().position(|score| !score.is_finite()) {
        let what = format!("the score of token {at} is not a finite number");
        return Err(metadata.fault("tokenizer.ggml.scores", what));
    }
    let ids = [("bos", vocabulary.bos), ("eos", vocabulary.eos), ("eot", vocabulary.eot)];
    for (name, id) in ids {
        if let Some(id) = id.filter(|&id| u64::from(id) >= size::widen(tokens)) {
            let key = format!("tokenizer.ggml.{name}_token_id");
            return Err(metadata.fault(&key, format!("{id}, but there are {tokens} tokens")));
        }
    }
    Ok(())
}

/// Tokenizer, chat template and generation defaults of a model.
#[derive(Debug)]
pub(crate) struct ModelText {
    pub(crate) tokenizer: TokenizerSource,
    pub(crate) chat_template: Option<String>,
    pub(crate) special_tokens: SpecialTokenTexts,
    pub(crate) generation: GenerationDefaults,
}

/// Texts of special tokens, for chat templates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpecialTokenTexts {
    /// Text of the token that begins a sequence.
    pub bos: Option<String>,
    /// Text of the token that ends one.
    pub eos: Option<String>,
}
