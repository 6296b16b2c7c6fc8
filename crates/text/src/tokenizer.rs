//! The tokenizer: added tokens, normalizer, cuts and merges in the order Hugging Face runs them.
//!
//! Two doors lead in. [`Tokenizer::encode`] is for text a person wrote and never yields a special token;
//! [`Tokenizer::encode_with_specials`] is for text a program composed. A rendered chat is both at once
//! and has its own door, [`Tokenizer::encode_prompt`].

use crate::added::{AddedFinder, AddedToken, Part};
use crate::bpe::{Bpe, BpeRules, BpeScratch, MergeSource};
use crate::detokenize::Detokenizer;
use crate::normalize::{Normalizer, normalize};
use crate::prompt::Prompt;
use crate::special_text::SpecialTexts;
use crate::split::Splitter;
use crate::vocab::{Alphabet, Vocab};
use crate::{GgufVocab, TextError, TokenId};

/// Turns text into token numbers and back. Immutable: share it freely between threads.
#[derive(Debug)]
pub struct Tokenizer {
    vocab: Vocab,
    bpe: Bpe,
    splitter: Splitter,
    normalizer: Vec<Normalizer>,
    composed: Added,
    plain: Added,
    /// Added tokens by their text as given: what may be special in a rendered chat. Special tokens of
    /// one character are left out, because a mark inside them cannot tell a user's from the template's.
    in_prompt: AddedFinder,
    special_texts: SpecialTexts,
    ends: PromptEnds,
    strip_leading_space: bool,
}

/// The tokens a tokenizer puts around a raw prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PromptEnds {
    pub(crate) prefix: Vec<TokenId>,
    pub(crate) suffix: Vec<TokenId>,
    pub(crate) bos: Option<TokenId>,
}

/// Added tokens in the order they are looked for: in the text as given, then in the normalized text.
#[derive(Debug)]
struct Added {
    raw: AddedFinder,
    normalized: AddedFinder,
}

/// What a vocabulary file says, in one shape for all file formats.
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

/// Every user's string is compared with the ends of special tokens, so their length costs.
const MAX_ADDED_TOKEN_BYTES: usize = 1024;

impl Tokenizer {
    /// Reads a Hugging Face `tokenizer.json`.
    ///
    /// BPE models only, with one of the pre-tokenizer patterns of GPT-2, Llama 3 or Qwen 2, or in the
    /// manner of SentencePiece. Anything else is refused by name.
    pub fn from_json(bytes: &[u8]) -> Result<Self, TextError> {
        Self::assemble(crate::tokenizer_json::parse(bytes)?)
    }

    /// Takes a vocabulary from the metadata of a GGUF file.
    pub fn from_gguf(vocab: GgufVocab) -> Result<Self, TextError> {
        Self::assemble(vocab.into_parts()?)
    }

    fn assemble(parts: Parts) -> Result<Self, TextError> {
        let Parts { added, normalizer, .. } = parts;
        for token in &added {
            if !(1..=MAX_ADDED_TOKEN_BYTES).contains(&token.text.len()) {
                return Err(TextError::vocabulary(format!(
                    "added token {} is {} bytes long; allowed: 1 to {MAX_ADDED_TOKEN_BYTES}",
                    token.id,
                    token.text.len()
                )));
            }
        }
        let mergeable: Vec<TokenId> = parts.entries.iter().map(|(_, id)| *id).collect();
        let of_added = added.iter().map(|t| (t.id, t.text.as_str(), t.special));
        let vocab = Vocab::new(parts.alphabet, parts.entries, of_added)?;
        let bpe = Bpe::new(&vocab, &mergeable, parts.merges, parts.rules)?;
        let plain = added.iter().filter(|token| !token.special).cloned().collect();
        let special_texts = added.iter().filter(|t| t.special).map(|t| t.text.clone());
        let special_texts = SpecialTexts::new(special_texts)?;
        let markable = |token: &AddedToken| !token.special || token.text.chars().nth(1).is_some();
        let in_prompt = added.iter().filter(|token| markable(token)).cloned().collect();
        Ok(Tokenizer {
            composed: Added::new(added, &normalizer)?,
            plain: Added::new(plain, &normalizer)?,
            in_prompt: AddedFinder::new(in_prompt, &[])?,
            special_texts,
            vocab,
            bpe,
            normalizer,
            splitter: parts.splitter,
            ends: parts.ends,
            strip_leading_space: parts.strip_leading_space,
        })
    }

