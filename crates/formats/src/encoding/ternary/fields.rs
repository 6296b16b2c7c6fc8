//! Trits as two-bit fields: code 0 is -1, 1 is 0, 2 is +1, and 3 is invalid.
//!
//! ```text
//! runs      a run of N bytes holds 4 N trits of a row in four planes: field f of byte j is trit f N + j
//! stacked   a byte holds one column of four rows
//! quads     four bytes hold sixteen columns of a row: field f of byte q is column 4 f + q
//! signs     a bit a trit, for weights that are never 0
//! ```
//!
//! One shift and mask turns a run into a plane, and the loops below become vector code. `N = 1` is plain
//! sequential packing. Encodings differ in whether the first field is in the high bits or the low ones.

use super::codec::{Packing, decode_blocks, encode_blocks};
use crate::encoding::error::{BadByte, Fault};

/// The first field is in the high bits.
pub(super) const HIGH_FIRST: bool = true;
/// The first field is in the low bits.
pub(super) const LOW_FIRST: bool = false;

/// Runs of `N` bytes with nothing between them.
pub(super) const fn runs<const N: usize, const FIRST: bool>() -> Packing {
    Packing {
        decode: |packed, _, out| unpack::<N, FIRST>(packed, out),
        encode: |trits, _, packed| pack::<N, FIRST>(trits, packed),
    }
}

/// Runs of `N` bytes, low bits first, from byte `AT` of each block of `LEN` bytes and `COLS` trits.
pub(super) const fn runs_in_blocks<
    const N: usize,
    const LEN: usize,
    const COLS: usize,
    const AT: usize,
>() -> Packing {
    Packing {
        decode: |blocks, _, out| {
            decode_blocks::<LEN, COLS>(blocks, out, |block, out| {
                let packed = block.get(AT..AT + COLS / 4).unwrap_or_default();
                unpack::<N, LOW_FIRST>(packed, out).map_err(|bad| bad.shift(AT, 0))
            })
        },
        encode: |trits, _, blocks| {
            encode_blocks::<LEN, COLS>(trits, blocks, |trits, block| {
                let packed = block.get_mut(AT..AT + COLS / 4).unwrap_or_default();
                pack::<N, LOW_FIRST>(trits, packed);
            });
        },
    }
}

/// One bit a trit, low bits first, from byte `AT` of each block of `LEN` bytes and `COLS` trits: 1 is +1
/// and 0 is -1.
pub(super) const fn signs_in_blocks<const LEN: usize, const COLS: usize, const AT: usize>()
-> Packing {
    Packing {
        decode: |blocks, _, out| {
            decode_blocks::<LEN, COLS>(blocks, out, |block, out| {
                let packed = block.get(AT..).unwrap_or_default();
                for (out, byte) in out.as_chunks_mut::<8>().0.iter_mut().zip(packed) {
                    for (bit, trit) in out.iter_mut().enumerate() {
                        *trit = 2 * (byte >> bit & 1) as i8 - 1;
                    }
                }
                Ok(())
            })
        },
        encode: |trits, _, blocks| {
            encode_blocks::<LEN, COLS>(trits, blocks, |trits, block| {
                let packed = block.get_mut(AT..).unwrap_or_default();
                for (byte, trits) in packed.iter_mut().zip(trits.as_chunks::<8>().0) {
                    let bits = trits.iter().enumerate();
                    *byte = bits.fold(0, |byte, (bit, trit)| byte | u8::from(*trit > 0) << bit);
                }
            });
        },
    }
}

/// A byte for each column, whose four fields belong to the four rows of a bundle.
pub(super) const fn stacked<const FIRST: bool>() -> Packing {
    Packing {
        decode: |packed, lane, out| {
            let shift = shift(lane, FIRST);
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
        },
        encode: |trits, lane, packed| {
            for (byte, trit) in packed.iter_mut().zip(trits) {
                *byte |= code_of(*trit) << shift(lane, FIRST);
            }
        },
    }
}

/// Four bytes for sixteen columns of each of the `ROWS` rows of a bundle in turn, low bits first.
pub(super) const fn quads<const ROWS: usize>() -> Packing {
    Packing { decode: decode_quads::<ROWS>, encode: encode_quads::<ROWS> }
}

// Inlined, because the packings are instantiated in the crates that name an encoding.
#[inline]
const fn shift(field: usize, high_first: bool) -> usize {
    if high_first { 6 - 2 * field } else { 2 * field }
}

/// Sets a bit for each field of the byte that holds code 3.
#[inline]
const fn threes(byte: u8) -> u8 {
    byte & (byte >> 1) & 0b0101_0101
}

/// An invalid code 3 at this byte and column.
const fn bad_code(offset: usize, col: usize) -> BadByte {
    BadByte::new(offset, col, Fault::Code)
}

