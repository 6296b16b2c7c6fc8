//! Incremental detokenization.

use crate::{TokenId, Tokenizer};

/// Decodes a growing sequence of tokens. Emitted text is final: all of it together with [`finish`] equals
/// [`Tokenizer::decode`] of the whole sequence.
///
/// [`finish`]: Detokenizer::finish
#[derive(Clone, Debug)]
pub struct Detokenizer {
    skip_specials: bool,
    /// Special tokens that are never skipped.
    visible: Vec<TokenId>,
    /// Leading bytes of an incomplete character, at most three.
    pending: Vec<u8>,
    /// True while nothing is decoded, so that the tokenizer's leading space may still follow.
    at_start: bool,
}

impl Detokenizer {
    /// Creates a detokenizer. With `skip_specials`, special tokens decode to nothing.
    pub fn new(skip_specials: bool) -> Self {
        Self { skip_specials, visible: Vec::new(), pending: Vec::new(), at_start: true }
    }

    /// Sets special tokens that are never skipped.
    #[must_use]
    pub fn with_visible_specials(self, visible: Vec<TokenId>) -> Self {
        Self { visible, ..self }
    }

    /// Decodes the next token and returns the text that became final, often empty.
    ///
    /// Invalid bytes become U+FFFD, as in [`String::from_utf8_lossy`] of the whole sequence. An id that is not
    /// in the vocabulary decodes to nothing.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: TokenId) -> String {
        let mut text = String::new();
        self.push_onto(tokenizer, id, &mut text);
        text
    }

    fn push_onto(&mut self, tokenizer: &Tokenizer, id: TokenId, text: &mut String) {
        if self.skip_specials && tokenizer.is_special(id) && !self.visible.contains(&id) {
            return;
        }
        let Some(mut piece) = tokenizer.token_bytes(id) else { return };
        if self.at_start && !piece.is_empty() {
            self.at_start = false;
            if tokenizer.strip_leading_space {
                piece = piece.strip_prefix(b" ").unwrap_or(piece);
            }
        }
        self.push_bytes(piece, text);
    }

    fn push_bytes(&mut self, piece: &[u8], text: &mut String) {
        self.pending.extend_from_slice(piece);
        let (mut done, mut unfinished) = (0, 0);
        for chunk in self.pending.utf8_chunks() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            done += chunk.valid().len() + invalid.len();
            match std::str::from_utf8(invalid) {
                Ok(_) => {}
                // Without an `error_len`, more bytes could make it valid if none follow yet.
                Err(error) if error.error_len().is_none() && done == self.pending.len() => {
                    unfinished = invalid.len();
                }
                Err(_) => text.push(char::REPLACEMENT_CHARACTER),
            }
        }
        self.pending.drain(..self.pending.len() - unfinished);
    }

    /// Ends the sequence. An incomplete character becomes U+FFFD.
    pub fn finish(self) -> String {
        if self.pending.is_empty() { String::new() } else { char::REPLACEMENT_CHARACTER.into() }
    }
}

impl Tokenizer {
    /// Decodes a sequence of tokens. Invalid UTF-8 becomes U+FFFD, and ids that are not in the vocabulary decode
    /// to nothing.
    pub fn decode(&self, ids: &[TokenId], skip_specials: bool) -> String {
        let mut detokenizer = Detokenizer::new(skip_specials);
        let mut text = String::new();
        for &id in ids {
            detokenizer.push_onto(self, id, &mut text);
        }
        text.push_str(&detokenizer.finish());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode_in_pieces(pieces: &[Vec<u8>]) -> String {
        let mut detokenizer = Detokenizer::new(false);
        let mut text = String::new();
        for piece in pieces {
            detokenizer.push_bytes(piece, &mut text);
        }
        text + &detokenizer.finish()
    }

    #[test]
    fn a_character_appears_when_its_last_byte_does() {
        let mut detokenizer = Detokenizer::new(false);
        let mut text = String::new();
        let bytes = "a😀".as_bytes();
        for (at, byte) in bytes.iter().enumerate() {
            detokenizer.push_bytes(&[*byte], &mut text);
            assert_eq!(text, if at < 4 { "a" } else { "a😀" });
        }
        assert_eq!(detokenizer.finish(), "");
    }

    // Bytes that start, continue and break UTF-8 sequences, so that most random strings are nearly valid.
    fn tricky_byte() -> impl Strategy<Value = u8> {
        prop::sample::select(
            b"a\x80\x90\xa0\xbf\xc0\xc2\xe0\xe2\xed\xef\xf0\xf4\xf5\xff\x82\xac".as_slice(),
        )
    }

    proptest! {
        #[test]
        fn the_pieces_equal_the_lossy_whole(
            pieces in prop::collection::vec(prop::collection::vec(tricky_byte(), 0..5), 0..12)
        ) {
            let whole = pieces.concat();
            prop_assert_eq!(decode_in_pieces(&pieces), String::from_utf8_lossy(&whole));
        }
    }
}
