//! IQ2_BN, IQ2_BN_R4 and IQ1_BN (ik_llama.cpp): a scale at the head of each row, then 64 trits at a
//! time.
//!
//! IQ2_BN: f32 scale, then 16 bytes per 64 trits in two-bit fields, low bits first.
//!
//! IQ2_BN_R4: four rows together, four f32 scales, then 64 bytes per 64 columns. Field `f` of byte
//! `16 l + 4 k + i` is row `k`, column `16 l + 4 f + i`.
//!
//! IQ1_BN: f16 scale, then 13 bytes per 64 trits. Byte `3 g + k` of the first 12 is the trits
//! `16 g + 5 k ..` five at a time, the last byte is the four trits `16 g + 15`. Base-3 numbers again,
//! but here the first trit is the *lowest* digit.

use super::base3::{BadByte, byte_of, number_of};
use super::fields::{BadCode, code_of, threes, trit_of};

/// Columns that are packed together, in all three.
pub(super) const RUN_LEN: usize = 64;
/// Bytes of 64 trits in IQ1_BN.
pub(super) const IQ1_RUN_BYTES: usize = 13;
/// Rows that are packed together in IQ2_BN_R4.
pub(super) const R4_ROWS: usize = 4;

/// Decodes row `k` (0 to 3) of four from their bytes, which begin after the four scales.
pub(super) fn decode_row_r4(packed: &[u8], k: usize, out: &mut [i8]) -> Result<(), BadCode> {
    let (quads, _) = packed.as_chunks::<4>();
    let (outs, _) = out.as_chunks_mut::<4>();
    let (outs, _) = outs.as_chunks_mut::<4>();
    // Every fourth quad of bytes is ours; it holds the next sixteen columns.
    for (at, (quad, planes)) in quads.iter().skip(k).step_by(R4_ROWS).zip(outs).enumerate() {
        for (field, plane) in planes.iter_mut().enumerate() {
            for (trit, byte) in plane.iter_mut().zip(quad) {
                *trit = trit_of((byte >> (2 * field)) & 3);
            }
        }
        if let Some((i, byte)) = quad.iter().enumerate().find(|(_, byte)| threes(**byte) != 0) {
            let field = threes(*byte).trailing_zeros() as usize / 2;
            return Err(BadCode { byte: 16 * at + 4 * k + i, col: 16 * at + 4 * field + i });
        }
    }
    Ok(())
}

/// Encodes row `k` (0 to 3) of four into their bytes, which begin after the four scales.
pub(super) fn encode_row_r4(trits: &[i8], k: usize, packed: &mut [u8]) {
    let (quads, _) = packed.as_chunks_mut::<4>();
    let (planes, _) = trits.as_chunks::<4>();
    let (planes, _) = planes.as_chunks::<4>();
    for (quad, planes) in quads.iter_mut().skip(k).step_by(R4_ROWS).zip(planes) {
        for (field, plane) in planes.iter().enumerate() {
            for (byte, trit) in quad.iter_mut().zip(plane) {
                *byte |= code_of(*trit) << (2 * field);
            }
        }
    }
}

/// What an IQ1_BN byte holds: five trits, first trit first, and whether it is a number at all.
#[derive(Clone, Copy)]
struct FiveTrits {
    trits: [i8; 5],
    number: u8,
    known: bool,
}

#[expect(clippy::indexing_slicing, reason = "at compile time a wrong index does not compile")]
static FIVE_TRITS: [FiveTrits; 256] = {
    let mut table = [FiveTrits { trits: [0; 5], number: 0, known: false }; 256];
    let mut byte = 0;
    while byte < 256 {
        if let Some(number) = number_of(byte as u8) {
            let mut rest = number;
            let mut digit = 0;
            while digit < 5 {
                table[byte].trits[digit] = (rest % 3) as i8 - 1;
                rest /= 3;
                digit += 1;
            }
            table[byte].number = number;
            table[byte].known = true;
        }
        byte += 1;
    }
    table
};

/// Decodes one row of IQ1_BN from its bytes after the scale.
pub(super) fn decode_row_1(packed: &[u8], out: &mut [i8]) -> Result<(), BadByte> {
    let (runs, _) = packed.as_chunks::<IQ1_RUN_BYTES>();
    let (outs, _) = out.as_chunks_mut::<16>();
    let (outs, _) = outs.as_chunks_mut::<4>();
    for (at, (run, sixteens)) in runs.iter().zip(outs).enumerate() {
        let all_known = decode_run(run, sixteens);
        if !all_known {
            return Err(bad_byte(run, at));
        }
    }
    Ok(())
}

/// Decodes 64 trits; false if a byte was no number.
fn decode_run(run: &[u8; IQ1_RUN_BYTES], sixteens: &mut [[i8; 16]; 4]) -> bool {
    let Some((extra, lows)) = run.split_last() else { return false };
    let extra = lookup(*extra);
    // Four digits at most: numbers below 81.
    let mut known = extra.known && extra.number < 81;
    let (lows, _) = lows.as_chunks::<3>();
    for ((sixteen, low), last) in sixteens.iter_mut().zip(lows).zip(extra.trits) {
        let (fives, tail) = sixteen.as_chunks_mut::<5>();
        for (five, byte) in fives.iter_mut().zip(low) {
            let entry = lookup(*byte);
            *five = entry.trits;
            known &= entry.known;
        }
        tail.fill(last);
    }
    known
}

fn lookup(byte: u8) -> FiveTrits {
    let nothing = FiveTrits { trits: [0; 5], number: 0, known: false };
    FIVE_TRITS.get(usize::from(byte)).copied().unwrap_or(nothing)
}

#[cold]
fn bad_byte(run: &[u8; IQ1_RUN_BYTES], run_index: usize) -> BadByte {
    let place = |at: usize| match at {
        0..12 => (at / 3 * 16 + at % 3 * 5, 5),
        _ => (15, 4),
    };
    let is_bad = |at: usize, byte: u8| {
        let entry = lookup(byte);
        !entry.known || (at == 12 && entry.number >= 81)
    };
    let found = run.iter().copied().enumerate().find(|&(at, byte)| is_bad(at, byte));
    let (at, value) = found.unwrap_or((0, 0));
    let (col, trits) = place(at);
    BadByte { byte: run_index * IQ1_RUN_BYTES + at, col: run_index * RUN_LEN + col, value, trits }
}

/// Encodes one row of IQ1_BN into its bytes after the scale.
pub(super) fn encode_row_1(trits: &[i8], packed: &mut [u8]) {
    // The first trit is the lowest digit, so the number is built from the last trit down.
    let number = |trits: &mut dyn DoubleEndedIterator<Item = &i8>| {
        byte_of(trits.rfold(0, |number, trit| number * 3 + (trit + 1) as u8))
    };
    let (runs, _) = packed.as_chunks_mut::<IQ1_RUN_BYTES>();
    let (sixteens, _) = trits.as_chunks::<16>();
    let (sixteens, _) = sixteens.as_chunks::<4>();
    for (run, sixteens) in runs.iter_mut().zip(sixteens) {
        let fives = sixteens.iter().flat_map(|sixteen| sixteen.as_chunks::<5>().0);
        for (byte, five) in run.iter_mut().zip(fives) {
            *byte = number(&mut five.iter());
        }
        if let Some(extra) = run.last_mut() {
            *extra = number(&mut sixteens.iter().filter_map(|sixteen| sixteen.last()));
        }
    }
}
