//! Byte-pair encoding of one pre-token: initial symbols, then merges.

use std::collections::HashMap;

use crate::merge::{MergeScratch, Merges};
use crate::vocab::{Alphabet, Vocab, fallback_byte};
use crate::{TextError, TokenId, byte_alphabet};

/// Source of merge rules.
pub(crate) enum MergeSource {
    /// Pairs in order of rank.
    Listed(Vec<(String, String)>),
    /// A score per token: adjacent tokens merge if their concatenation is a token, highest score first.
    Scores(Vec<f32>),
}

/// Behaviour of a model besides merging.
#[derive(Clone, Debug, Default)]
pub(crate) struct BpeRules {
    /// A pre-token that is itself a token is not split.
    pub(crate) ignore_merges: bool,
    /// A character without a token becomes `<0xNN>` tokens.
    pub(crate) byte_fallback: bool,
    /// Token of a character that has no other; without it the character is dropped.
    pub(crate) unknown: Option<TokenId>,
    /// Adjacent unknown tokens become one.
    pub(crate) fuse_unknown: bool,
}

/// BPE model of a tokenizer.
#[derive(Debug)]
pub(crate) struct Bpe {
    alphabet: Alphabet,
    rules: BpeRules,
    /// Tokens by their bytes. Special tokens are left out, so that no text can spell one.
    whole: HashMap<Box<[u8]>, TokenId>,
    /// Token of each byte: with `Alphabet::Chars`, its `<0xNN>` token.
    byte_tokens: [Option<TokenId>; 256],
    merges: Merges,
}

#[derive(Debug, Default)]
pub(crate) struct BpeScratch {
    symbols: Vec<TokenId>,
    merge: MergeScratch,
}

impl Bpe {
    /// Creates a model. `mergeable` are the model's own tokens, without added ones.
    pub(crate) fn new(
        vocab: &Vocab,
        mergeable: &[TokenId],
        source: MergeSource,
        rules: BpeRules,
    ) -> Result<Self, TextError> {
        let alphabet = vocab.alphabet;
        let mut whole = HashMap::with_capacity(mergeable.len());
        let mut byte_tokens = [None; 256];
        for &id in mergeable {
            let Some(text) = vocab.text(id) else { continue };
            if vocab.is_special(id) {
                continue;
            }
            let key: Option<Box<[u8]>> = match alphabet {
                Alphabet::Bytes => byte_alphabet::bytes_of(text).map(Into::into),
                Alphabet::Chars => Some(text.as_bytes().into()),
            };
            if let (Alphabet::Bytes, Some(&[byte])) = (alphabet, key.as_deref()) {
                byte_tokens[usize::from(byte)] = Some(id);
            }
            if let (Alphabet::Chars, Some(byte)) = (alphabet, fallback_byte(text)) {
                byte_tokens[usize::from(byte)] = Some(id);
            }
            if let Some(key) = key {
                whole.insert(key, id);
            }
        }
        let merges = match source {
            MergeSource::Listed(pairs) => listed_merges(vocab, &pairs)?,
            MergeSource::Scores(scores) => scored_merges(vocab, mergeable, &scores)?,
        };
        Ok(Bpe { alphabet, rules, whole, byte_tokens, merges })
    }

    /// Appends the tokens of one pre-token.
    pub(crate) fn encode(&self, piece: &str, scratch: &mut BpeScratch, out: &mut Vec<TokenId>) {
        if self.rules.ignore_merges
            && let Some(&id) = self.whole.get(piece.as_bytes())
        {
            out.push(id);
            return;
        }
        scratch.symbols.clear();
        match self.alphabet {
            Alphabet::Bytes => self.spell_bytes(piece, &mut scratch.symbols),
            Alphabet::Chars => self.spell_chars(piece, &mut scratch.symbols),
        }
        self.merges.apply(&mut scratch.symbols, &mut scratch.merge);
        out.extend_from_slice(&scratch.symbols);
    }

