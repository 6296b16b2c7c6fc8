//! Five trits per byte, 1.6 bits each: byte `4n + q` of line `i` holds the codes `c0` to `c4` of row `n`,
//! columns `20i + q`, `20i + 4 + q`, ..., `20i + 16 + q`, as
//!
//! ```text
//! byte = 28 * high + low      high = c0 + 3 * c1             in 0..9
//!                             low  = c2 + 3 * c3 + 9 * c4    in 0..27
//! ```
//!
//! The factor is 28 and not 27 because it is a multiple of four: `high` then depends on the upper six
//! bits of a byte alone, and `low` has fewer than 64 values, so that tables of 64 bytes decode both.
//!
//! On CPUs without such tables, four lines are rewritten as five quad lines, which hold the same
//! eighty columns.

use super::quad_lines;
use crate::ahead::Ahead;
use crate::line::{Line, STRIP};
use crate::sums::IntSums;

/// Columns in a line.
pub(crate) const LINE_COLS: usize = 20;

/// The factor of `high`.
pub(crate) const HIGH: u8 = 28;

/// Five codes of 1, the zero trit.
pub(super) const ZERO_TRITS: u8 = HIGH * (1 + 3) + (1 + 3 + 9);

/// Packs the four bytes of one row in one line, computed side by side in one word: no byte exceeds
/// 28 * 8 + 26 = 250.
pub(super) fn pack_columns(trits: &[i8; LINE_COLS]) -> [u8; 4] {
    let quad =
        |part: usize| u32::from_le_bytes(std::array::from_fn(|q| (trits[4 * part + q] + 1) as u8));
    let high = quad(0) + 3 * quad(1);
    let low = quad(2) + 3 * quad(3) + 9 * quad(4);
    (u32::from(HIGH) * high + low).to_le_bytes()
}

/// Returns the codes in a byte.
pub(crate) const fn codes(byte: u8) -> [u8; 5] {
    let (high, low) = (byte / HIGH, byte % HIGH);
    [high % 3, high / 3, low % 3, low / 3 % 3, low / 9]
}

/// The smallest number of columns in whole lines, whole quad lines and whole runs of activations.
const BLOCK_COLS: usize = 320;

const LINES_PER_BLOCK: usize = BLOCK_COLS / LINE_COLS;

/// Returns the sums of [`IntSums::five_trit_sums`] by rewriting the lines as quad lines.
#[inline(always)]
pub(crate) fn sums_by_quad_lines<C: IntSums, const T: usize>(
    cpu: C,
    lines: &[Line],
    tokens: [&[i8]; T],
) -> [[i32; STRIP]; T] {
    let mut sums = [[0; STRIP]; T];
    for (block, lines) in lines.chunks(LINES_PER_BLOCK).enumerate() {
        let mut quad_lines = [super::Layout::QuadLines.zeros(); BLOCK_COLS / quad_lines::LINE_COLS];
        to_quad_lines(lines, &mut quad_lines);
        let start = block * BLOCK_COLS;
        let tokens = tokens.map(|codes| &codes[start..codes.len().min(start + BLOCK_COLS)]);
        let quad_lines = &quad_lines[..tokens[0].len() / quad_lines::LINE_COLS];
        for (sums, more) in
            sums.iter_mut().zip(cpu.line_sums(quad_lines, tokens, [0; T], Ahead::NOTHING))
        {
            for (sum, more) in sums.iter_mut().zip(more) {
                *sum += more;
            }
        }
    }
    sums
}

/// Rewrites lines as quad lines. The rest of `out` is unchanged.
fn to_quad_lines(lines: &[Line], out: &mut [Line]) {
    for (lines, out) in lines.chunks(4).zip(out.as_chunks_mut::<5>().0) {
        for place in 0..64 {
            // Twenty codes of two bits of one row, four columns apart, in the order of columns.
            let mut word = 0;
            for i in 0..4 {
                let byte = lines.get(i).map_or(ZERO_TRITS, |line| line.0[place]);
                word |= u64::from(FIELDS[usize::from(byte)]) << (10 * i);
            }
            for (line, byte) in out.iter_mut().zip(word.to_le_bytes()) {
                line.0[place] = byte;
            }
        }
    }
}

/// The codes of each byte as five fields of two bits.
static FIELDS: [u16; 256] = {
    let mut fields = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let [a, b, c, d, e] = codes(byte as u8);
        let upper = (e as u16) << 8 | (d as u16) << 6 | (c as u16) << 4;
        fields[byte] = upper | (b as u16) << 2 | a as u16;
        byte += 1;
    }
    fields
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    /// All 243 combinations, and no byte for two of them.
    #[test]
    fn every_byte_reads_back() {
        let mut seen = [false; 256];
        for number in 0..243_u8 {
            let mut trits = [0; LINE_COLS];
            let codes_in: [u8; 5] = std::array::from_fn(|part| number / 3_u8.pow(part as u32) % 3);
            for (part, code) in codes_in.into_iter().enumerate() {
                trits[4 * part + 2] = code as i8 - 1;
            }
            let packed = pack_columns(&trits);
            assert_eq!(codes(packed[2]), codes_in);
            assert_eq!([packed[0], packed[1], packed[3]], [ZERO_TRITS; 3]);
            assert!(!std::mem::replace(&mut seen[usize::from(packed[2])], true));
            // The upper six bits are enough for the first two trits.
            assert_eq!(codes(packed[2] & !3)[..2], codes_in[..2]);
        }
    }

    #[test]
    fn quad_lines_hold_the_same_trits() {
        for cols in [1, 19, 20, 64, 80, 81, 160, 300] {
            let trits: Vec<i8> = (0..STRIP * cols).map(|i| (i * i / 7 % 3) as i8 - 1).collect();
            let mut lines = vec![Layout::FiveTrits.zeros(); cols.div_ceil(LINE_COLS)];
            Layout::FiveTrits.pack_strip(&trits, cols, &mut lines);
            let mut quad_lines = [Layout::QuadLines.zeros(); 20];
            to_quad_lines(&lines, &mut quad_lines);
            for (n, expected) in trits.chunks(cols).enumerate() {
                let mut found = vec![7; 320];
                Layout::QuadLines.unpack_row(n, &quad_lines, &mut found);
                assert_eq!(expected, &found[..cols], "row {n}");
                assert!(found[cols..].iter().all(|&trit| trit == 0), "padding of row {n}");
            }
        }
    }
}
