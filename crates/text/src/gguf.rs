//! Vocabularies as GGUF files carry them: lists of tokens, kinds and merges or scores.
//!
//! A GGUF file names its pre-tokenizer by a word instead of an expression. Only words whose cuts we know
//! are accepted, because the wrong cuts give a model that works a little worse and nobody knows why.

use crate::added::AddedToken;
use crate::bpe::{BpeRules, MergeSource};
use crate::normalize::Normalizer;
use crate::split::Splitter;
use crate::tokenizer::{Parts, PromptEnds};
use crate::vocab::Alphabet;
use crate::{TextError, TokenId};

/// The `tokenizer.ggml.*` metadata of a GGUF file, as plain values.
#[derive(Clone, Debug, Default)]
pub struct GgufVocab {
    /// `model`: `gpt2` (byte-level BPE) or `llama` (SentencePiece with scores).
    pub model: String,
    /// `pre`: which cuts a `gpt2` model makes.
    pub pre: Option<String>,
    /// `tokens`, in order of their numbers.
    pub tokens: Vec<String>,
    /// `token_type`: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte. Empty means
    /// all normal.
    pub token_types: Vec<i32>,
    /// `merges` of a `gpt2` model, as `"left right"`.
    pub merges: Vec<String>,
    /// `scores` of a `llama` model.
    pub scores: Vec<f32>,
    /// `bos_token_id`
    pub bos: Option<TokenId>,
    /// `eos_token_id`
    pub eos: Option<TokenId>,
    /// `eot_token_id`
    pub eot: Option<TokenId>,
    /// `add_bos_token`; absent, it is true for `llama` models and for the Llama 3 family.
    pub add_bos: Option<bool>,
    /// `add_eos_token`; absent, it is false.
    pub add_eos: Option<bool>,
    /// `add_space_prefix` of a `llama` model; absent, it is true.
    pub add_space_prefix: Option<bool>,
}

/// What a `pre` word stands for.
struct Pre {
    names: &'static [&'static str],
    splitter: fn() -> Splitter,
    ignore_merges: bool,
    compose: bool,
    add_bos: bool,
}

/// The words we know. Their models' `tokenizer.json` files have the same cuts.
const PRES: &[Pre] = &[
    Pre {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "falcon_e"],
        splitter: Splitter::llama3,
        ignore_merges: true,
        compose: false,
        add_bos: true,
    },
    Pre {
        names: &["qwen2", "deepseek-r1-qwen"],
        splitter: Splitter::qwen2,
        ignore_merges: false,
        compose: true,
        add_bos: false,
    },
    Pre {
        names: &["gpt-2", "phi-2"],
        splitter: || Splitter::Gpt2 { add_prefix_space: false },
        ignore_merges: false,
        compose: false,
        add_bos: false,
    },
];

/// The same list for error messages.
const PRE_NAMES: &str = "llama-bpe, llama3, llama-v3, falcon3, falcon-h1, falcon_e, qwen2, deepseek-r1-qwen, gpt-2, phi-2";

const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

impl GgufVocab {
    pub(crate) fn into_parts(self) -> Result<Parts, TextError> {
        self.check_lengths()?;
        match self.model.as_str() {
            "gpt2" => self.byte_level(),
            "llama" => self.sentence_piece(),
            other => Err(TextError::unsupported(
                "tokenizer.ggml.model",
                format!("{other:?}"),
                "gpt2, llama",
            )),
        }
    }

    fn check_lengths(&self) -> Result<(), TextError> {
        let tokens = self.tokens.len();
        let types = self.token_types.len();
        if types != 0 && types != tokens {
            return Err(TextError::vocabulary(format!("{tokens} tokens but {types} token types")));
        }
        for (name, id) in [("bos", self.bos), ("eos", self.eos), ("eot", self.eot)] {
            if let Some(id) = id
                && id as usize >= tokens
            {
                return Err(TextError::vocabulary(format!(
                    "{name}_token_id is {id}, but there are only {tokens} tokens"
                )));
            }
        }
        Ok(())
    }

