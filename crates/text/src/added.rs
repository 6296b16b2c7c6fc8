//! Added tokens: texts that are one token wherever they occur, matched before pre-tokenization and merging.
//!
//! Some are *special*: they control the model (begin of text, end of turn) and must never result from user text.
//! The caller chooses which tokens are recognised.

use aho_corasick::{AhoCorasick, MatchKind};
use serde::Deserialize;

use crate::normalize::{Normalizer, normalize};
use crate::{TextError, TokenId};

/// An added token, as in `tokenizer.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "these are the five flags of the file format")]
pub(crate) struct AddedToken {
    pub(crate) id: TokenId,
    #[serde(rename = "content")]
    pub(crate) text: String,
    /// Controls the model; never results from user text.
    #[serde(default)]
    pub(crate) special: bool,
    /// Matches in the normalized text, not in the original one.
    #[serde(default)]
    pub(crate) normalized: bool,
    /// Consumes the white space before it.
    #[serde(default)]
    pub(crate) lstrip: bool,
    /// Consumes the white space after it.
    #[serde(default)]
    pub(crate) rstrip: bool,
    /// Does not match inside a word.
    #[serde(default)]
    pub(crate) single_word: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Token(TokenId),
    /// Byte offset and text between tokens.
    Text(usize, &'a str),
}

/// Finds a set of added tokens: the leftmost match, the longest of those.
#[derive(Debug)]
pub(crate) struct AddedFinder {
    automaton: Option<AhoCorasick>,
    tokens: Vec<AddedToken>,
}

impl AddedFinder {
    /// Creates a finder for the texts of `tokens`, normalized by `normalizer`.
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

    /// Splits `text` into tokens and the text between them, which is never empty.
    pub(crate) fn split<'a>(&self, text: &'a str) -> Vec<Part<'a>> {
        let mut parts = Vec::new();
        let mut done = 0;
        // `from` lies past `to` when an earlier token consumed the white space before this one.
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

/// Returns `true` if a word continues across either end of the span.
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
    fn the_leftmost_longest_match_wins() {
        let finder = AddedFinder::new(vec![token(1, "<a>"), token(2, "<a><b>")], &[]).unwrap();
        assert_eq!(
            finder.split("x<a><b><a>y"),
            [Part::Text(0, "x"), Part::Token(2), Part::Token(1), Part::Text(10, "y")]
        );
    }

    #[test]
    fn tokens_consume_white_space_if_declared() {
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
