//! The alphabet of byte-level vocabularies: one printable character per byte.
//!
//! GPT-2 keeps the printable characters of Latin-1 and maps the other 68 bytes, in order, to the characters from
//! U+0100 on. A space is written `Ġ` and a line feed `Ċ`.

/// Returns the byte of a character of the alphabet.
pub(crate) fn byte_of(c: char) -> Option<u8> {
    match c as u32 {
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => u8::try_from(code).ok(),
        code @ 0x100..=0x143 => Some(MOVED[(code - 0x100) as usize]),
        _ => None,
    }
}

/// Returns the bytes of a vocabulary entry, if all of its characters are in the alphabet.
pub(crate) fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        bytes.push(byte_of(c)?);
    }
    Some(bytes)
}

/// Bytes whose Latin-1 character is not printable, in order.
const MOVED: [u8; 68] = {
    let mut moved = [0; 68];
    let (mut byte, mut at) = (0, 0);
    while byte < 256 {
        if !matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) {
            moved[at] = byte as u8;
            at += 1;
        }
        byte += 1;
    }
    moved
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_exactly_one_character() {
        let mut seen = [0; 256];
        for c in '\0'..='\u{fff}' {
            if let Some(byte) = byte_of(c) {
                seen[usize::from(byte)] += 1;
            }
        }
        assert_eq!(seen, [1; 256]);
        assert_eq!(bytes_of("Ġhéllo").unwrap(), b" h\xe9llo");
        assert_eq!(bytes_of("Ċĉ").unwrap(), b"\n\t");
        assert_eq!(bytes_of("a b"), None);
    }
}
