//! Facts of a model about text: its tokenizer, chat template and sampling parameters.
//!
//! This crate checks that the tables of a vocabulary are consistent; it does not tokenize.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use wf_core::Vocabulary;

use crate::config::settings::Settings;
use crate::error::Error;
use crate::gguf::value::Metadata;
use crate::size;

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
    let (settings, max) = (&metadata.settings, Vocabulary::MAX_ENTRIES as u64);
    let tokens_key = "tokenizer.ggml.tokens";
    let Some(tokens) = metadata.strings(tokens_key, max)? else { return Ok(None) };
    let model_key = "tokenizer.ggml.model";
    let Some(model) = settings.string(model_key)? else {
        return Err(settings.fault(model_key, "missing, but the file has tokens"));
    };
    let id = |name: &str| settings.u32(&format!("tokenizer.ggml.{name}_token_id"));
    let token_types = metadata.integers("tokenizer.ggml.token_type", max)?;
    let mut vocabulary = Vocabulary {
        model: model.to_owned(),
        pre: settings.string("tokenizer.ggml.pre")?.map(str::to_owned),
        token_types: token_types.unwrap_or_default(),
        merges: metadata.strings("tokenizer.ggml.merges", max)?.unwrap_or_default(),
        bos: id("bos")?,
        eos: id("eos")?,
        eot: id("eot")?,
        add_bos: settings.bool("tokenizer.ggml.add_bos_token")?,
        add_eos: settings.bool("tokenizer.ggml.add_eos_token")?,
        add_space_prefix: settings.bool("tokenizer.ggml.add_space_prefix")?,
        scores: metadata.floats("tokenizer.ggml.scores", max)?.unwrap_or_default(),
        tokens,
    };
    check(&vocabulary, settings)?;
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

fn check(vocabulary: &Vocabulary, settings: &Settings) -> Result<(), Error> {
    let tokens = vocabulary.tokens.len();
    if tokens == 0 {
        return Err(settings.fault("tokenizer.ggml.tokens", "an empty array"));
    }
    let tables = [
        ("tokenizer.ggml.token_type", vocabulary.token_types.len()),
        ("tokenizer.ggml.scores", vocabulary.scores.len()),
    ];
    for (key, len) in tables {
        if len != 0 && len != tokens {
            return Err(settings.fault(key, format!("{len} entries for {tokens} tokens")));
        }
    }
    if let Some(at) = vocabulary.scores.iter().position(|score| !score.is_finite()) {
        let what = format!("the score of token {at} is not a finite number");
        return Err(settings.fault("tokenizer.ggml.scores", what));
    }
    let ids = [("bos", vocabulary.bos), ("eos", vocabulary.eos), ("eot", vocabulary.eot)];
    for (name, id) in ids {
        if let Some(id) = id.filter(|&id| u64::from(id) >= size::widen(tokens)) {
            let key = format!("tokenizer.ggml.{name}_token_id");
            return Err(settings.fault(&key, format!("{id}, but there are {tokens} tokens")));
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

/// An entry of `added_tokens` in a `tokenizer.json`.
#[derive(Deserialize)]
pub(crate) struct AddedToken {
    pub(crate) id: u32,
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) special: bool,
}

/// Reads the added tokens of a `tokenizer.json`. One that does not parse has none: it is rejected when
/// it is loaded, with a better message.
pub(crate) fn added_tokens(json: &[u8]) -> Vec<AddedToken> {
    #[derive(Deserialize)]
    struct Tokenizer {
        #[serde(default)]
        added_tokens: Vec<AddedToken>,
    }
    serde_json::from_slice(json).map_or_else(|_| Vec::new(), |t: Tokenizer| t.added_tokens)
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

/// Recommended sampling parameters: `generation_config.json`, or `general.sampling.*` in a GGUF file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GenerationDefaults {
    /// Temperature; 0 is greedy decoding.
    pub temperature: Option<f64>,
    /// Number of most likely tokens to sample from.
    pub top_k: Option<usize>,
    /// Total probability of the most likely tokens to sample from.
    pub top_p: Option<f64>,
    /// Minimum probability of a token, relative to the most likely one.
    pub min_p: Option<f64>,
    /// Factor that reduces the logits of tokens already present.
    pub repetition_penalty: Option<f64>,
}

impl GenerationDefaults {
    /// Reads `generation_config.json`.
    pub(crate) fn from_json(settings: &Settings) -> Result<Self, Error> {
        // Without `do_sample`, transformers ignores the temperature.
        let temperature = match settings.bool("do_sample")? {
            Some(false) => Some(0.0),
            Some(true) => Some(settings.number("temperature")?.unwrap_or(1.0)),
            None => None,
        };
        Ok(Self {
            temperature,
            top_k: settings.optional_size("top_k")?,
            top_p: settings.number("top_p")?,
            min_p: settings.number("min_p")?,
            repetition_penalty: settings.number("repetition_penalty")?,
        })
    }

    /// Returns the contents of a `generation_config.json`.
    pub(crate) fn to_json(self) -> Map<String, Value> {
        let mut values = Map::new();
        if let Some(temperature) = self.temperature {
            let samples = temperature > 0.0;
            values.insert("do_sample".to_owned(), json!(samples));
            if samples {
                values.insert("temperature".to_owned(), json!(temperature));
            }
        }
        let others = [
            ("top_k", self.top_k.map(|k| json!(k))),
            ("top_p", self.top_p.map(|p| json!(p))),
            ("min_p", self.min_p.map(|p| json!(p))),
            ("repetition_penalty", self.repetition_penalty.map(|penalty| json!(penalty))),
        ];
        values.extend(others.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        values
    }

    /// Reads the metadata of a GGUF file.
    pub(crate) fn from_gguf(settings: &Settings) -> Result<Self, Error> {
        Ok(Self {
            temperature: settings.number("general.sampling.temp")?,
            top_k: settings.optional_size("general.sampling.top_k")?,
            top_p: settings.number("general.sampling.top_p")?,
            min_p: settings.number("general.sampling.min_p")?,
            repetition_penalty: settings.number("general.sampling.penalty_repeat")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> GenerationDefaults {
        let settings = Settings::parse("generation_config.json", json.as_bytes()).unwrap();
        GenerationDefaults::from_json(&settings).unwrap()
    }

    #[test]
    fn a_temperature_counts_only_where_tokens_are_sampled() {
        assert_eq!(read(r#"{"temperature": 0.6}"#).temperature, None);
        assert_eq!(read(r#"{"do_sample": false, "temperature": 0.6}"#).temperature, Some(0.0));
        assert_eq!(read(r#"{"do_sample": true, "temperature": 0.6}"#).temperature, Some(0.6));
        assert_eq!(read(r#"{"do_sample": true, "top_k": 20}"#).temperature, Some(1.0));
        assert_eq!(read(r#"{"do_sample": true, "top_k": 20}"#).top_k, Some(20));
    }

    #[test]
    fn what_is_written_is_read() {
        let some = GenerationDefaults {
            temperature: Some(0.6),
            top_k: Some(20),
            top_p: Some(0.95),
            min_p: Some(0.05),
            repetition_penalty: Some(1.1),
        };
        let greedy = GenerationDefaults { temperature: Some(0.0), ..some };
        for defaults in [some, greedy, GenerationDefaults::default()] {
            assert_eq!(read(&Value::Object(defaults.to_json()).to_string()), defaults);
        }
    }
}
