//! The operations that table lookups need.

use super::Tokens;
use crate::lanes::Simd;
use crate::line::{Line, STRIP};

/// Arithmetic on a number of 16 bits for each of sixteen tokens.
///
/// As for [`Simd`], a value proves that the CPU has the instruction set, and all functions are
/// `inline(always)`.
pub(in crate::arch) trait LookupLanes: Simd {
    /// A number of 16 bits for each of sixteen tokens.
    type I16x16: Copy;
    /// Sixteen bytes.
    type Bytes: Copy;

    fn zero_tokens(self) -> Self::I16x16;
    fn load_tokens(self, tokens: &Tokens) -> Self::I16x16;
    fn store_tokens(self, values: Self::I16x16, tokens: &mut Tokens);
    fn add_tokens(self, a: Self::I16x16, b: Self::I16x16) -> Self::I16x16;
    fn sub_tokens(self, a: Self::I16x16, b: Self::I16x16) -> Self::I16x16;
    fn abs_tokens(self, values: Self::I16x16) -> Self::I16x16;

    /// Adds numbers; sums that do not fit become the largest or the smallest number.
    fn add_saturating(self, a: Self::I16x16, b: Self::I16x16) -> Self::I16x16;

    /// Returns `true` if a number is the largest one.
    fn any_is_largest(self, values: Self::I16x16) -> bool;

    /// Adds the number of each token to its sum.
    fn widen_tokens(self, values: Self::I16x16, sums: &mut [i32; 16]);

    fn load_codes(self, codes: &[i8; 16]) -> Self::Bytes;

    /// Interleaves the lower halves of two registers, byte by byte, and the upper halves.
    fn zip_bytes(self, a: Self::Bytes, b: Self::Bytes) -> [Self::Bytes; 2];

    fn codes_to_tokens(self, codes: Self::Bytes) -> Self::I16x16;

    /// Returns the table entry that each byte of a line selects, one word of four bytes for each row: a byte
    /// `c0 + 4 c1 + 16 c2 + 64 c3` becomes `c0 + 3 c1 + 9 c2 + 27 c3`. None exceeds 80, whatever the byte.
    fn entries_of_line(self, line: &Line, out: &mut [u32; STRIP]);

    fn transpose(self, rows: &[[i32; 16]; 16]) -> [[i32; 16]; 16];
}

/// By the value of two codes, their place among the nine pairs of codes: `low + 3 high`. Codes of 3 do not occur.
pub(in crate::arch) const PAIR_OF_CODES: [u8; 16] =
    [0, 1, 2, 0, 3, 4, 5, 0, 6, 7, 8, 0, 0, 0, 0, 0];
