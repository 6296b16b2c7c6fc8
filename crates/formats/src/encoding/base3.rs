//! Five trits in a byte.
//!
//! A byte holds the base-3 number v (0 to 242, digit = trit + 1) as ceil(256 v / 243): v as a fraction
//! of one, so that the leading digit falls out of a multiplication by 3 and the rest stays behind.
//! 243 bytes are such numbers. The other 13 decode to something too, but no encoder writes them.

const NUMBERS: u16 = 243;

/// A byte of a row that is no base-3 number: where it is, its first trit's column, what was found, and
/// how many trits such a byte holds.
#[derive(Debug, PartialEq)]
pub(super) struct BadByte {
    pub(super) byte: usize,
    pub(super) col: usize,
    pub(super) value: u8,
    pub(super) trits: usize,
}

/// The byte that holds a base-3 number below 243.
pub(super) const fn byte_of(number: u8) -> u8 {
    // At most 242 * 256, which fits in u16; the quotient is at most 255.
    (number as u16 * 256).div_ceil(NUMBERS) as u8
}

/// The base-3 number a byte holds, if it holds one.
pub(super) const fn number_of(byte: u8) -> Option<u8> {
    let number = (byte as u16 * NUMBERS / 256) as u8;
    if byte_of(number) == byte { Some(number) } else { None }
}

/// For each byte: does it hold a base-3 number?
#[expect(clippy::indexing_slicing, reason = "at compile time a wrong index does not compile")]
pub(super) static IS_NUMBER: [bool; 256] = {
    let mut table = [false; 256];
    let mut number = 0;
    while number < NUMBERS {
        table[byte_of(number as u8) as usize] = true;
        number += 1;
    }
    table
};