    fn byte_level(self) -> Result<Parts, TextError> {
        let Some(name) = self.pre.as_deref() else {
            return Err(TextError::unsupported("tokenizer.ggml.pre", "(missing)", PRE_NAMES));
        };
        let Some(pre) = PRES.iter().find(|pre| pre.names.contains(&name)) else {
            return Err(TextError::unsupported(
                "tokenizer.ggml.pre",
                format!("{name:?}"),
                PRE_NAMES,
            ));
        };
        let merges = self.merges.iter().enumerate().map(|(rank, merge)| {
            let pair = crate::tokenizer_json::split_pair(merge);
            let (left, right) = pair.ok_or_else(|| {
                TextError::vocabulary(format!("merge {rank} is {merge:?}, not two texts"))
            })?;
            Ok((left.to_owned(), right.to_owned()))
        });
        Ok(Parts {
            alphabet: Alphabet::Bytes,
            merges: MergeSource::Listed(merges.collect::<Result<_, TextError>>()?),
            rules: BpeRules { ignore_merges: pre.ignore_merges, ..BpeRules::default() },
            normalizer: if pre.compose { vec![Normalizer::Nfc] } else { Vec::new() },
            splitter: (pre.splitter)(),
            ends: self.ends(pre.add_bos),
            strip_leading_space: false,
            added: self.added(),
            entries: self.entries(),
        })
    }

    fn sentence_piece(mut self) -> Result<Parts, TextError> {
        if self.scores.len() != self.tokens.len() {
            return Err(TextError::vocabulary(format!(
                "{} tokens but {} scores",
                self.tokens.len(),
                self.scores.len()
            )));
        }
        let space_prefix = self.add_space_prefix.unwrap_or(true);
        let prepend = space_prefix.then(|| Normalizer::Prepend("▁".into()));
        let replace = Normalizer::Replace { from: " ".into(), to: "▁".into() };
        let unknown = (0..).zip(&self.token_types).find(|(_, kind)| **kind == UNKNOWN);
        Ok(Parts {
            alphabet: Alphabet::Chars,
            merges: MergeSource::Scores(std::mem::take(&mut self.scores)),
            rules: BpeRules {
                ignore_merges: false,
                byte_fallback: true,
                unknown: unknown.map(|(id, _)| id),
                fuse_unknown: true,
            },
            normalizer: prepend.into_iter().chain([replace]).collect(),
            splitter: Splitter::Whole,
            ends: self.ends(true),
            strip_leading_space: space_prefix,
            added: self.added(),
            entries: self.entries(),
        })
    }

    fn ends(&self, add_bos_by_default: bool) -> PromptEnds {
        let adds = self.add_bos.unwrap_or(add_bos_by_default);
        let prefix = self.bos.filter(|_| adds).into_iter().collect();
        let suffix = self.eos.filter(|_| self.add_eos == Some(true)).into_iter().collect();
        PromptEnds { prefix, suffix, bos: self.bos }
    }

    /// Control and unknown tokens are special; user-defined ones are whole wherever they stand.
    fn added(&self) -> Vec<AddedToken> {
        let kinds = self.token_types.iter().zip(&self.tokens);
        let added = (0..).zip(kinds).filter_map(|(id, (&kind, text))| {
            let special = matches!(kind, CONTROL | UNKNOWN);
            let wanted = (special || kind == USER_DEFINED) && !text.is_empty();
            wanted.then(|| AddedToken {
                id,
                text: text.clone(),
                special,
                normalized: false,
                lstrip: false,
                rstrip: false,
                single_word: false,
            })
        });
        added.collect()
    }

    fn entries(self) -> Vec<(String, TokenId)> {
        self.tokens.into_iter().zip(0..).collect()
    }
}
