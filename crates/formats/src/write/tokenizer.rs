//! Conversion between `tokenizer.json` and the vocabulary of GGUF.
//!
//! Only byte-level BPE is supported, which the published models use. A pre-tokenizer is a regular
//! expression in `tokenizer.json` and a name in GGUF, so only known ones can be converted.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use wf_core::{Vocabulary, token_type};

use crate::error::{Error, quote_safely};
use crate::model_file::ModelFile;
use crate::text::{AddedToken, LLAMA_3_PRE, TokenizerSource, added_tokens};

/// A pre-tokenizer with a name in GGUF.
struct PreTokenizer {
    /// Name that is written.
    name: &'static str,
    /// Other names that are read.
    aliases: &'static [&'static str],
    /// Regular expression; `None` for the one that is built into byte-level tokenizers.
    regex: Option<&'static str>,
    /// Text is normalized to NFC.
    nfc: bool,
    /// A word that is a token is not split.
    ignore_merges: bool,
}

const PRE_TOKENIZERS: [PreTokenizer; 4] = [
    PreTokenizer {
        name: LLAMA_3_PRE,
        aliases: &["llama3", "llama-v3", "falcon3", "falcon-h1", "falcon_e"],
        regex: Some(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        nfc: false,
        ignore_merges: true,
    },
    PreTokenizer {
        name: "qwen2",
        aliases: &["deepseek-r1-qwen"],
        regex: Some(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        nfc: true,
        ignore_merges: false,
    },
    PreTokenizer {
        name: "qwen35",
        aliases: &[],
        regex: Some(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        nfc: true,
        ignore_merges: false,
    },
    PreTokenizer {
        name: "gpt-2",
        aliases: &["phi-2"],
        regex: None,
        nfc: false,
        ignore_merges: false,
    },
];

/// Tokens that end a turn of a chat.
const TURN_ENDS: [&str; 2] = ["<|eot_id|>", "<|im_end|>"];

/// Returns the GGUF vocabulary of a model; `None` if it has no tokenizer.
pub(super) fn vocabulary_of(source: &ModelFile) -> Result<Option<Vocabulary>, Error> {
    match source.tokenizer() {
        TokenizerSource::Missing { .. } => Ok(None),
        TokenizerSource::Gguf(vocabulary) => Ok(Some(vocabulary.clone())),
        TokenizerSource::Json(json) => {
            let info = source.info();
            let mut vocabulary = vocabulary_from_tokenizer_json(json, source.network().vocab_len)
                .map_err(|what| {
                let what = format!("{what}; packed safetensors can hold any tokenizer");
                Error::setting(source.name(), "tokenizer.json", what)
            })?;
            vocabulary.bos = info.bos;
            let eos = source.special_token_texts().eos.as_deref();
            let named = eos.and_then(|text| vocabulary.find(text));
            vocabulary.eos = named.or(info.eos.first().copied());
            vocabulary.eot = vocabulary.eot.filter(|id| info.eos.contains(id));
            Ok(Some(vocabulary))
        }
    }
}

/// Converts a `tokenizer.json` of byte-level BPE to a GGUF vocabulary.
///
/// Unassigned ids below `vocab_len` become unused tokens. `bos` and `eos` are `None`, because a
/// `tokenizer.json` does not have them.
pub fn vocabulary_from_tokenizer_json(json: &[u8], vocab_len: usize) -> Result<Vocabulary, String> {
    let tokenizer: TokenizerJson = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    let mut vocabulary = tokenizer.vocabulary(vocab_len)?;
    vocabulary.eot = TURN_ENDS.iter().find_map(|text| vocabulary.find(text));
    Ok(vocabulary)
}

#[derive(Deserialize)]
struct TokenizerJson {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    model: BpeModel,
}

#[derive(Deserialize)]
struct BpeModel {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: BTreeMap<String, u32>,
    merges: Vec<Merge>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Joined(String),
    Pair(String, String),
}

impl TokenizerJson {
    fn vocabulary(self, vocab_len: usize) -> Result<Vocabulary, String> {
        if self.model.kind.as_deref() != Some("BPE") {
            return Err(format!(
                "model type {:?}, only byte-level BPE can be converted to GGUF",
                self.model.kind
            ));
        }
        let pre = pre_tokenizer_name(self.normalizer.as_ref(), self.pre_tokenizer.as_ref())?;
        let add_bos = adds_a_first_token(self.post_processor.as_ref());
        // llama.cpp requires a token for every row of the embedding.
        let mut tokens: Vec<String> = (0..vocab_len).map(|id| format!("[PAD{id}]")).collect();
        let mut token_types = vec![token_type::UNUSED; vocab_len];
        let plain = self.model.vocab.into_iter().map(|(text, id)| (id, text, token_type::NORMAL));
        let added = self.added_tokens.into_iter().map(|token| {
            let kind = if token.special { token_type::CONTROL } else { token_type::USER_DEFINED };
            (token.id, token.content, kind)
        });
        // Added tokens come second: they may be in the vocabulary, too, as plain tokens.
        for (id, text, kind) in plain.chain(added) {
            let at = id as usize;
            let (Some(token), Some(token_type)) = (tokens.get_mut(at), token_types.get_mut(at))
            else {
                return Err(format!("token {id}, but the embedding has {vocab_len} rows"));
            };
            *token = text;
            *token_type = kind;
        }
        let merges = self.model.merges.into_iter().map(|merge| match merge {
            Merge::Joined(merge) => merge,
            Merge::Pair(left, right) => format!("{left} {right}"),
        });
        let merges: Vec<String> = merges.collect();
        let max = Vocabulary::MAX_ENTRIES;
        if merges.len() > max || tokens.len() > max {
            return Err(format!("more than {max} tokens or merges"));
        }
        Ok(Vocabulary {
            model: "gpt2".to_owned(),
            pre: Some(pre.to_owned()),
            tokens,
            token_types,
            merges,
            add_bos,
            ..Vocabulary::default()
        })
    }
}

fn pre_tokenizer_name(
    normalizer: Option<&Value>,
    pre_tokenizer: Option<&Value>,
) -> Result<&'static str, String> {
    let steps: Vec<&Value> = match pre_tokenizer {
        Some(pre) if pre["type"] == "Sequence" => {
            pre["pretokenizers"].as_array().into_iter().flatten().collect()
        }
        Some(pre) => vec![pre],
        None => Vec::new(),
    };
    let Some((bytes, splits)) = steps.split_last().filter(|(last, _)| last["type"] == "ByteLevel")
    else {
        return Err(
            "no ByteLevel pre-tokenizer, only byte-level BPE can be converted to GGUF".to_owned()
        );
    };
    // The tokenizers library uses its built-in expression by default.
    let is_built_in = bytes["use_regex"] != Value::Bool(false);
    let regex = match splits {
        [] if is_built_in => Some(None),
        [split] if !is_built_in && split["type"] == "Split" => {
            split["pattern"]["Regex"].as_str().map(Some)
        }
        _ => None,
    };
    let known = regex.and_then(|regex| PRE_TOKENIZERS.iter().find(|known| known.regex == regex));
    let Some(known) = known else {
        let found = quote_safely(&Value::from_iter(steps.iter().map(|&s| s.clone())).to_string());
        return Err(format!("the pre-tokenizer {found} has no name in GGUF"));
    };
    let name = known.name;
    let normalizer = normalizer.filter(|normalizer| !normalizer.is_null());
    let fits = match normalizer {
        None => !known.nfc,
        Some(normalizer) => known.nfc && normalizer["type"] == "NFC",
    };
    if fits {
        return Ok(name);
    }
    let found = quote_safely(&normalizer.unwrap_or(&Value::Null).to_string());
    Err(format!("the normalizer {found} is not that of pre-tokenizer {name} in GGUF"))
}

/// Returns `true` if the post-processor adds a special token before the text; `None` without one.
fn adds_a_first_token(post_processor: Option<&Value>) -> Option<bool> {
    let starts_with_special =
        |processor: &Value| processor["single"][0].get("SpecialToken").is_some();
    let processor = post_processor.filter(|processor| !processor.is_null())?;
    let nested = processor["processors"].as_array();
    let nested_does = || nested.is_some_and(|all| all.iter().any(starts_with_special));
    Some(starts_with_special(processor) || nested_does())
}

/// The files of a tokenizer.
pub(super) const NAMES: [&str; 2] = ["tokenizer.json", "tokenizer_config.json"];

/// Returns `true` if the model has a tokenizer.
pub(super) fn has_files(source: &ModelFile) -> bool {
    !matches!(source.tokenizer(), TokenizerSource::Missing { .. })
}

/// Returns the content of `tokenizer.json` and `tokenizer_config.json`, if the model has a tokenizer.
pub(super) fn tokenizer_files(source: &ModelFile) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
    let json = match source.tokenizer() {
        TokenizerSource::Missing { .. } => return Ok(Vec::new()),
        TokenizerSource::Json(json) => json.clone(),
        TokenizerSource::Gguf(vocabulary) => tokenizer_json(vocabulary).map_err(|what| {
            let what = format!("{what}; GGUF and .wf can hold any vocabulary");
            Error::setting(source.name(), "tokenizer.ggml", what)
        })?,
    };
    let mut settings = json!({ "tokenizer_class": "PreTrainedTokenizerFast" });
    let texts = source.special_token_texts();
    let mask = source.info().block_diffusion.and_then(|block| match source.tokenizer() {
        TokenizerSource::Gguf(v) => v.tokens.get(block.mask_token as usize).cloned(),
        TokenizerSource::Json(json) => {
            let mut added = added_tokens(json).into_iter();
            added.find(|token| token.id == block.mask_token).map(|token| token.content)
        }
        TokenizerSource::Missing { .. } => None,
    });
    let optional = [
        ("bos_token", texts.bos.as_deref()),
        ("eos_token", texts.eos.as_deref()),
        ("mask_token", mask.as_deref()),
        ("chat_template", source.chat_template()),
    ];
    for (key, text) in optional {
        if let Some(text) = text {
            settings[key] = json!(text);
        }
    }
    let [json_name, settings_name] = NAMES;
    let settings = format!("{settings:#}\n").into_bytes();
    Ok(vec![(json_name, json), (settings_name, settings)])
}

/// Converts a byte-level BPE vocabulary to a `tokenizer.json`.
fn tokenizer_json(vocabulary: &Vocabulary) -> Result<Vec<u8>, String> {
    if vocabulary.model != "gpt2" {
        let model = quote_safely(&vocabulary.model);
        return Err(format!("model \"{model}\", only byte-level BPE (gpt2) can be written"));
    }
    let Some(pre) = vocabulary.pre.as_deref() else {
        return Err("pre is missing, so the pre-tokenizer is unknown".to_owned());
    };
    let is_named = |known: &&PreTokenizer| known.name == pre || known.aliases.contains(&pre);
    let Some(known) = PRE_TOKENIZERS.iter().find(is_named) else {
        return Err(format!("unknown pre-tokenizer \"{}\"", quote_safely(pre)));
    };
    let bytes = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
        "use_regex": known.regex.is_none(),
    });
    let pre_tokenizer = match known.regex {
        None => bytes,
        Some(regex) => json!({ "type": "Sequence", "pretokenizers": [
            { "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated", "invert": false },
            bytes,
        ] }),
    };
    let normalizer = if known.nfc { json!({ "type": "NFC" }) } else { Value::Null };
    let kind = |id: usize| vocabulary.token_types.get(id).copied().unwrap_or(token_type::NORMAL);
    let numbered = || vocabulary.tokens.iter().enumerate();
    let added: Vec<Value> = numbered()
        .filter(|(id, _)| matches!(kind(*id), token_type::CONTROL | token_type::USER_DEFINED))
        .map(|(id, text)| {
            json!({
                "id": id, "content": text, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": kind(id) == token_type::CONTROL,
            })
        })
        .collect();
    let vocab: serde_json::Map<String, Value> = numbered()
        .filter(|(id, _)| kind(*id) != token_type::UNUSED)
        .map(|(id, text)| (text.clone(), json!(id)))
        .collect();
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": first_token(vocabulary),
        "decoder": {
            "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true,
        },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": known.ignore_merges, "vocab": vocab, "merges": vocabulary.merges,
        },
    });
    serde_json::to_vec(&tokenizer).map_err(|e| e.to_string())
}

/// Returns the post-processor that adds the first token of a sequence, if the vocabulary has one.
fn first_token(vocabulary: &Vocabulary) -> Value {
    let bos = vocabulary.bos.filter(|_| vocabulary.add_bos == Some(true));
    let text = bos.and_then(|id| vocabulary.tokens.get(id as usize));
    let (Some(id), Some(text)) = (bos, text) else { return Value::Null };
    let special = |type_id: u32| json!({ "SpecialToken": { "id": text, "type_id": type_id } });
    let sequence =
        |name: &str, type_id: u32| json!({ "Sequence": { "id": name, "type_id": type_id } });
    json!({
        "type": "TemplateProcessing",
        "single": [special(0), sequence("A", 0)],
        "pair": [special(0), sequence("A", 0), special(1), sequence("B", 1)],
        "special_tokens": { text.clone(): { "id": text, "ids": [id], "tokens": [text] } },
    })
}
