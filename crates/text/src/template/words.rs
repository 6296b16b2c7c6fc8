//! Filters and methods that look at single characters of a text.
//!
//! They look through marks (see [`crate::special_text`]): a marked text becomes what the same text without
//! marks becomes, with the marks where they were.

use super::budget::{Budget, Text};
use super::failure::Failure;
use crate::special_text::is_mark;

/// `str.upper`
pub(super) fn upper(text: &str, out: &mut Text) -> Result<(), Failure> {
    text.chars().flat_map(char::to_uppercase).try_for_each(|c| out.push(c))
}

/// `str.lower`. A capital sigma has two small forms; the standard library knows which, and takes a copy.
pub(super) fn lower(text: &str, out: &mut Text) -> Result<(), Failure> {
    let _copy = out.charge(3 * text.len())?;
    out.push_str(&text.to_lowercase())
}

/// `str.swapcase`
pub(super) fn swap_case(text: &str, out: &mut Text) -> Result<(), Failure> {
    text.chars().try_for_each(|c| {
        if c.is_uppercase() {
            c.to_lowercase().try_for_each(|c| out.push(c))
        } else {
            c.to_uppercase().try_for_each(|c| out.push(c))
        }
    })
}

/// `str.capitalize`: the first character in upper case, the others in lower case.
pub(super) fn capitalize(text: &str, out: &mut Text) -> Result<(), Failure> {
    recase(text, out, |before| before.is_none())
}

/// The `title` filter of Jinja2, which knows few word borders.
pub(super) fn title(text: &str, out: &mut Text) -> Result<(), Failure> {
    recase(text, out, |before| before.is_none_or(|c| c.is_whitespace() || "-({[<".contains(c)))
}

/// `str.title`, for which everything but a letter is a border.
pub(super) fn title_method(text: &str, out: &mut Text) -> Result<(), Failure> {
    recase(text, out, |before| !before.is_some_and(char::is_alphabetic))
}

/// Every character in upper case if `starts_word` says so of the character before it, else in lower case.
fn recase(
    text: &str,
    out: &mut Text,
    starts_word: impl Fn(Option<char>) -> bool,
) -> Result<(), Failure> {
    let mut before = None;
    for c in text.chars() {
        if is_mark(c) {
            out.push(c)?;
            continue;
        }
        if starts_word(before) {
            c.to_uppercase().try_for_each(|c| out.push(c))?;
        } else {
            c.to_lowercase().try_for_each(|c| out.push(c))?;
        }
        before = Some(c);
    }
    Ok(())
}

/// `str.strip`, or `lstrip` or `rstrip` if that is the name: the text without the given characters at its
/// ends, or without what Python calls white space, which has four separators more than Unicode.
pub(super) fn strip<'a>(
    budget: &Budget,
    text: &'a str,
    name: &str,
    chars: Option<&str>,
) -> Result<&'a str, Failure> {
    budget.scan(text.len().saturating_mul(chars.map_or(1, |chars| 1 + chars.len())))?;
    let stripped = |c: char| match chars {
        Some(chars) => chars.contains(c),
        None => c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c),
    };
    Ok(match name {
        "lstrip" => text.trim_start_matches(stripped),
        "rstrip" => text.trim_end_matches(stripped),
        _ => text.trim_matches(stripped),
    })
}

/// `str.isdigit` and its kin: whether there are characters and all are of the kind the name says.
pub(super) fn has_only(text: &str, name: &str) -> bool {
    let is_kind = |c: char| match name {
        "isalpha" => c.is_alphabetic(),
        "isalnum" => c.is_alphanumeric(),
        "isspace" => c.is_whitespace(),
        "isupper" => !c.is_lowercase(),
        "islower" => !c.is_uppercase(),
        _ => c.is_numeric(),
    };
    let counts = |c: char| match name {
        "isupper" => c.is_uppercase(),
        "islower" => c.is_lowercase(),
        _ => true,
    };
    text.chars().any(counts) && text.chars().all(is_kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: fn(&str, &mut Text) -> Result<(), Failure>, text: &str) -> String {
        let mut out = Text::new(&Budget::new()).unwrap();
        write(text, &mut out).unwrap();
        out.into_string()
    }

    #[test]
    fn case_changes_look_through_marks() {
        assert_eq!(written(capitalize, "\u{fdd0}abC"), "\u{fdd0}Abc");
        assert_eq!(written(title, "a<\u{fdd0}b get_it"), "A<\u{fdd0}B Get_it");
        assert_eq!(written(title_method, "get_it\u{fdd0}on"), "Get_It\u{fdd0}on");
    }

    #[test]
    fn kinds_of_characters_are_those_of_python() {
        assert!(has_only("ABC 1", "isupper") && !has_only("1 2", "isupper"));
        assert!(has_only("12", "isdigit") && !has_only("", "isdigit"));
    }
}
