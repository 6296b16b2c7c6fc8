//! Five trits in a byte.
//!
//! A byte holds the base-3 number v (0 to 242, digit = trit + 1) as ceil(256 v / 243): v as a fraction
//! of one, so that the leading digit falls out of a multiplication by 3 and the rest stays behind.
//! 243 byte values are such numbers. No encoder writes the other 13.

use super::codec::{BadByte, Fault};

const NUMBERS: u16 = 243;

/// An invalid byte, where one that holds `trits` trits was expected.
pub(super) fn bad_number(offset: usize, col: usize, value: u8, trits: usize) -> BadByte {
    BadByte { offset, col, fault: Fault::Base3 { value, trits } }
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

/// `true` for each byte value that holds a base-3 number.
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
