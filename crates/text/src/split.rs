//! Pre-tokenizers: split text before merging.
//!
//! A tokenizer file specifies its splits by a regular expression. Running expressions from a file on untrusted
//! text invites denial of service, so only known expressions are accepted, each as a hand-written scanner: one
//! pass, a look-ahead of at most two characters (a whole run for white space), no backtracking.

use std::borrow::Cow;

use crate::char_class::{CharClass, class_at, class_where, run_end, run_end_where};

/// Splits the text between added tokens into pre-tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Splitter {
    /// No split.
    Whole,
    /// Pattern of GPT-2, optionally with a space before a text that has none.
    Gpt2 { add_prefix_space: bool },
    /// Pattern of Llama 3, Qwen 2 and related models.
    Words(WordPattern),
    /// Replaces spaces by `replacement`, and splits before each of them if `split`.
    Metaspace { replacement: char, prepend: Prepend, split: bool },
}

/// Variants of the Llama 3 pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordPattern {
    /// The n of `\p{N}{1,n}`: three for Llama 3, one for Qwen 2.
    pub(crate) max_digits: usize,
    pub(crate) contractions: Contractions,
    /// Class of `\p{M}`: letters for Qwen 3.5, others elsewhere.
    pub(crate) marks: CharClass,
}

/// Spellings of `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll`, `'d` that form a pre-token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contractions {
    /// Lower case only.
    Lowercase,
    /// `[sS]`: ASCII letters in either case.
    AsciiCase,
    /// `(?i:…)`: Unicode case folding, where the long s (U+017F) equals s.
    FoldedCase,
}

/// Condition for prepending `▁` to a text that does not begin with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepend {
    Never,
    /// Only at the start of the input, not after a special token.
    First,
    Always,
}

/// Supported expressions, in the spellings of tokenizer files.
const KNOWN: &[(&str, Splitter)] = &[
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        Splitter::LLAMA3,
    ),
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        Splitter::QWEN2,
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
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        Splitter::QWEN35,
    ),
    (
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        Splitter::Gpt2 { add_prefix_space: false },
    ),
];

const fn words(max_digits: usize, contractions: Contractions) -> Splitter {
    Splitter::Words(WordPattern { max_digits, contractions, marks: CharClass::Other })
}

impl Splitter {
    /// The splitter of Llama 3.
    pub(crate) const LLAMA3: Self = words(3, Contractions::FoldedCase);

    /// The splitter of Qwen 2: as Llama 3, but with single digits.
    pub(crate) const QWEN2: Self = words(1, Contractions::FoldedCase);

    /// The splitter of Qwen 3.5: as Qwen 2, but marks count as letters.
    pub(crate) const QWEN35: Self = Splitter::Words(WordPattern {
        max_digits: 1,
        contractions: Contractions::FoldedCase,
        marks: CharClass::Letter,
    });

    /// Returns the scanner of a supported expression.
    pub(crate) fn for_expression(expression: &str) -> Option<Self> {
        KNOWN.iter().find(|(known, _)| *known == expression).map(|(_, splitter)| splitter.clone())
    }

    /// Calls `emit` for each pre-token of `text`. `at_start` is true at the start of the input.
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

    /// Replaces spaces and adds a leading one, if so configured.
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

/// Returns the end of the pre-token at `start`: before the next `mark` after its first character.
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
        // A mark that counts as a letter and precedes letters is part of the same run.
        let class_at = |at| class_where(text, at, self.marks);
        let run_end = |at, class| run_end_where(text, at, class, self.marks);
        let (class, len) = class_at(start).expect("`start` is before the end");
        match class {
            CharClass::Letter => return run_end(start, CharClass::Letter),
            CharClass::Number => return self.digits_end(text, start),
            CharClass::Space | CharClass::Other => {
                if let Some((CharClass::Letter, _)) = class_at(start + len) {
                    return run_end(start + len, CharClass::Letter);
                }
            }
            CharClass::Newline | CharClass::Mark => {}
        }
        let body = if text.as_bytes()[start] == b' ' { start + 1 } else { start };
        if let Some((CharClass::Other, _)) = class_at(body) {
            let others_end = run_end(body, CharClass::Other);
            return run_end(others_end, CharClass::Newline);
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

/// Returns the end of a contraction that starts at `start`.
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

/// `\s+(?!\S)|\s+` at a white-space character: the whole run, except that its last character belongs to the
/// following word unless it is the only one.
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
        assert_eq!(pieces(&Splitter::LLAMA3, "a   b"), ["a", "  ", " b"]);
        assert_eq!(pieces(&Splitter::LLAMA3, "a \n\n  b  "), ["a", " \n\n", " ", " b", "  "]);
        let gpt2 = Splitter::Gpt2 { add_prefix_space: false };
        assert_eq!(pieces(&gpt2, "a \n\n  b"), ["a", " \n\n ", " b"]);
    }

    #[test]
    fn contractions_follow_the_case_rule_of_their_pattern() {
        assert_eq!(
            pieces(&Splitter::LLAMA3, "IT'S it'\u{17f}x"),
            ["IT", "'S", " it", "'\u{17f}", "x"]
        );
        let gpt2 = Splitter::Gpt2 { add_prefix_space: true };
        assert_eq!(pieces(&gpt2, "IT'S it's"), [" IT", "'", "S", " it", "'s"]);
    }

    #[test]
    fn digit_runs_are_split_by_length() {
        assert_eq!(pieces(&Splitter::LLAMA3, "12345"), ["123", "45"]);
        assert_eq!(pieces(&Splitter::QWEN2, "123"), ["1", "2", "3"]);
    }

    #[test]
    fn marks_are_letters_where_the_pattern_says_so() {
        let text = "cafe\u{301}s \u{301}a";
        assert_eq!(pieces(&Splitter::QWEN2, text), ["cafe", "\u{301}s", " \u{301}", "a"]);
        assert_eq!(pieces(&Splitter::QWEN35, text), ["cafe\u{301}s", " \u{301}a"]);
    }

    #[test]
    fn metaspace_splits_before_each_mark() {
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
