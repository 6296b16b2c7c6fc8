//! Filters and methods that depend on single characters of a text.
//!
//! They skip marks (see [`crate::special_text`]): the result for a marked text is that for the unmarked one, with
//! the marks in place.

use crate::special_text::is_mark;

/// Implements `str.capitalize`.
pub(super) fn capitalize(text: &str) -> String {
    recase(text, |before| before.is_none())
}

/// Implements the `title` filter of Jinja2, which knows few word boundaries.
pub(super) fn title(text: &str) -> String {
    recase(text, |before| before.is_none_or(|c| c.is_whitespace() || "-({[<".contains(c)))
}

/// Implements `str.title`, for which every character but a letter is a boundary.
pub(super) fn title_method(text: &str) -> String {
    recase(text, |before| !before.is_some_and(char::is_alphabetic))
}

/// Converts a character to upper case if `starts_word` holds for the character before it, else to lower case.
fn recase(text: &str, starts_word: impl Fn(Option<char>) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = None;
    for c in text.chars() {
        if is_mark(c) {
            out.push(c);
            continue;
        }
        if starts_word(before) {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
        before = Some(c);
    }
    out
}

/// Implements `str.strip`.
pub(super) fn strip<'a>(text: &'a str, chars: Option<&str>) -> &'a str {
    text.trim_matches(stripped(chars))
}

/// Implements `str.lstrip`.
pub(super) fn strip_start<'a>(text: &'a str, chars: Option<&str>) -> &'a str {
    text.trim_start_matches(stripped(chars))
}

/// Implements `str.rstrip`.
pub(super) fn strip_end<'a>(text: &'a str, chars: Option<&str>) -> &'a str {
    text.trim_end_matches(stripped(chars))
}

/// Returns the predicate of stripped characters: the given ones, or white space of Python, which has four
/// separators more than Unicode.
fn stripped(chars: Option<&str>) -> impl Fn(char) -> bool + Copy + '_ {
    move |c| match chars {
        Some(chars) => chars.contains(c),
        None => c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_one_end_or_both_as_python_does() {
        let text = "\u{1c} ab \u{1f}";
        assert_eq!(strip(text, None), "ab");
        assert_eq!(strip_start(text, None), "ab \u{1f}");
        assert_eq!(strip_end(text, None), "\u{1c} ab");
        assert_eq!(strip_end("xyabyx", Some("xy")), "xyab");
    }

    #[test]
    fn case_changes_skip_marks() {
        assert_eq!(capitalize("\u{fdd0}abC"), "\u{fdd0}Abc");
        assert_eq!(title("a<\u{fdd0}b get_it"), "A<\u{fdd0}B Get_it");
        assert_eq!(title_method("get_it\u{fdd0}on"), "Get_It\u{fdd0}on");
    }
}
