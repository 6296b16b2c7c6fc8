//! Tokens → text piece by piece, never half a character.

use crate::{TokenId, Tokenizer};

/// Decodes a growing run of tokens. What it has handed out is certain: all pieces and [`finish`] together
/// are [`Tokenizer::decode`] of the whole run.
///
/// [`finish`]: Detokenizer::finish
#[derive(Clone, Debug)]
pub struct Detokenizer {
    skip_specials: bool,
    /// Special tokens that are shown all the same.
    shown: Vec<TokenId>,
    /// The beginning of a character whose other bytes have not come yet: at most three bytes.
    pending: Vec<u8>,
    /// Nothing has been decoded so far, so the tokenizer's own leading space may still be ahead.
    at_start: bool,
}

impl Detokenizer {
    /// Starts a new run. With `skip_specials`, special tokens decode to nothing.
    pub fn new(skip_specials: bool) -> Self {
        Self { skip_specials, shown: Vec::new(), pending: Vec::new(), at_start: true }
    }

    /// The same, but these special tokens do not decode to nothing.
    pub fn showing(self, shown: Vec<TokenId>) -> Self {
        Self { shown, ..self }
    }

    /// Takes the next token and returns the text that became certain, often empty.
    ///
    /// Bytes that can no longer become a character turn into U+FFFD, as many as
    /// [`String::from_utf8_lossy`] of the whole run would write. A number that is not in the vocabulary
    /// decodes to nothing.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: TokenId) -> String {
        let mut text = String::new();
        self.push_onto(tokenizer, id, &mut text);
        text
    }

    pub(crate) fn push_onto(&mut self, tokenizer: &Tokenizer, id: TokenId, text: &mut String) {
        if self.skip_specials && tokenizer.is_special(id) && !self.shown.contains(&id) {
            return;
        }
        let Some(mut piece) = tokenizer.piece(id) else { return };
        if self.at_start && !piece.is_empty() {
            self.at_start = false;
            if tokenizer.strips_leading_space() {
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
                // Without an `error_len` more bytes could make it valid, if none follow yet.
                Err(error) if error.error_len().is_none() && done == self.pending.len() => {
                    unfinished = invalid.len();
                }
                Err(_) => text.push(char::REPLACEMENT_CHARACTER),
            }
        }
        self.pending.drain(..self.pending.len() - unfinished);
    }

    /// Ends the run: a character still unfinished becomes U+FFFD.
    pub fn finish(self) -> String {
        if self.pending.is_empty() { String::new() } else { char::REPLACEMENT_CHARACTER.into() }
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

    // Bytes that make and break UTF-8 sequences, so that most random strings are nearly valid.
    fn tricky_byte() -> impl Strategy<Value = u8> {
        prop::sample::select(
            b"a\x80\x90\xa0\xbf\xc0\xc2\xe0\xe2\xed\xef\xf0\xf4\xf5\xff\x82\xac".as_slice(),
        )
    }

    proptest! {
        #[test]
        fn pieces_together_are_the_lossy_whole(
            pieces in prop::collection::vec(prop::collection::vec(tricky_byte(), 0..5), 0..12)
        ) {
            let whole = pieces.concat();
            prop_assert_eq!(decode_in_pieces(&pieces), String::from_utf8_lossy(&whole));
        }
    }
}
