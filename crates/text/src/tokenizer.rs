//! The tokenizer: added tokens, normalizer, pre-tokenizer and merges, in the order Hugging Face runs them.
//!
//! [`Tokenizer::encode`] is for text from users and never yields a special token;
//! [`Tokenizer::encode_with_specials`] is for text composed by a program. A rendered chat contains both and is
//! encoded by [`Tokenizer::encode_prompt`].

use crate::added::{AddedFinder, AddedToken, Part};
use crate::bpe::{Bpe, BpeScratch};
use crate::normalize::{Normalizer, normalize};
use crate::parts::{Parts, PromptEnds};
use crate::prompt::Prompt;
use crate::special_text::SpecialTexts;
use crate::split::Splitter;
use crate::vocab::Vocab;
use crate::{TextError, TokenId, Vocabulary};

/// Converts text to token ids and back. Immutable, so threads can share it.
#[derive(Debug)]
pub struct Tokenizer {
    vocab: Vocab,
    bpe: Bpe,
    splitter: Splitter,
    normalizer: Vec<Normalizer>,
    composed: Added,
    plain: Added,
    /// Added tokens that are recognised in a rendered chat. Special tokens of one character are left out,
    /// because a mark inside them cannot distinguish text of the user from text of the template.
    in_prompt: AddedFinder,
    special_texts: SpecialTexts,
    ends: PromptEnds,
    /// True if decoding drops the space that encoding put before the first word.
    pub(crate) strip_leading_space: bool,
}

/// Added tokens in search order: in the original text, then in the normalized text.
#[derive(Debug)]
struct Added {
    raw: AddedFinder,
    normalized: AddedFinder,
}

/// Maximum length of an added token. Every string of a user is compared with them, so length has a cost.
const MAX_ADDED_TOKEN_BYTES: usize = 1024;

impl Tokenizer {
    /// Reads a Hugging Face `tokenizer.json`.
    ///
    /// Supports BPE models with the pre-tokenizer patterns of GPT-2, Llama 3 or Qwen 2, or in the style of
    /// SentencePiece. Anything else is an error that names the unsupported part.
    pub fn from_json(bytes: &[u8]) -> Result<Self, TextError> {
        Self::assemble(crate::tokenizer_json::parse(bytes)?)
    }

    /// Creates a tokenizer from the vocabulary of a GGUF file.
    pub fn from_gguf(vocab: Vocabulary) -> Result<Self, TextError> {
        Self::assemble(crate::gguf::parts(vocab)?)
    }

    fn assemble(parts: Parts) -> Result<Self, TextError> {
        let Parts { added, normalizer, .. } = parts;
        for token in &added {
            if !(1..=MAX_ADDED_TOKEN_BYTES).contains(&token.text.len()) {
                return Err(TextError::vocabulary(format!(
                    "added token {} has {} bytes: must have between 1 and {MAX_ADDED_TOKEN_BYTES}",
                    token.id,
                    token.text.len()
                )));
            }
        }
        let mergeable: Vec<TokenId> = parts.entries.iter().map(|(_, id)| *id).collect();
        let vocab = Vocab::new(parts.alphabet, parts.entries, &added)?;
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

    /// Encodes text from a user. Text that looks like a special token stays text.
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        let mut run = Run::default();
        self.encode_added(&self.plain, text, true, &mut run);
        run.tokens
    }

    /// Encodes text composed by a program: texts of special tokens become those tokens.
    ///
    /// Equals `encode(text, add_special_tokens=False)` of Hugging Face.
    pub fn encode_with_specials(&self, text: &str) -> Vec<TokenId> {
        let mut run = Run::default();
        self.encode_added(&self.composed, text, true, &mut run);
        run.tokens
    }

    /// Encodes a rendered chat: text of the template may become special tokens, text of users may not.
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
    /// Returns the tokens that precede a raw prompt: the begin token, or none.
    pub fn prompt_prefix(&self) -> &[TokenId] {
        &self.ends.prefix
    }

    /// Returns the tokens that follow a raw prompt: none, except for some embedding models.
    pub fn prompt_suffix(&self) -> &[TokenId] {
        &self.ends.suffix
    }

    /// Returns the begin token, if the vocabulary declares one.
    pub fn bos(&self) -> Option<TokenId> {
        self.ends.bos
    }

    /// Returns the id of a token by its text in the vocabulary.
    pub fn id_of(&self, token_text: &str) -> Option<TokenId> {
        self.vocab.id(token_text)
    }

    /// Returns the highest token id plus one.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a vocabulary is never empty in any useful sense"
    )]
    pub fn len(&self) -> usize {
        self.vocab.len()
    }

    /// Returns `true` if the token is a control token and not text.
    pub fn is_special(&self, id: TokenId) -> bool {
        self.vocab.is_special(id)
    }

    /// Returns the bytes of a token, which need not be whole characters; of a special token, its text.
    pub fn token_bytes(&self, id: TokenId) -> Option<&[u8]> {
        self.vocab.piece(id)
    }

    /// Returns the text of a token in the vocabulary.
    pub fn token_text(&self, id: TokenId) -> Option<&str> {
        self.vocab.text(id)
    }

    /// Returns all special tokens, in order of their ids.
    pub fn special_tokens(&self) -> impl Iterator<Item = (TokenId, &str)> {
        self.vocab.iter().filter(|(id, _)| self.vocab.is_special(*id))
    }

    /// Returns the texts of the special tokens, for [`RenderOptions::specials`](crate::RenderOptions::specials).
    pub fn special_texts(&self) -> &SpecialTexts {
        &self.special_texts
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

#[derive(Default)]
struct Run {
    tokens: Vec<TokenId>,
    scratch: BpeScratch,
}
