//! Reads `tokenizer.json` of Hugging Face.
//!
//! Every part of the file is either supported or an error that names it: ignoring a part would silently give wrong
//! tokens.

mod file;
mod pipeline;

use crate::bpe::{BpeRules, MergeSource};
use crate::parts::Parts;
use crate::vocab::Alphabet;
use crate::{TextError, TokenId};
pub(crate) use file::split_pair;
use file::{File, Model, Pair};

pub(crate) fn parse(bytes: &[u8]) -> Result<Parts, TextError> {
    let file: File = match serde_json::from_slice(bytes) {
        Ok(file) => file,
        Err(error) => return Err(file::invalid(bytes, error)),
    };
    let File { added_tokens, normalizer, pre_tokenizer, post_processor, decoder, model } = file;
    check_model(&model)?;
    let cuts = pipeline::pre_tokenizer(pre_tokenizer.as_ref())?;
    let unknown = match &model.unk_token {
        Some(text) => Some(unknown_token(&model, text)?),
        None => None,
    };
    Ok(Parts {
        alphabet: if cuts.byte_level { Alphabet::Bytes } else { Alphabet::Chars },
        splitter: cuts.splitter,
        normalizer: pipeline::normalizer(normalizer.as_ref())?,
        ends: pipeline::post_processor(post_processor.as_ref())?,
        strip_leading_space: pipeline::strips_leading_space(decoder.as_ref())?,
        rules: BpeRules {
            ignore_merges: model.ignore_merges,
            byte_fallback: model.byte_fallback,
            unknown,
            fuse_unknown: model.fuse_unk,
        },
        added: added_tokens.map_or_else(Vec::new, |added| added.0),
        merges: MergeSource::Listed(model.merges.0.into_iter().map(|Pair(pair)| pair).collect()),
        entries: model.vocab.0,
    })
}

fn unknown_token(model: &Model, text: &str) -> Result<TokenId, TextError> {
    let found = model.vocab.0.iter().find(|(entry, _)| entry == text);
    found.map(|(_, id)| *id).ok_or_else(|| {
        TextError::vocabulary(format!("model.unk_token {text:?} is not in the vocabulary"))
    })
}

fn check_model(model: &Model) -> Result<(), TextError> {
    // Files from before 2020 declare no type; their structure is that of a BPE model.
    if let Some(kind) = model.kind.as_deref()
        && kind != "BPE"
    {
        return Err(TextError::unsupported("model.type", &format!("{kind:?}"), "BPE"));
    }
    for (name, value) in [
        ("model.continuing_subword_prefix", &model.continuing_subword_prefix),
        ("model.end_of_word_suffix", &model.end_of_word_suffix),
    ] {
        if let Some(value) = value.as_deref()
            && !value.is_empty()
        {
            return Err(TextError::unsupported(name, &format!("{value:?}"), "null"));
        }
    }
    match model.dropout {
        Some(dropout) if dropout != 0.0 => {
            Err(TextError::unsupported("model.dropout", &dropout.to_string(), "null or 0"))
        }
        _ => Ok(()),
    }
}
