//! Four rows stacked in a byte: Hugging Face's packing, and I2_S as some builds write it.
//!
//! A packed row has one byte per column, and each of its four fields belongs to another row of the
//! matrix. With R = rows / 4:
//!
//! ```text
//! HF packed    packed row r, field f (low bits first)   row f R + r     (a quarter of the matrix apart)
//! I2_S 4row    packed row r, field f (high bits first)  row 4 r + f     (neighbours)
//! ```

use super::fields::{BadCode, code_of, trit_of};

/// Rows that share a packed row.
pub(super) const ROWS: usize = 4;

/// Where a row lies: its packed row, and how far its field is shifted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Place {
    pub(super) packed_row: usize,
    pub(super) shift: usize,
}

/// Place of a row in Hugging Face's packing; `rows` is a multiple of 4 and not 0.
pub(super) fn quartered(row: usize, rows: usize) -> Place {
    let quarter = rows / ROWS;
    Place { packed_row: row % quarter, shift: 2 * (row / quarter) }
}

/// Place of a row when four neighbours share a byte.
pub(super) fn neighbours(row: usize) -> Place {
    Place { packed_row: row / ROWS, shift: 6 - 2 * (row % ROWS) }
}

/// Decodes the field at `shift` of a packed row.
pub(super) fn decode_row(packed: &[u8], shift: usize, out: &mut [i8]) -> Result<(), BadCode> {
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
    Err(BadCode { byte: col, col })
}

/// Encodes a row into the field at `shift`, which must be zero.
pub(super) fn encode_row(trits: &[i8], shift: usize, packed: &mut [u8]) {
    for (byte, trit) in packed.iter_mut().zip(trits) {
        *byte |= code_of(*trit) << shift;
    }
}
