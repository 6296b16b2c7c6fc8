//! Quad lines, with two bits per trit: field `j` (bits `2j` and `2j + 1`) of byte `4n + q` of line `i`
//! is the code of row `n`, column `16i + 4j + q`. Columns are padded with zero trits to a multiple of
//! 64, rows to a multiple of sixteen. This is the specification; model files store the same bytes.
//!
//! ```text
//!             bits 1:0      bits 3:2      bits 5:4      bits 7:6
//! byte 4n+q   16i +  0 + q  16i +  4 + q  16i +  8 + q  16i + 12 + q      <- columns of row n
//! ```

use crate::quant::RUN;

/// Columns in a line.
pub(crate) const LINE_COLS: usize = 16;

/// Four fields of code 1, the zero trit.
pub(crate) const ZERO_TRITS: u8 = 0b01_01_01_01;

pub(super) fn lines_per_strip(cols: usize) -> usize {
    cols.next_multiple_of(RUN) / LINE_COLS
}

/// Packs the four bytes of one row in one line. Codes have at most two bits, so four bytes are shifted
/// at once without touching each other.
pub(super) fn pack_columns(trits: &[i8; LINE_COLS]) -> [u8; 4] {
    let mut packed = 0;
    for (field, quad) in trits.as_chunks::<4>().0.iter().enumerate() {
        let codes = u32::from_le_bytes(quad.map(|trit| (trit + 1) as u8));
        packed |= codes << (2 * field);
    }
    packed.to_le_bytes()
}

/// Returns `true` if no field holds code 3, which is not the code of a trit.
pub(crate) fn are_trits(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |threes, byte| threes | byte & byte >> 1 & 0b01_01_01_01) == 0
}

/// Returns the codes in a byte.
pub(crate) fn codes(byte: u8) -> [u8; 4] {
    std::array::from_fn(|field| byte >> (2 * field) & 3)
}
