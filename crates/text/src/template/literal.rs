//! Numbers and strings as Python writes them.

use super::failure::Failure;
use super::lexer::{Token, syntax};

/// The string literal that `source` begins with, and its length.
pub(super) fn string(source: &str) -> Result<(String, usize), Failure> {
    let mut text = String::new();
    let mut chars = source.char_indices();
    let quote = chars.next().map(|(_, quote)| quote);
    while let Some((at, c)) = chars.next() {
        if Some(c) == quote {
            return Ok((text, at + 1));
        }
        if c != '\\' {
            text.push(c);
            continue;
        }
        let Some((at, c)) = chars.next() else { break };
        match c {
            '\n' => {}
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'a' => text.push('\u{7}'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'v' => text.push('\u{b}'),
            '\\' | '\'' | '"' => text.push(c),
            'x' | 'u' | 'U' | '0'..='7' => {
                let (c, len) = coded_char(&source[at..])?;
                text.push(c);
                (1..len).for_each(|_| _ = chars.next());
            }
            // Python keeps the backslash of escapes it does not know.
            other => text.extend(['\\', other]),
        }
    }
    Err(syntax("a string has no end"))
}

/// `x41`, `u0041`, `U00000041` or `101`: a character by its number, and the length of that.
fn coded_char(escape: &str) -> Result<(char, usize), Failure> {
    let (skip, radix, len) = match escape.as_bytes().first() {
        Some(b'x') => (1, 16, 2),
        Some(b'u') => (1, 16, 4),
        Some(b'U') => (1, 16, 8),
        _ => {
            let octal = |byte: &u8| matches!(byte, b'0'..=b'7');
            (0, 8, escape.bytes().take(3).take_while(octal).count())
        }
    };
    let digits = escape.get(skip..skip + len).filter(|digits| !digits.starts_with('+'));
    let number = digits.and_then(|digits| u32::from_str_radix(digits, radix).ok());
    let c = number.and_then(char::from_u32);
    Ok((c.ok_or_else(|| syntax("an escape in a string is not a character"))?, skip + len))
}

/// The number that `source` begins with, and its length.
pub(super) fn number(source: &str) -> Result<(Token<'static>, usize), Failure> {
    let refuse = || syntax("a number is too large or malformed");
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) =
            source.get(..2).filter(|p| p.eq_ignore_ascii_case(prefix)).map(|_| &source[2..])
        {
            let len = digits.find(|c: char| c != '_' && !c.is_digit(radix)).unwrap_or(digits.len());
            let int = i128::from_str_radix(&digits[..len].replace('_', ""), radix);
            return Ok((Token::Int(int.map_err(|_| refuse())?), 2 + len));
        }
    }
    let digits = |from: usize| {
        let rest = &source[from..];
        rest.find(|c: char| c != '_' && !c.is_ascii_digit()).unwrap_or(rest.len())
    };
    let mut len = digits(0);
    let whole = len;
    if source[len..].starts_with('.') && source[len + 1..].starts_with(|c: char| c.is_ascii_digit())
    {
        len += 1 + digits(len + 1);
    }
    let exponent = source[len..]
        .strip_prefix(['e', 'E'])
        .map(|rest| rest.strip_prefix(['+', '-']).unwrap_or(rest));
    if let Some(rest) = exponent.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        let begin = source.len() - rest.len();
        len = begin + digits(begin);
    }
    let plain = source[..len].replace('_', "");
    let token = if len == whole {
        Token::Int(plain.parse().map_err(|_| refuse())?)
    } else {
        Token::Float(plain.parse().map_err(|_| refuse())?)
    };
    Ok((token, len))
}

/// What the `int` filter makes of a text.
pub(super) fn parse_int(text: &str) -> Option<i128> {
    let text = text.trim();
    match text.parse() {
        Ok(int) => Some(int),
        #[expect(clippy::cast_possible_truncation, reason = "as Python does")]
        Err(_) => text.parse::<f64>().ok().filter(|float| float.is_finite()).map(|f| f as i128),
    }
}
