//! Vocabularies of GGUF files: lists of tokens, types, and merges or scores.
//!
//! A GGUF file names its pre-tokenizer instead of giving an expression. Only known names are accepted, because a
//! wrong pre-tokenizer silently degrades the model.

use wf_core::{Vocabulary, token_type};

use crate::added::AddedToken;
use crate::bpe::{BpeRules, MergeSource};
use crate::normalize::Normalizer;
use crate::parts::{Parts, PromptEnds};
use crate::split::Splitter;
use crate::vocab::Alphabet;
use crate::{TextError, TokenId};

/// Pre-tokenizer by its name in `tokenizer.ggml.pre`.
struct Pre {
    names: &'static [&'static str],
    splitter: Splitter,
    ignore_merges: bool,
    compose: bool,
    add_bos: bool,
}

/// Supported pre-tokenizers. The `tokenizer.json` files of their models have the same splits.
const PRES: &[Pre] = &[
    Pre {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "falcon_e"],
        splitter: Splitter::LLAMA3,
        ignore_merges: true,
        compose: false,
        add_bos: true,
    },
    Pre {
        names: &["qwen2", "deepseek-r1-qwen"],
        splitter: Splitter::QWEN2,
        ignore_merges: false,
        compose: true,
        add_bos: false,
    },
    Pre {
        names: &["qwen35"],
        splitter: Splitter::QWEN35,
        ignore_merges: false,
        compose: true,
        add_bos: false,
    },
    Pre {
        names: &["gpt-2", "phi-2"],
        splitter: Splitter::Gpt2 { add_prefix_space: false },
        ignore_merges: false,
        compose: false,
        add_bos: false,
    },
];

pub(crate) fn parts(v: Vocabulary) -> Result<Parts, TextError> {
    check_lengths(&v)?;
    match v.model.as_str() {
        "gpt2" => byte_level(v),
        "llama" => sentence_piece(v),
        other => Err(TextError::unsupported(
            "tokenizer.ggml.model",
            &format!("{other:?}"),
            "gpt2, llama",
        )),
    }
}

fn check_lengths(v: &Vocabulary) -> Result<(), TextError> {
    let tokens = v.tokens.len();
    let types = v.token_types.len();
    if types != 0 && types != tokens {
        return Err(TextError::vocabulary(format!("{tokens} tokens but {types} token types")));
    }
    for (name, id) in [("bos", v.bos), ("eos", v.eos), ("eot", v.eot)] {
        if let Some(id) = id
            && id as usize >= tokens
        {
            return Err(TextError::vocabulary(format!(
                "{name}_token_id is {id}: must be below the number of tokens, {tokens}"
            )));
        }
    }
    Ok(())
}

fn byte_level(v: Vocabulary) -> Result<Parts, TextError> {
    let is_named = |pre: &&Pre| v.pre.as_deref().is_some_and(|name| pre.names.contains(&name));
    let pre = PRES.iter().find(is_named).ok_or_else(|| {
        let found = v.pre.as_ref().map_or("(missing)".to_owned(), |name| format!("{name:?}"));
        let names: Vec<_> = PRES.iter().flat_map(|pre| pre.names).copied().collect();
        let advice = "open the model's Hugging Face directory instead, whose tokenizer.json has the expression";
        let allowed = format!("one of {} ({advice})", names.join(", "));
        TextError::unsupported("tokenizer.ggml.pre", &found, &allowed)
    })?;
    let merges = v.merges.iter().enumerate().map(|(rank, merge)| {
        let pair = crate::tokenizer_json::split_pair(merge);
        let (left, right) = pair.ok_or_else(|| {
            TextError::vocabulary(format!("merge {rank} is {merge:?}: must be two token texts"))
        })?;
        Ok((left.to_owned(), right.to_owned()))
    });
    Ok(Parts {
        alphabet: Alphabet::Bytes,
        merges: MergeSource::Listed(merges.collect::<Result<_, TextError>>()?),
        rules: BpeRules { ignore_merges: pre.ignore_merges, ..BpeRules::default() },
        normalizer: if pre.compose { vec![Normalizer::Nfc] } else { Vec::new() },
        splitter: pre.splitter.clone(),
        ends: ends(&v, pre.add_bos),
        strip_leading_space: false,
        added: added(&v),
        entries: entries(v),
    })
}

fn sentence_piece(mut v: Vocabulary) -> Result<Parts, TextError> {
    if v.scores.len() != v.tokens.len() {
        return Err(TextError::vocabulary(format!(
            "{} tokens but {} scores",
            v.tokens.len(),
            v.scores.len()
        )));
    }
    let space_prefix = v.add_space_prefix.unwrap_or(true);
    let prepend = space_prefix.then(|| Normalizer::Prepend("▁".into()));
    let replace = Normalizer::Replace { from: " ".into(), to: "▁".into() };
    let unknown = (0..).zip(&v.token_types).find(|(_, kind)| **kind == token_type::UNKNOWN);
    Ok(Parts {
        alphabet: Alphabet::Chars,
        merges: MergeSource::Scores(std::mem::take(&mut v.scores)),
        rules: BpeRules {
            byte_fallback: true,
            unknown: unknown.map(|(id, _)| id),
            fuse_unknown: true,
            ..BpeRules::default()
        },
        normalizer: prepend.into_iter().chain([replace]).collect(),
        splitter: Splitter::Whole,
        ends: ends(&v, true),
        strip_leading_space: space_prefix,
        added: added(&v),
        entries: entries(v),
    })
}

fn ends(v: &Vocabulary, add_bos_by_default: bool) -> PromptEnds {
    let adds = v.add_bos.unwrap_or(add_bos_by_default);
    let prefix = v.bos.filter(|_| adds).into_iter().collect();
    let suffix = v.eos.filter(|_| v.add_eos == Some(true)).into_iter().collect();
    PromptEnds { prefix, suffix, bos: v.bos }
}

/// Returns the added tokens: control and unknown tokens are special, user-defined ones are not.
fn added(v: &Vocabulary) -> Vec<AddedToken> {
    let kinds = v.token_types.iter().zip(&v.tokens);
    let added = (0..).zip(kinds).filter_map(|(id, (&kind, text))| {
        let special = matches!(kind, token_type::CONTROL | token_type::UNKNOWN);
        let wanted = (special || kind == token_type::USER_DEFINED) && !text.is_empty();
        let token = || AddedToken { id, text: text.clone(), special, ..AddedToken::default() };
        wanted.then(token)
    });
    added.collect()
}

fn entries(v: Vocabulary) -> Vec<(String, TokenId)> {
    v.tokens.into_iter().zip(0..).collect()
}
