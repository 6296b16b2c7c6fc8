//! Trits as two-bit fields: code 0 is -1, 1 is 0, 2 is +1, and 3 is invalid.
//!
//! A run of `N` bytes holds `4 N` trits in four planes: field `f` of byte `j` is trit `f * N + j`. So
//! one shift and mask turns a run into a plane, and the loops below become vector code. The encodings differ in `N` and in whether
//! the first plane has the high bits or the low ones. `N = 1` is plain sequential packing.

use super::codec::{BadByte, Fault};

/// The first plane is in the high bits.
pub(super) const HIGH_FIRST: bool = true;
/// The first plane is in the low bits.
pub(super) const LOW_FIRST: bool = false;

const fn shift(plane: usize, high_first: bool) -> usize {
    if high_first { 6 - 2 * plane } else { 2 * plane }
}

/// Sets a bit for each field of the byte that holds code 3.
pub(super) const fn threes(byte: u8) -> u8 {
    byte & (byte >> 1) & 0b0101_0101
}

/// Unpacks runs of `N` bytes; `out` has four trits for each byte of `packed`.
pub(super) fn unpack<const N: usize, const FIRST: bool>(
    packed: &[u8],
    out: &mut [i8],
) -> Result<(), BadByte> {
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

/// An invalid code 3 at this byte and column.
pub(super) fn bad_code(offset: usize, col: usize) -> BadByte {
    BadByte { offset, col, fault: Fault::Code }
}

/// Converts a code. Code 3 becomes 2, which callers never return: they have seen it in `threes` by then.
pub(super) const fn trit_of(code: u8) -> i8 {
    code as i8 - 1
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
pub(super) fn pack<const N: usize, const FIRST: bool>(trits: &[i8], packed: &mut [u8]) {
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

/// The two-bit code of a trit.
pub(super) const fn code_of(trit: i8) -> u8 {
    (trit + 1) as u8
}