    fn spell_bytes(&self, piece: &str, symbols: &mut Vec<TokenId>) {
        let mut fusing = false;
        for byte in piece.bytes() {
            match self.byte_tokens[usize::from(byte)] {
                Some(id) => symbols.push(id),
                None => self.push_unknown(fusing, symbols),
            }
            fusing = self.byte_tokens[usize::from(byte)].is_none();
        }
    }

    fn spell_chars(&self, piece: &str, symbols: &mut Vec<TokenId>) {
        let mut fusing = false;
        for c in piece.chars() {
            let mut buffer = [0; 4];
            let bytes = c.encode_utf8(&mut buffer).as_bytes();
            if let Some(&id) = self.whole.get(bytes) {
                symbols.push(id);
            } else if self.rules.byte_fallback
                && bytes.iter().all(|&b| self.byte_tokens[usize::from(b)].is_some())
            {
                symbols.extend(bytes.iter().filter_map(|&b| self.byte_tokens[usize::from(b)]));
            } else {
                self.push_unknown(fusing, symbols);
                fusing = true;
                continue;
            }
            fusing = false;
        }
    }

    fn push_unknown(&self, after_unknown: bool, symbols: &mut Vec<TokenId>) {
        if !(after_unknown && self.rules.fuse_unknown) {
            symbols.extend(self.rules.unknown);
        }
    }
}

/// Ranks pairs by their index in the list. Rules with special tokens are left out.
fn listed_merges(vocab: &Vocab, pairs: &[(String, String)]) -> Result<Merges, TextError> {
    let mut merges = Merges::with_capacity(pairs.len());
    let mut joined = String::new();
    for (rank, (left, right)) in (0..).zip(pairs) {
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        let find = |text: &str| {
            vocab.id(text).ok_or_else(|| {
                TextError::vocabulary(format!(
                    "merge {rank} ({left:?} + {right:?}) uses {text:?}, which is not a token"
                ))
            })
        };
        let (left, right, merged) = (find(left)?, find(right)?, find(&joined)?);
        if ![left, right, merged].into_iter().any(|id| vocab.is_special(id)) {
            merges.insert(left, right, rank, merged);
        }
    }
    Ok(merges)
}

/// Maximum length of a token with a score. All of its splits are tried, so length has a cost.
const MAX_SCORED_TOKEN_BYTES: usize = 512;

/// Makes each split of a token into two tokens a rule, ranked by the token's score. Tokens of equal score
/// share a rank, so that the leftmost pair is merged first.
fn scored_merges(
    vocab: &Vocab,
    mergeable: &[TokenId],
    scores: &[f32],
) -> Result<Merges, TextError> {
    let score = |id: TokenId| scores.get(id as usize).copied().unwrap_or(f32::NEG_INFINITY);
    let usable = |id: &TokenId| {
        !vocab.is_special(*id) && vocab.text(*id).is_some_and(|text| fallback_byte(text).is_none())
    };
    let mut ordered: Vec<TokenId> = mergeable.iter().copied().filter(usable).collect();
    ordered.sort_by(|&a, &b| score(b).total_cmp(&score(a)));

    let mut merges = Merges::with_capacity(ordered.len() * 2);
    let mut rank = 0;
    for (place, &id) in ordered.iter().enumerate() {
        if place > 0 && score(id) != score(ordered[place - 1]) {
            rank += 1;
        }
        let text = vocab.text(id).unwrap_or_default();
        if text.len() > MAX_SCORED_TOKEN_BYTES {
            return Err(TextError::vocabulary(format!(
                "token {id} has {} bytes: must have at most {MAX_SCORED_TOKEN_BYTES}",
                text.len()
            )));
        }
        for (cut, _) in text.char_indices().skip(1) {
            let halves = (vocab.id(&text[..cut]), vocab.id(&text[cut..]));
            if let (Some(left), Some(right)) = halves
                && usable(&left)
                && usable(&right)
            {
                merges.insert(left, right, rank, id);
            }
        }
    }
    Ok(merges)
}
