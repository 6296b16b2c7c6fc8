//! IQ1_BN (ik_llama.cpp): for each row an f16 scale, then 13 bytes per 64 trits.
//!
//! Byte `3 g + k` of the first 12 holds the five trits from `16 g + 5 k` on, the last byte the four trits
//! `16 g + 15`. They are base-3 numbers, here with the first trit in the *lowest* digit.

use super::TernaryEncoding;
use super::base3::{bad_number, byte_of, number_of};
#[cfg(test)]
use super::codec::Position;
use super::codec::{
    BadByte, Bundles, Codec, GgufType, Layout, Project, decode_blocks, encode_blocks,
};
use super::scales::{ScaleFloat, ScaleUnit, ScalesAt, StoredScales};

const COLS: usize = 64;
const LEN: usize = 13;

impl TernaryEncoding {
    /// ik_llama.cpp: five trits a byte, one f16 scale a row.
    pub const IQ1_BN: Self = Self::new(&Codec {
        name: "IQ1_BN",
        label: "IQ1_BN",
        flag: Some("iq1_bn"),
        gguf: Some(GgufType { id: 134, project: Project::IkLlama }),
        wf_name: None,
        layout: Layout::Bundles(Bundles {
            head_len: 2,
            block_cols: COLS,
            block_len: LEN,
            scales: Some(StoredScales {
                unit: ScaleUnit::Row,
                float: ScaleFloat::F16,
                at: ScalesAt::Head,
            }),
            decode: |blocks, _, out| decode_blocks(blocks, out, decode_block),
            encode: |trits, _, blocks| encode_blocks(trits, blocks, encode_block),
            ..Bundles::DEFAULT
        }),
        #[cfg(test)]
        position: Some(|_, cols, r, c| {
            let block = r * (2 + cols / 64 * 13) + 2 + c / 64 * 13;
            let (g, at) = (c % 64 / 16, c % 16);
            // The first trit is the lowest digit: the last of five from the front.
            if at == 15 {
                Position::Digit { byte: block + 12, digit: 4 - g }
            } else {
                Position::Digit { byte: block + 3 * g + at / 5, digit: 4 - at % 5 }
            }
        }),
    });
}

/// The five trits of a byte, first trit first; `known` is `false` if it holds no base-3 number.
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

fn decode_block(block: &[u8; LEN], out: &mut [i8; COLS]) -> Result<(), BadByte> {
    let [lows @ .., extra] = block;
    let extra = lookup(*extra);
    let mut known = is_four_trits(extra);
    let (lows, _) = lows.as_chunks::<3>();
    let sixteens = out.as_chunks_mut::<16>().0.iter_mut();
    for ((sixteen, low), last) in sixteens.zip(lows).zip(extra.trits) {
        let (fives, tail) = sixteen.as_chunks_mut::<5>();
        for (five, byte) in fives.iter_mut().zip(low) {
            let entry = lookup(*byte);
            *five = entry.trits;
            known &= entry.known;
        }
        tail.fill(last);
    }
    if known { Ok(()) } else { Err(bad_byte(block)) }
}

fn lookup(byte: u8) -> FiveTrits {
    let nothing = FiveTrits { trits: [0; 5], number: 0, known: false };
    FIVE_TRITS.get(usize::from(byte)).copied().unwrap_or(nothing)
}

/// Four digits are the numbers below 81.
fn is_four_trits(entry: FiveTrits) -> bool {
    entry.known && entry.number < 81
}

#[cold]
fn bad_byte(block: &[u8; LEN]) -> BadByte {
    let [lows @ .., extra] = block;
    match lows.iter().enumerate().find(|(_, byte)| !lookup(**byte).known) {
        Some((at, &byte)) => bad_number(at, at / 3 * 16 + at % 3 * 5, byte, 5),
        None => bad_number(LEN - 1, 15, *extra, 4),
    }
}

fn encode_block(trits: &[i8; COLS], block: &mut [u8; LEN]) {
    // The first trit is the lowest digit, so the number is built from the last trit down.
    let number = |trits: &mut dyn DoubleEndedIterator<Item = &i8>| {
        byte_of(trits.rfold(0, |number, trit| number * 3 + (trit + 1) as u8))
    };
    let (sixteens, _) = trits.as_chunks::<16>();
    let fives = sixteens.iter().flat_map(|sixteen| sixteen.as_chunks::<5>().0);
    let [lows @ .., extra] = block;
    for (byte, five) in lows.iter_mut().zip(fives) {
        *byte = number(&mut five.iter());
    }
    *extra = number(&mut sixteens.iter().filter_map(|sixteen| sixteen.last()));
}