/// Converts a code. Code 3 becomes 2, which callers never return: they have seen it in `threes` by then.
#[inline]
const fn trit_of(code: u8) -> i8 {
    code as i8 - 1
}

#[inline]
const fn code_of(trit: i8) -> u8 {
    (trit + 1) as u8
}

/// Unpacks runs of `N` bytes; `out` has four trits for each byte of `packed`.
fn unpack<const N: usize, const FIRST: bool>(packed: &[u8], out: &mut [i8]) -> Result<(), BadByte> {
    let mut bad = 0;
    let (runs, _) = packed.as_chunks::<N>();
    let (planes, _) = out.as_chunks_mut::<N>();
    let (planes, _) = planes.as_chunks_mut::<4>();
    for (run, planes) in runs.iter().zip(planes) {
        bad |= run.iter().fold(0, |bad, &byte| bad | threes(byte));
        for (plane, trits) in planes.iter_mut().enumerate() {
            for (trit, byte) in trits.iter_mut().zip(run) {
                *trit = trit_of((byte >> shift(plane, FIRST)) & 3);
            }
        }
    }
    if bad == 0 { Ok(()) } else { Err(first_bad::<N, FIRST>(packed)) }
}

#[cold]
fn first_bad<const N: usize, const FIRST: bool>(packed: &[u8]) -> BadByte {
    let bad = |byte: u8, plane: usize| (byte >> shift(plane, FIRST)) & 3 == 3;
    packed
        .iter()
        .enumerate()
        .flat_map(|(at, &byte)| (0..4).map(move |plane| (at, byte, plane)))
        .find(|&(_, byte, plane)| bad(byte, plane))
        .map_or(bad_code(0, 0), |(at, _, plane)| {
            bad_code(at, at / N * (4 * N) + plane * N + at % N)
        })
}

/// Packs trits into runs of `N` bytes. `encode_trits` has checked the trits.
fn pack<const N: usize, const FIRST: bool>(trits: &[i8], packed: &mut [u8]) {
    let (runs, _) = packed.as_chunks_mut::<N>();
    let (planes, _) = trits.as_chunks::<N>();
    let (planes, _) = planes.as_chunks::<4>();
    for (run, planes) in runs.iter_mut().zip(planes) {
        run.fill(0);
        for (plane, trits) in planes.iter().enumerate() {
            for (byte, trit) in run.iter_mut().zip(trits) {
                *byte |= code_of(*trit) << shift(plane, FIRST);
            }
        }
    }
}

fn decode_quads<const ROWS: usize>(
    packed: &[u8],
    lane: usize,
    out: &mut [i8],
) -> Result<(), BadByte> {
    let quads = packed.as_chunks::<4>().0.iter().skip(lane).step_by(ROWS);
    let mut bad = 0;
    for (quad, out) in quads.clone().zip(out.chunks_mut(16)) {
        let word = u32::from_le_bytes(*quad);
        bad |= word & word >> 1 & 0x5555_5555;
        for (field, out) in out.chunks_mut(4).enumerate() {
            let codes = (word >> (2 * field) & 0x0303_0303).to_le_bytes();
            for (trit, code) in out.iter_mut().zip(codes) {
                *trit = trit_of(code);
            }
        }
    }
    if bad == 0 {
        return Ok(());
    }
    let bytes =
        quads.enumerate().flat_map(|(at, quad)| (0..4).zip(quad).map(move |(q, b)| (at, q, *b)));
    let mut bad = bytes.filter(|(.., byte)| threes(*byte) != 0);
    let (at, q, byte) = bad.next().unwrap_or_default();
    let field = threes(byte).trailing_zeros() as usize / 2;
    Err(bad_code(4 * (ROWS * at + lane) + q, 16 * at + 4 * field + q))
}

/// Columns past the last are zero trits.
fn encode_quads<const ROWS: usize>(trits: &[i8], lane: usize, packed: &mut [u8]) {
    let quads = packed.as_chunks_mut::<4>().0.iter_mut().skip(lane).step_by(ROWS);
    for (quad, trits) in quads.zip(trits.chunks(16)) {
        let mut codes = [code_of(0); 16];
        for (code, &trit) in codes.iter_mut().zip(trits) {
            *code = code_of(trit);
        }
        let fields = codes.as_chunks::<4>().0.iter().enumerate();
        let word = fields.fold(0, |word, (f, codes)| word | u32::from_le_bytes(*codes) << (2 * f));
        *quad = word.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quads_report_the_row_and_column_of_code_three() {
        let mut strip = [0b0101_0101; 256];
        strip[64 + 4 * 3 + 2] |= 3 << 4;
        let mut trits = [9; 64];
        for lane in [0, 2, 4, 15] {
            assert_eq!(decode_quads::<16>(&strip, lane, &mut trits), Ok(()));
        }
        assert_eq!(decode_quads::<16>(&strip, 3, &mut trits), Err(bad_code(78, 16 + 8 + 2)));
    }
}
