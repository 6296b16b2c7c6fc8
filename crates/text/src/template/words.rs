//! Filters and methods that look at single characters of a text.
//!
//! They look through marks (see [`crate::special_text`]): a marked text becomes what the same text without
//! marks becomes, with the marks where they were.

use crate::special_text::is_mark;

/// `str.capitalize`: the first character in upper case, the others in lower case.
pub(super) fn capitalize(text: &str) -> String {
    recase(text, |before| before.is_none())
}

/// The `title` filter of Jinja2, which knows few word borders.
pub(super) fn title(text: &str) -> String {
    recase(text, |before| before.is_none_or(|c| c.is_whitespace() || "-({[<".contains(c)))
}

/// `str.title`, for which everything but a letter is a border.
pub(super) fn title_method(text: &str) -> String {
    recase(text, |before| !before.is_some_and(char::is_alphabetic))
}

/// Every character in upper case if `starts_word` says so of the character before it, else in lower case.
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

/// `str.strip`
pub(super) fn strip<'a>(text: &'a str, chars: Option<&str>) -> &'a str {
    text.trim_matches(stripped(chars))
}

/// `str.lstrip`
pub(super) fn strip_start<'a>(text: &'a str, chars: Option<&str>) -> &'a str {
    text.trim_start_matches(stripped(chars))
}

/// `str.rstrip`
pub(super) fn strip_end<'a>(text: &'a str, chars: Option<&str>) -> &'a str {
    text.trim_end_matches(stripped(chars))
}

/// What stripping takes away: the given characters, or what Python calls white space, which has
/// four separators more than Unicode.
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
    fn case_changes_look_through_marks() {
        assert_eq!(capitalize("\u{fdd0}abC"), "\u{fdd0}Abc");
        assert_eq!(title("a<\u{fdd0}b get_it"), "A<\u{fdd0}B Get_it");
        assert_eq!(title_method("get_it\u{fdd0}on"), "Get_It\u{fdd0}on");
    }
}
