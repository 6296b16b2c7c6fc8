//! Text that is shown on a terminal.
//!
//! A terminal obeys what it is shown: escape sequences move the cursor, rename the window, answer
//! questions as if the user had typed. Words of a model, of a file or of a server must not do that.

use std::borrow::Cow;

/// `text` with every control character made visible, except the ends of lines and tabs. Carriage
/// returns, which could write over what was read before, are left out.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let visible = text.chars().filter(|&c| c != '\r').map(|c| match c {
        c if is_plain(c) => c,
        // Unicode has a picture of each of the first 32, in their order, and one of DEL.
        '\0'..='\x1f' => {
            char::from_u32(0x2400 + u32::from(c)).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        '\x7f' => '\u{2421}',
        _ => char::REPLACEMENT_CHARACTER,
    });
    Cow::Owned(visible.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(harmless("plain,\n\ttext: é 😀 \u{200d}"), "plain,\n\ttext: é 😀 \u{200d}");
        assert_eq!(harmless("\x1b]0;mine\x07\x1b[2J"), "␛]0;mine␇␛[2J");
        assert_eq!(harmless("yes\rno\r\n"), "yesno\n");
        assert_eq!(harmless("\u{9b}2J\x7f\0"), "\u{fffd}2J␡␀");
        let every: String = (0..=0x10ffff).filter_map(char::from_u32).collect();
        let left = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        assert!(!harmless(&every).chars().any(left));
    }
}
