//! Four rows in one: a byte for each column, whose four fields belong to different rows.

use super::codec::BadByte;
use super::fields::{bad_code, code_of, trit_of};

/// Rows that share a packed row.
pub(super) const ROWS: usize = 4;

/// Decodes the fields at `shift`.
pub(super) fn decode_row(packed: &[u8], shift: usize, out: &mut [i8]) -> Result<(), BadByte> {
    let mut highest = 0;
    for (trit, byte) in out.iter_mut().zip(packed) {
        let code = (byte >> shift) & 3;
        highest = highest.max(code);
        *trit = trit_of(code);
    }
    if highest <= 2 {
        return Ok(());
    }
    let col = packed.iter().position(|byte| (byte >> shift) & 3 == 3).unwrap_or(0);
    Err(bad_code(col, col))
}

/// Encodes a row into the fields at `shift`, which are zero.
pub(super) fn encode_row(trits: &[i8], shift: usize, packed: &mut [u8]) {
    for (byte, trit) in packed.iter_mut().zip(trits) {
        *byte |= code_of(*trit) << shift;
    }
}
