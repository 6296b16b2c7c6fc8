//! The vocabulary: token id ↔ text in the file ↔ bytes.

use std::collections::HashMap;

use crate::added::AddedToken;
use crate::{TextError, TokenId, byte_alphabet};

/// Notation of the texts of a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alphabet {
    /// One character for each byte (GPT-2 and everything after it).
    Bytes,
    /// Plain characters, `▁` for a space, `<0x0A>` for a byte without a character (SentencePiece).
    Chars,
}

#[derive(Debug)]
pub(crate) struct Vocab {
    pub(crate) alphabet: Alphabet,
    texts: Vec<Option<Box<str>>>,
    pieces: Vec<Box<[u8]>>,
    special: Vec<bool>,
    ids: HashMap<Box<str>, TokenId>,
}

impl Vocab {
    /// Creates a vocabulary from the entries of the model and its added tokens.
    ///
    /// The bytes of an added token are its text; all others are decoded by `alphabet`.
    pub(crate) fn new(
        alphabet: Alphabet,
        entries: Vec<(String, TokenId)>,
        added: &[AddedToken],
    ) -> Result<Self, TextError> {
        let ids = entries.iter().map(|(_, id)| *id).chain(added.iter().map(|token| token.id));
        let len = checked_len(ids)?;
        let mut vocab = Vocab {
            alphabet,
            texts: vec![None; len],
            pieces: vec![Box::default(); len],
            special: vec![false; len],
            ids: HashMap::with_capacity(entries.len()),
        };
        for (text, id) in entries {
            let slot = &mut vocab.texts[id as usize];
            if let Some(other) = slot {
                return Err(TextError::vocabulary(format!(
                    "token {id} is both {other:?} and {text:?}"
                )));
            }
            vocab.pieces[id as usize] = bytes_of_entry(alphabet, &text);
            *slot = Some(text.clone().into());
            vocab.ids.insert(text.into(), id);
        }
        for &AddedToken { id, ref text, special, .. } in added {
            let index = id as usize;
            if let Some(other) = vocab.text(id)
                && other != text
            {
                return Err(TextError::vocabulary(format!(
                    "token {id} is both {other:?} and the added {text:?}"
                )));
            }
            vocab.pieces[index] = text.as_bytes().into();
            vocab.special[index] |= special;
            vocab.texts[index] = Some(text.as_str().into());
            vocab.ids.insert(text.as_str().into(), id);
        }
        Ok(vocab)
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    pub(crate) fn id(&self, text: &str) -> Option<TokenId> {
        self.ids.get(text).copied()
    }

    pub(crate) fn text(&self, id: TokenId) -> Option<&str> {
        self.texts.get(id as usize)?.as_deref()
    }

    /// Returns the bytes of a token, or `None` for an unused id.
    pub(crate) fn piece(&self, id: TokenId) -> Option<&[u8]> {
        self.text(id).map(|_| &*self.pieces[id as usize])
    }

    pub(crate) fn is_special(&self, id: TokenId) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }

    /// Returns all used tokens, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TokenId, &str)> {
        (0..).zip(&self.texts).filter_map(|(id, text)| Some((id, text.as_deref()?)))
    }
}

/// Returns the length of the table for these ids. An id out of proportion to their number is an error: a file
/// must not cause an allocation by merely naming a number.
fn checked_len(ids: impl Iterator<Item = TokenId>) -> Result<usize, TextError> {
    let (mut count, mut len) = (0, 0);
    for id in ids {
        count += 1;
        len = len.max(id as usize + 1);
    }
    let limit = 2 * count + 65_536;
    if len > limit {
        return Err(TextError::vocabulary(format!(
            "token id {} among {count} tokens: must be below {limit}",
            len - 1
        )));
    }
    Ok(len)
}

fn bytes_of_entry(alphabet: Alphabet, text: &str) -> Box<[u8]> {
    match alphabet {
        Alphabet::Bytes => {
            byte_alphabet::bytes_of(text).unwrap_or_else(|| text.as_bytes().to_vec()).into()
        }
        Alphabet::Chars => match fallback_byte(text) {
            Some(byte) => [byte].into(),
            None => text.replace('▁', " ").into_bytes().into(),
        },
    }
}

/// Parses a text like `<0x0A>`.
pub(crate) fn fallback_byte(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let well_formed = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    well_formed.then(|| u8::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_an_id_out_of_proportion() {
        let entries = vec![("a".to_owned(), 0), ("b".to_owned(), u32::MAX)];
        let error = Vocab::new(Alphabet::Bytes, entries, &[]).unwrap_err().to_string();
        assert!(error.contains("4294967295"), "{error}");
    }

    #[test]
    fn fallback_bytes_are_two_hex_digits() {
        assert_eq!(fallback_byte("<0x0A>"), Some(10));
        assert_eq!(fallback_byte("<0x+A>"), None);
        assert_eq!(fallback_byte("<0x0AB>"), None);
    }
}
