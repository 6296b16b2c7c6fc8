//! Character classes of pre-tokenizer patterns.
//!
//! The ranges come from the Unicode tables that the `regex` crates use for `\p{L}`, `\p{N}` and `\s`, so a
//! hand-written scanner and a regular expression agree.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

/// Class of a character. The classes are disjoint and cover everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CharClass {
    /// `[^\s\p{L}\p{M}\p{N}]`: punctuation, symbols, controls, unassigned.
    Other,
    /// `\p{M}`, which most patterns count among the others.
    Mark,
    /// `\p{L}`
    Letter,
    /// `\p{N}`
    Number,
    /// `\s` without the two line breaks below.
    Space,
    /// `[\r\n]`
    Newline,
}

/// Returns the class and the length in bytes of the character at byte `at`, which must be a character boundary,
/// or `None` at the end of the text. Marks are others.
pub(crate) fn class_at(text: &str, at: usize) -> Option<(CharClass, usize)> {
    class_where(text, at, CharClass::Other)
}

/// As [`class_at`], where marks have the class `mark`.
pub(crate) fn class_where(text: &str, at: usize, mark: CharClass) -> Option<(CharClass, usize)> {
    let (class, len) = class_of(text, at)?;
    Some((if class == CharClass::Mark { mark } else { class }, len))
}

fn class_of(text: &str, at: usize) -> Option<(CharClass, usize)> {
    let first = *text.as_bytes().get(at)?;
    if first.is_ascii() {
        return Some((TABLE.pages[0][usize::from(first)], 1));
    }
    let c = text[at..].chars().next()?;
    Some((TABLE.class(c), c.len_utf8()))
}

/// Returns the end of the longest run of `class` that starts at byte `at`. Marks are others.
pub(crate) fn run_end(text: &str, at: usize, class: CharClass) -> usize {
    run_end_where(text, at, class, CharClass::Other)
}

/// As [`run_end`], where marks have the class `mark`.
pub(crate) fn run_end_where(text: &str, mut at: usize, class: CharClass, mark: CharClass) -> usize {
    while let Some((found, len)) = class_where(text, at, mark) {
        if found != class {
            break;
        }
        at += len;
    }
    at
}

/// Table of all characters in pages of 256; equal pages are stored once.
static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

const PAGE: usize = 256;
const PAGES: usize = (char::MAX as usize + 1) / PAGE;

struct Table {
    /// Distinct pages. Page 0 covers U+0000..=U+00FF and thus ASCII.
    pages: Vec<[CharClass; PAGE]>,
    page_of: Vec<u16>,
}

impl Table {
    fn new() -> Self {
        let mut flat = vec![CharClass::Other; PAGES * PAGE];
        for (pattern, class) in [
            (r"\p{M}", CharClass::Mark),
            (r"\p{L}", CharClass::Letter),
            (r"\p{N}", CharClass::Number),
            (r"\s", CharClass::Space),
            (r"[\r\n]", CharClass::Newline),
        ] {
            for (first, last) in ranges(pattern) {
                flat[first as usize..=last as usize].fill(class);
            }
        }
        let mut table = Table { pages: Vec::new(), page_of: Vec::with_capacity(PAGES) };
        for page in flat.as_chunks::<PAGE>().0 {
            let known = table.pages.iter().position(|p| p == page);
            let index = known.unwrap_or_else(|| {
                table.pages.push(*page);
                table.pages.len() - 1
            });
            table.page_of.push(u16::try_from(index).expect("4352 pages at most"));
        }
        table
    }

    fn class(&self, c: char) -> CharClass {
        let code = c as usize;
        self.pages[usize::from(self.page_of[code / PAGE])][code % PAGE]
    }
}

/// Returns the code point ranges of a one-character pattern.
fn ranges(pattern: &str) -> Vec<(char, char)> {
    let hir = regex_syntax::parse(pattern).expect("a constant pattern");
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            class.ranges().iter().map(|r| (r.start(), r.end())).collect()
        }
        other => unreachable!("{pattern} is a class, not {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_agree_with_the_standard_library() {
        for c in '\0'..=char::MAX {
            let class = TABLE.class(c);
            assert_eq!(class == CharClass::Newline, matches!(c, '\r' | '\n'), "{c:?}");
            let space = matches!(class, CharClass::Space | CharClass::Newline);
            assert_eq!(space, c.is_whitespace(), "{c:?}");
            if class == CharClass::Letter {
                assert!(c.is_alphabetic(), "{c:?}");
            }
        }
    }

    #[test]
    fn marks_are_not_letters_and_roman_numerals_are_numbers() {
        assert_eq!(TABLE.class('\u{301}'), CharClass::Mark);
        assert_eq!(class_at("\u{301}", 0), Some((CharClass::Other, 2)));
        assert_eq!(class_where("\u{301}", 0, CharClass::Letter), Some((CharClass::Letter, 2)));
        assert_eq!(TABLE.class('Ⅳ'), CharClass::Number);
        assert_eq!(TABLE.class('漢'), CharClass::Letter);
        assert_eq!(TABLE.class('\u{3000}'), CharClass::Space);
    }
}
