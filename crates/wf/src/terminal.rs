//! Sanitizing of untrusted text for terminals.
//!
//! Escape sequences can move the cursor, rename the window or fake typed input. Text from a model, a
//! file or a server must not be able to do that.

use std::borrow::Cow;

/// Returns `text` with all control characters except line feeds and tabs made visible. Carriage
/// returns, which could overwrite earlier text, are removed.
pub(crate) fn sanitize(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let visible = text.chars().filter(|&c| c != '\r').map(|c| match c {
        c if is_plain(c) => c,
        // Unicode has symbols for the first 32, in order, and for DEL.
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
    fn no_control_characters_are_left() {
        assert_eq!(sanitize("plain,\n\ttext: é 😀 \u{200d}"), "plain,\n\ttext: é 😀 \u{200d}");
        assert_eq!(sanitize("\x1b]0;mine\x07\x1b[2J"), "␛]0;mine␇␛[2J");
        assert_eq!(sanitize("yes\rno\r\n"), "yesno\n");
        assert_eq!(sanitize("\u{9b}2J\x7f\0"), "\u{fffd}2J␡␀");
        let every: String = (0..=0x10ffff).filter_map(char::from_u32).collect();
        let left = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        assert!(!sanitize(&every).chars().any(left));
    }
}
