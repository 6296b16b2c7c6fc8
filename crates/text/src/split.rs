//! Pre-tokenizers: where text is cut before merging begins.
//!
//! A tokenizer file names its cuts by a regular expression. Running expressions from a file on text
//! from a stranger is how servers get hung, so only known expressions are accepted, and each is a
//! hand-written scanner here: one pass, a look at most two characters ahead of the cut (a whole run for
//! white space), no backtracking.

use std::borrow::Cow;

use crate::char_class::{CharClass, class_at, run_end};

/// How text between added tokens is cut into the pieces that are merged on their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Splitter {
    /// No cuts: the whole text is one piece.
    Whole,
    /// The pattern of GPT-2, with a space put before a text that has none if asked.
    Gpt2 { add_prefix_space: bool },
    /// The pattern of Llama 3, Qwen 2 and their relatives.
    Words(WordPattern),
    /// Spaces become `replacement`, and a piece starts at each of them if `split`.
    Metaspace { replacement: char, prepend: Prepend, split: bool },
}

/// The two ways in which relatives of the Llama 3 pattern differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordPattern {
    /// `\p{N}{1,n}`: three for Llama 3, one for Qwen 2.
    pub(crate) max_digits: usize,
    pub(crate) contractions: Contractions,
}

/// Which spellings of `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll`, `'d` are cut off as one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contractions {
    /// As written above.
    Lowercase,
    /// `[sS]`: ASCII letters in either case.
    AsciiCase,
    /// `(?i:…)`: Unicode case folding, which makes the long s (U+017F) an s.
    FoldedCase,
}

/// When `▁` is put before a text that does not begin with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepend {
    Never,
    /// Only at the very start of the input, not after a special token.
    First,
    Always,
}

/// The expressions we know, in the spellings met in tokenizer files.
const KNOWN: &[(&str, Splitter)] = &[
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        words(3, Contractions::FoldedCase),
    ),
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        words(1, Contractions::FoldedCase),
    ),
    (
        r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        words(3, Contractions::AsciiCase),
    ),
    (
        r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        words(1, Contractions::AsciiCase),
    ),
    (
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        Splitter::Gpt2 { add_prefix_space: false },
    ),
];

const fn words(max_digits: usize, contractions: Contractions) -> Splitter {
    Splitter::Words(WordPattern { max_digits, contractions })
}

impl Splitter {
    /// The scanner for an expression from a tokenizer file, if we have one.
    pub(crate) fn for_expression(expression: &str) -> Option<Self> {
        KNOWN.iter().find(|(known, _)| *known == expression).map(|(_, splitter)| splitter.clone())
    }

    /// Llama 3's cuts.
    pub(crate) fn llama3() -> Self {
        words(3, Contractions::FoldedCase)
    }

    /// Qwen 2's cuts: as Llama 3, but every digit alone.
    pub(crate) fn qwen2() -> Self {
        words(1, Contractions::FoldedCase)
    }

    /// Calls `emit` for each piece of `text`. `at_start` says that nothing came before it.
    pub(crate) fn split(&self, text: &str, at_start: bool, mut emit: impl FnMut(&str)) {
        let text = self.prepare(text, at_start);
        let mut start = 0;
        while start < text.len() {
            let end = match self {
                Splitter::Whole | Splitter::Metaspace { split: false, .. } => text.len(),
                Splitter::Gpt2 { .. } => gpt2_end(&text, start),
                Splitter::Words(pattern) => pattern.end(&text, start),
                Splitter::Metaspace { replacement, .. } => {
                    next_after_first(&text, start, *replacement)
                }
            };
            emit(&text[start..end]);
            start = end;
        }
    }

    /// The text as the cuts see it: with its spaces replaced and a first one added, if so configured.
    fn prepare<'a>(&self, text: &'a str, at_start: bool) -> Cow<'a, str> {
        match *self {
            Splitter::Gpt2 { add_prefix_space: true }
                if !text.is_empty() && !text.starts_with(' ') =>
            {
                Cow::Owned(format!(" {text}"))
            }
            Splitter::Metaspace { replacement, prepend, .. } if !text.is_empty() => {
                let mut out = text.replace(' ', replacement.encode_utf8(&mut [0; 4]));
                let wanted = match prepend {
                    Prepend::Never => false,
                    Prepend::First => at_start,
                    Prepend::Always => true,
                };
                if wanted && !out.starts_with(replacement) {
                    out.insert(0, replacement);
                }
                Cow::Owned(out)
            }
            _ => Cow::Borrowed(text),
        }
    }
}

/// Where the piece that starts at `start` ends: before the next `mark` after its own first character.
fn next_after_first(text: &str, start: usize, mark: char) -> usize {
    let rest = &text[start..];
    let first_len = rest.chars().next().map_or(0, char::len_utf8);
    rest[first_len..].find(mark).map_or(text.len(), |at| start + first_len + at)
}

/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
fn gpt2_end(text: &str, start: usize) -> usize {
    if let Some(end) = contraction_end(text, start, Contractions::Lowercase) {
        return end;
    }
    let body = if text.as_bytes()[start] == b' ' { start + 1 } else { start };
    match class_at(text, body) {
        Some((class @ (CharClass::Letter | CharClass::Number | CharClass::Other), _)) => {
            run_end(text, body, class)
        }
        _ => space_end(text, start),
    }
}

