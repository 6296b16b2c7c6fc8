//! Added tokens: texts that are one token wherever they stand, found before anything is cut or merged.
//!
//! Some of them are *special*: they steer the model (begin of text, end of turn) and must never come from
//! what a user wrote. The caller says which of the two kinds it wants recognised.

use aho_corasick::{AhoCorasick, MatchKind};

use crate::normalize::{Normalizer, normalize};
use crate::{TextError, TokenId};

/// One entry of a tokenizer's list of added tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "these are the five flags of the file format")]
pub(crate) struct AddedToken {
    pub(crate) id: TokenId,
    pub(crate) text: String,
    /// Steers the model; never produced from plain text.
    pub(crate) special: bool,
    /// Is looked for in the normalized text, not in the text as given.
    pub(crate) normalized: bool,
    /// Takes the white space before it along.
    pub(crate) lstrip: bool,
    /// Takes the white space after it along.
    pub(crate) rstrip: bool,
    /// Does not match inside a word.
    pub(crate) single_word: bool,
}

/// A stretch of text, told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Token(TokenId),
    /// Text between tokens, and the byte at which it begins.
    Text(usize, &'a str),
}

/// Finds one set of added tokens, the longest of those that start first.
#[derive(Debug)]
pub(crate) struct AddedFinder {
    automaton: Option<AhoCorasick>,
    tokens: Vec<AddedToken>,
}

impl AddedFinder {
    /// Looks for the texts of `tokens`, as `normalizer` would write them.
    pub(crate) fn new(
        tokens: Vec<AddedToken>,
        normalizer: &[Normalizer],
    ) -> Result<Self, TextError> {
        if tokens.is_empty() {
            return Ok(AddedFinder { automaton: None, tokens });
        }
        let texts = tokens.iter().map(|token| normalize(normalizer, &token.text).into_owned());
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(texts)
            .map_err(|e| TextError::vocabulary(format!("too many added tokens: {e}")))?;
        Ok(AddedFinder { automaton: Some(automaton), tokens })
    }

    /// Cuts `text` into tokens and the text between them. Parts of text are never empty.
    pub(crate) fn split<'a>(&self, text: &'a str) -> Vec<Part<'a>> {
        let mut parts = Vec::new();
        let mut done = 0;
        // `from` lies past `to` when an earlier token took along the white space this one begins with.
        let push_text = |parts: &mut Vec<Part<'a>>, from: usize, to: usize| {
            if from < to {
                parts.push(Part::Text(from, &text[from..to]));
            }
        };
        if let Some(automaton) = &self.automaton {
            for found in automaton.find_iter(text) {
                let token = &self.tokens[found.pattern().as_usize()];
                if token.single_word && inside_word(text, found.span()) {
                    continue;
                }
                let mut start = found.start();
                if token.lstrip {
                    start = text[..start].trim_end().len();
                }
                let mut end = found.end();
                if token.rstrip {
                    end = text.len() - text[end..].trim_start().len();
                }
                push_text(&mut parts, done, start);
                parts.push(Part::Token(token.id));
                done = end;
            }
        }
        push_text(&mut parts, done, text.len());
        parts
    }
}

/// Whether a word goes on across either border of the span.
fn inside_word(text: &str, span: aho_corasick::Span) -> bool {
    let before = text[..span.start].chars().next_back();
    let after = text[span.end..].chars().next();
    before.into_iter().chain(after).any(regex_syntax::is_word_character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: TokenId, text: &str) -> AddedToken {
        AddedToken {
            id,
            text: text.into(),
            special: true,
            normalized: false,
            lstrip: false,
            rstrip: false,
            single_word: false,
        }
    }

    #[test]
    fn the_longest_of_the_leftmost_wins() {
        let finder = AddedFinder::new(vec![token(1, "<a>"), token(2, "<a><b>")], &[]).unwrap();
        assert_eq!(
            finder.split("x<a><b><a>y"),
            [Part::Text(0, "x"), Part::Token(2), Part::Token(1), Part::Text(10, "y")]
        );
    }

    #[test]
    fn white_space_goes_with_the_token_that_asks_for_it() {
        let left = AddedToken { lstrip: true, ..token(1, "<l>") };
        let right = AddedToken { rstrip: true, ..token(2, "<r>") };
        let finder = AddedFinder::new(vec![left, right], &[]).unwrap();
        assert_eq!(
            finder.split("a <l> b <r> <l>"),
            [
                Part::Text(0, "a"),
                Part::Token(1),
                Part::Text(5, " b "),
                Part::Token(2),
                Part::Token(1)
            ]
        );
    }

    #[test]
    fn single_words_do_not_match_inside_words() {
        let finder =
            AddedFinder::new(vec![AddedToken { single_word: true, ..token(1, "ab") }], &[])
                .unwrap();
        assert_eq!(finder.split("abc"), [Part::Text(0, "abc")]);
        assert_eq!(finder.split("ab,"), [Part::Token(1), Part::Text(2, ",")]);
    }
}
