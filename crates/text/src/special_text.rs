//! Marks in user text wherever it could be read as a special token.
//!
//! A chat template mixes its own text with that of users. Once mixed, `<|eot_id|>` from a user looks like
//! `<|eot_id|>` from the template. Therefore a *mark* (a noncharacter that occurs nowhere else) is inserted into
//! every special text in the strings of users, and also where such a text could be completed by what the
//! template puts before or after. The tokenizer searches the marked prompt for special tokens and removes the
//! marks from all other text.

use std::ops::RangeInclusive;
use std::sync::Arc;

use aho_corasick::AhoCorasick;

use crate::TextError;

/// Noncharacters that Unicode reserves for internal use.
const MARKS: RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';

/// Search automaton over the texts of a tokenizer's special tokens. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SpecialTexts(Option<Arc<Finder>>);

#[derive(Debug)]
struct Finder {
    automaton: AhoCorasick,
    /// Sorted, so that texts with a common prefix are adjacent.
    forward: Vec<String>,
    /// The reversed texts, sorted, so that texts with a common suffix are adjacent.
    backward: Vec<String>,
    longest_bytes: usize,
}

impl SpecialTexts {
    /// Creates an automaton over the texts that users must not be able to write.
    pub fn new(texts: impl IntoIterator<Item = String>) -> Result<Self, TextError> {
        let mut forward: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        if forward.is_empty() {
            return Ok(SpecialTexts(None));
        }
        forward.sort_unstable();
        let mut backward: Vec<String> = forward.iter().map(|text| reversed(text)).collect();
        backward.sort_unstable();
        let automaton = AhoCorasick::new(&forward)
            .map_err(|e| TextError::vocabulary(format!("too many special tokens: {e}")))?;
        let longest_bytes = forward.iter().map(String::len).max().unwrap_or(0);
        Ok(SpecialTexts(Some(Arc::new(Finder { automaton, forward, backward, longest_bytes }))))
    }

    /// Returns the string with `mark` inserted where needed, or `None` if no mark is needed.
    pub(crate) fn mark(&self, text: &str, mark: char) -> Option<String> {
        let cuts = self.0.as_ref()?.cuts(text);
        if cuts.is_empty() {
            return None;
        }
        let mut marked = String::with_capacity(text.len() + cuts.len() * mark.len_utf8());
        let mut done = 0;
        for cut in cuts {
            marked.push_str(&text[done..cut]);
            marked.push(mark);
            done = cut;
        }
        marked.push_str(&text[done..]);
        Some(marked)
    }

    /// Returns the first special text in `text`.
    pub(crate) fn first_in<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.0.as_ref()?.automaton.find(text).map(|found| &text[found.range()])
    }
}

/// Returns `true` if the character can be a mark.
pub(crate) fn is_mark(c: char) -> bool {
    MARKS.contains(&c)
}

/// Returns the first mark that is not used.
pub(crate) fn free_mark(is_used: impl Fn(char) -> bool) -> Result<char, TextError> {
    MARKS.into_iter().find(|&mark| !is_used(mark)).ok_or_else(|| {
        let marks = "every noncharacter from U+FDD0 to U+FDEF";
        TextError::Chat(format!("chat messages contain {marks}: at least one must be unused"))
    })
}

impl Finder {
    /// Returns the byte offsets of marks, ascending and without repeats.
    fn cuts(&self, text: &str) -> Vec<usize> {
        let mut cuts = Vec::new();
        for found in self.automaton.find_overlapping_iter(text) {
            cuts.push(found.start() + first_char_len(&text[found.range()]));
        }
        // Templates trim inserted text, so its boundary may be the first or last visible character.
        for end in [text, text.trim_end()] {
            self.cut_unfinished_end(end, &mut cuts);
        }
        let trimmed = text.trim_start();
        for (offset, start) in [(0, text), (text.len() - trimmed.len(), trimmed)] {
            self.cut_unfinished_start(offset, start, &mut cuts);
        }
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    }

    /// Finds suffixes of `text` that begin a special text, which the template could complete.
    fn cut_unfinished_end(&self, text: &str, cuts: &mut Vec<usize>) {
        for (at, c) in text.char_indices().rev() {
            if text.len() - at >= self.longest_bytes {
                break;
            }
            if has_longer(&self.forward, &text[at..]) {
                cuts.push(at + c.len_utf8());
            }
        }
    }

    /// Finds prefixes of `text`, located at `offset`, that end a special text which the template could have begun.
    fn cut_unfinished_start(&self, offset: usize, text: &str, cuts: &mut Vec<usize>) {
        let mut ending = String::new();
        for (at, c) in text.char_indices() {
            if at + c.len_utf8() >= self.longest_bytes {
                break;
            }
            ending.insert(0, c);
            if has_longer(&self.backward, &ending) {
                cuts.push(offset + at);
            }
        }
    }
}

/// Returns `true` if one of the sorted texts has `prefix` as a proper prefix.
fn has_longer(sorted: &[String], prefix: &str) -> bool {
    let from = sorted.partition_point(|text| text.as_str() <= prefix);
    sorted.get(from).is_some_and(|text| text.starts_with(prefix))
}

fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}

fn first_char_len(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specials() -> SpecialTexts {
        SpecialTexts::new(["<|eot|>", "<|", "[X Y]"].map(String::from)).unwrap()
    }

    fn marked(text: &str) -> String {
        specials().mark(text, '#').unwrap_or_else(|| text.to_owned())
    }

    #[test]
    fn ordinary_text_has_no_marks() {
        assert_eq!(specials().mark("hello < world", '#'), None);
        assert_eq!(SpecialTexts::default().mark("<|eot|>", '#'), None);
    }

    #[test]
    fn special_texts_are_marked_after_their_first_character() {
        assert_eq!(marked("a<|eot|>b"), "a<#|eot|>b");
        assert_eq!(marked("[X Y]"), "[#X Y]");
    }

    #[test]
    fn partial_special_texts_are_marked_at_both_ends() {
        assert_eq!(marked("a<|eo"), "a<#|eo");
        assert_eq!(marked("a<\n"), "a<#\n");
        assert_eq!(marked("ot|>b"), "ot|#>b");
        assert_eq!(marked(" >b"), " #>b");
        assert_eq!(marked("a [X "), "a [#X ");
    }
}