impl WordPattern {
    /// `contraction|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,n}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
    fn end(self, text: &str, start: usize) -> usize {
        if let Some(end) = contraction_end(text, start, self.contractions) {
            return end;
        }
        let (class, len) = class_at(text, start).expect("start is before the end");
        match class {
            CharClass::Letter => return run_end(text, start, CharClass::Letter),
            CharClass::Number => return self.digits_end(text, start),
            CharClass::Space | CharClass::Other => {
                if let Some((CharClass::Letter, _)) = class_at(text, start + len) {
                    return run_end(text, start + len, CharClass::Letter);
                }
            }
            CharClass::Newline => {}
        }
        let body = if text.as_bytes()[start] == b' ' { start + 1 } else { start };
        if let Some((CharClass::Other, _)) = class_at(text, body) {
            let marks_end = run_end(text, body, CharClass::Other);
            return run_end(text, marks_end, CharClass::Newline);
        }
        lines_or_space_end(text, start)
    }

    fn digits_end(self, text: &str, start: usize) -> usize {
        let mut end = start;
        for _ in 0..self.max_digits {
            match class_at(text, end) {
                Some((CharClass::Number, len)) => end += len,
                _ => break,
            }
        }
        end
    }
}

/// The end of a contraction that starts at `start`, if there is one.
fn contraction_end(text: &str, start: usize, spelling: Contractions) -> Option<usize> {
    let rest = text[start..].strip_prefix('\'')?;
    // The long s takes two bytes; every other accepted letter takes one.
    if spelling == Contractions::FoldedCase && rest.starts_with('\u{17f}') {
        return Some(start + 1 + '\u{17f}'.len_utf8());
    }
    let mut letters = [0; 2];
    for (slot, &byte) in letters.iter_mut().zip(rest.as_bytes()) {
        *slot = if spelling == Contractions::Lowercase { byte } else { byte.to_ascii_lowercase() };
    }
    match &letters {
        [b's' | b't' | b'm' | b'd', _] => Some(start + 2),
        b"re" | b"ve" | b"ll" => Some(start + 3),
        _ => None,
    }
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+` at a white-space character.
fn lines_or_space_end(text: &str, start: usize) -> usize {
    let mut end = start;
    let mut last_newline_end = None;
    while let Some((class, len)) = class_at(text, end) {
        match class {
            CharClass::Newline => last_newline_end = Some(end + len),
            CharClass::Space => {}
            _ => break,
        }
        end += len;
    }
    last_newline_end.unwrap_or_else(|| space_end(text, start))
}

/// `\s+(?!\S)|\s+` at a white-space character: all of the run, but leave its last character to the word
/// that follows, unless that is all there is.
fn space_end(text: &str, start: usize) -> usize {
    let mut end = start;
    let mut last_start = start;
    while let Some((CharClass::Space | CharClass::Newline, len)) = class_at(text, end) {
        last_start = end;
        end += len;
    }
    if end == text.len() || last_start == start { end } else { last_start }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(splitter: &Splitter, text: &str) -> Vec<String> {
        let mut out = Vec::new();
        splitter.split(text, true, |piece| out.push(piece.to_owned()));
        out
    }

    #[test]
    fn white_space_leaves_its_last_character_to_the_next_word() {
        assert_eq!(pieces(&Splitter::llama3(), "a   b"), ["a", "  ", " b"]);
        assert_eq!(pieces(&Splitter::llama3(), "a \n\n  b  "), ["a", " \n\n", " ", " b", "  "]);
        let gpt2 = Splitter::Gpt2 { add_prefix_space: false };
        assert_eq!(pieces(&gpt2, "a \n\n  b"), ["a", " \n\n ", " b"]);
    }

    #[test]
    fn contractions_follow_the_case_rule_of_their_pattern() {
        assert_eq!(
            pieces(&Splitter::llama3(), "IT'S it'\u{17f}x"),
            ["IT", "'S", " it", "'\u{17f}", "x"]
        );
        let gpt2 = Splitter::Gpt2 { add_prefix_space: true };
        assert_eq!(pieces(&gpt2, "IT'S it's"), [" IT", "'", "S", " it", "'s"]);
    }

    #[test]
    fn digit_runs_are_cut_by_length() {
        assert_eq!(pieces(&Splitter::llama3(), "12345"), ["123", "45"]);
        assert_eq!(pieces(&Splitter::qwen2(), "123"), ["1", "2", "3"]);
    }

    #[test]
    fn metaspace_cuts_before_each_mark() {
        let meta =
            Splitter::Metaspace { replacement: '▁', prepend: Prepend::Always, split: true };
        assert_eq!(pieces(&meta, "a  b"), ["▁a", "▁", "▁b"]);
        let first =
            Splitter::Metaspace { replacement: '▁', prepend: Prepend::First, split: false };
        let mut out = Vec::new();
        first.split("a b", false, |piece| out.push(piece.to_owned()));
        assert_eq!(out, ["a▁b"]);
    }

    #[test]
    fn an_unknown_expression_has_no_scanner() {
        assert_eq!(Splitter::for_expression(r"(a+)+$"), None);
    }
}