    /// The tokens of text a person wrote. Text that looks like a special token stays text.
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        let mut run = Run::default();
        self.encode_added(&self.plain, text, true, &mut run);
        run.tokens
    }

    /// The tokens of text a program composed: special-token texts in it become special tokens.
    ///
    /// This is what Hugging Face's `encode(text, add_special_tokens=False)` gives.
    pub fn encode_with_specials(&self, text: &str) -> Vec<TokenId> {
        let mut run = Run::default();
        self.encode_added(&self.composed, text, true, &mut run);
        run.tokens
    }

    /// The tokens of a rendered chat: what the template wrote may be special, what users wrote may not.
    pub fn encode_prompt(&self, prompt: &Prompt) -> Vec<TokenId> {
        let mut run = Run::default();
        for part in self.in_prompt.split(prompt.marked()) {
            match part {
                Part::Token(id) => run.tokens.push(id),
                Part::Text(start, text) => {
                    let text = prompt.without_marks(text);
                    self.encode_added(&self.plain, &text, start == 0, &mut run);
                }
            }
        }
        run.tokens
    }

    fn encode_added(&self, added: &Added, text: &str, at_start: bool, run: &mut Run) {
        for part in added.raw.split(text) {
            match part {
                Part::Token(id) => run.tokens.push(id),
                Part::Text(start, text) => {
                    let text = normalize(&self.normalizer, text);
                    for inner in added.normalized.split(&text) {
                        match inner {
                            Part::Token(id) => run.tokens.push(id),
                            Part::Text(inner_start, text) => {
                                let first = at_start && start == 0 && inner_start == 0;
                                self.encode_pieces(text, first, run);
                            }
                        }
                    }
                }
            }
        }
    }

    fn encode_pieces(&self, text: &str, at_start: bool, run: &mut Run) {
        self.splitter.split(text, at_start, |piece| {
            self.bpe.encode(piece, &mut run.scratch, &mut run.tokens);
        });
    }
}

impl Tokenizer {
    /// What the tokenizer puts before a raw prompt: begin-of-text, or nothing.
    pub fn prompt_prefix(&self) -> &[TokenId] {
        &self.ends.prefix
    }

    /// What the tokenizer puts after a raw prompt: nothing, save for some embedding models.
    pub fn prompt_suffix(&self) -> &[TokenId] {
        &self.ends.suffix
    }

    /// The begin-of-text token, if the vocabulary names one.
    pub fn bos(&self) -> Option<TokenId> {
        self.ends.bos
    }

    /// The number of a token by its text as the vocabulary writes it.
    pub fn id_of(&self, token_text: &str) -> Option<TokenId> {
        self.vocab.id(token_text)
    }

    /// One more than the largest token number.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a vocabulary is never empty in any useful sense"
    )]
    pub fn len(&self) -> usize {
        self.vocab.len()
    }

    /// Whether the token steers the model instead of standing for text.
    pub fn is_special(&self, id: TokenId) -> bool {
        self.vocab.is_special(id)
    }

    /// The bytes a token stands for, which need not be whole characters; a special token's text.
    pub fn piece(&self, id: TokenId) -> Option<&[u8]> {
        self.vocab.piece(id)
    }

    /// The token as the vocabulary writes it.
    pub fn token_text(&self, id: TokenId) -> Option<&str> {
        self.vocab.text(id)
    }

    /// The text of a whole run of tokens. Bytes that are not UTF-8 become U+FFFD; numbers that are not
    /// in the vocabulary become nothing.
    pub fn decode(&self, ids: &[TokenId], skip_specials: bool) -> String {
        let mut detokenizer = Detokenizer::new(skip_specials);
        let mut text = String::new();
        for &id in ids {
            detokenizer.push_onto(self, id, &mut text);
        }
        text.push_str(&detokenizer.finish());
        text
    }

    /// All special tokens, in order of their numbers.
    pub fn special_tokens(&self) -> impl Iterator<Item = (TokenId, &str)> {
        self.vocab.iter().filter(|(id, _)| self.vocab.is_special(*id))
    }

    /// The texts of the special tokens, for [`RenderOptions::specials`](crate::RenderOptions::specials).
    pub fn special_texts(&self) -> &SpecialTexts {
        &self.special_texts
    }

    /// Whether the first space of a decoded text is the tokenizer's own.
    pub(crate) fn strips_leading_space(&self) -> bool {
        self.strip_leading_space
    }
}

impl Added {
    fn new(tokens: Vec<AddedToken>, normalizer: &[Normalizer]) -> Result<Self, TextError> {
        let (normalized, raw) = tokens.into_iter().partition(|token| token.normalized);
        Ok(Added {
            raw: AddedFinder::new(raw, &[])?,
            normalized: AddedFinder::new(normalized, normalizer)?,
        })
    }
}

/// The state of one call of an `encode` function.
#[derive(Default)]
struct Run {
    tokens: Vec<TokenId>,
    scratch: BpeScratch,
}
