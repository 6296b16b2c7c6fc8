//! The encodings with five trits in a byte.
//!
//! A byte holds the base-3 number v (0 to 242, digit = trit + 1) as ceil(256 v / 243): v as a fraction
//! of one, so that the leading digit falls out of a multiplication by 3 and the rest stays behind.
//! 243 byte values are such numbers. No encoder writes the other 13.

use super::TernaryEncoding;
use super::codec::{
    Bundles, Codec, Layout, Packing, Project, ScaleFloat, StoredScales, decode_blocks,
    encode_blocks,
};
use crate::encoding::error::{BadByte, Fault};

impl TernaryEncoding {
    /// llama.cpp: five trits a byte, one f16 scale per 256 trits.
    pub const TQ1_0: Self = Self::new(&Codec {
        flag: Some("tq1_0"),
        gguf: Project::Llama.gguf(34),
        ..planes("TQ1_0", 256, 54, planes::packing::<54, 256, 32, 16, 4>())
    });

    /// PrismML's fork: five trits a byte, one f16 scale per 128 trits.
    pub const PTQ1_0: Self = Self::new(&Codec {
        flag: Some("ptq1_0"),
        gguf: Project::Prism.gguf(143),
        ..planes("PTQ1_0", 128, 28, planes::packing::<28, 128, 16, 8, 2>())
    });

    /// ik_llama.cpp: five trits a byte, one f16 scale a row.
    pub const IQ1_BN: Self = Self::new(&Codec {
        flag: Some("iq1_bn"),
        gguf: Project::IkLlama.gguf(134),
        ..Codec::new(
            "IQ1_BN",
            Layout::Bundles(Bundles {
                head_len: 2,
                scales: StoredScales::in_heads(ScaleFloat::F16),
                ..Bundles::blocks(
                    iq1_bn::COLS,
                    iq1_bn::LEN,
                    Packing {
                        decode: |blocks, _, out| decode_blocks(blocks, out, iq1_bn::decode),
                        encode: |trits, _, blocks| encode_blocks(trits, blocks, iq1_bn::encode),
                    },
                )
            }),
        )
    });
}

/// Blocks of `cols` trits in `len` bytes, the last two of which are the scale.
const fn planes(name: &'static str, cols: usize, len: usize, packing: Packing) -> Codec {
    let scales = StoredScales::in_blocks(cols, len - 2);
    let bundles = Bundles { scales, ..Bundles::blocks(cols, len, packing) };
    Codec::new(name, Layout::Bundles(bundles))
}

const NUMBERS: u16 = 243;

/// The byte that holds a base-3 number below 243.
const fn byte_of(number: u8) -> u8 {
    // At most 242 * 256, which fits in u16; the quotient is at most 255.
    (number as u16 * 256).div_ceil(NUMBERS) as u8
}

/// The meaning of a byte.
#[derive(Clone, Copy)]
struct FiveTrits {
    /// The trits, that of the lowest digit first.
    trits: [i8; 5],
    number: u8,
    /// `false` if it holds no base-3 number.
    known: bool,
}

const UNKNOWN: FiveTrits = FiveTrits { trits: [0; 5], number: 0, known: false };

#[expect(clippy::indexing_slicing, reason = "at compile time a wrong index does not compile")]
static FIVE_TRITS: [FiveTrits; 256] = {
    let mut table = [UNKNOWN; 256];
    let mut number = 0;
    while number < NUMBERS as u8 {
        let entry = &mut table[byte_of(number) as usize];
        (entry.number, entry.known) = (number, true);
        let mut rest = number;
        let mut digit = 0;
        while digit < 5 {
            entry.trits[digit] = (rest % 3) as i8 - 1;
            rest /= 3;
            digit += 1;
        }
        number += 1;
    }
    table
};

fn lookup(byte: u8) -> &'static FiveTrits {
    FIVE_TRITS.get(usize::from(byte)).unwrap_or(&UNKNOWN)
}

/// An invalid byte, where one that holds `trits` trits was expected.
fn bad_number(offset: usize, col: usize, value: u8, trits: usize) -> BadByte {
    BadByte::new(offset, col, Fault::Base3 { byte: value, trits })
}

/// Blocks of base-3 numbers with the first trit in the leading digit, then an f16 scale: `A` and `B`
/// numbers of five digits and `C` of four. Digit `k` of byte `j` is
///
/// ```text
/// A bytes from 0        trit           A k + j
/// B bytes from A        trit 5 A     + B k + j - A
/// C bytes from A + B    trit 5 A + 5 B + C k + j - A - B     four digits, the fifth is 0
/// ```
mod planes {
    use super::{BadByte, Packing, bad_number, byte_of, decode_blocks, encode_blocks, lookup};

    pub(super) const fn packing<
        const LEN: usize,
        const COLS: usize,
        const A: usize,
        const B: usize,
        const C: usize,
    >() -> Packing {
        assert!(COLS == 5 * A + 5 * B + 4 * C && LEN == A + B + C + 2, "digits and a scale");
        Packing {
            decode: |blocks, _, out| decode_blocks(blocks, out, decode::<LEN, COLS, A, B, C>),
            encode: |trits, _, blocks| encode_blocks(trits, blocks, encode::<LEN, COLS, A, B, C>),
        }
    }

    fn decode<
        const LEN: usize,
        const COLS: usize,
        const A: usize,
        const B: usize,
        const C: usize,
    >(
        block: &[u8; LEN],
        out: &mut [i8; COLS],
    ) -> Result<(), BadByte> {
        let (bytes, _scale) = block.split_at(A + B + C);
        if let Some(bad) = bytes.iter().enumerate().find_map(bad_byte::<A, B>) {
            return Err(bad);
        }
        let (first, rest) = bytes.split_at(A);
        let (second, last) = rest.split_at(B);
        let (out_first, out_rest) = out.split_at_mut(5 * A);
        let (out_second, out_last) = out_rest.split_at_mut(5 * B);
        digits::<A>(first, out_first);
        digits::<B>(second, out_second);
        digits::<C>(last, out_last);
        Ok(())
    }

    /// Checks byte `at` of a block. Those after the first `A + B` hold four trits only.
    fn bad_byte<const A: usize, const B: usize>((at, &value): (usize, &u8)) -> Option<BadByte> {
        let (col, trits) = match at {
            _ if at < A => (at, 5),
            _ if at < A + B => (5 * A + at - A, 5),
            _ => (5 * A + 5 * B + at - A - B, 4),
        };
        let found = lookup(value);
        let fits = found.known && (trits == 5 || found.number.is_multiple_of(3));
        (!fits).then(|| bad_number(at, col, value, trits))
    }

    /// Writes the digits of `N` bytes plane by plane, as many planes as `out` holds.
    fn digits<const N: usize>(bytes: &[u8], out: &mut [i8]) {
        let (runs, _) = bytes.as_chunks::<N>();
        let (planes, _) = out.as_chunks_mut::<N>();
        let Some(mut rest) = runs.first().copied() else { return };
        for plane in planes {
            for (trit, rest) in plane.iter_mut().zip(&mut rest) {
                // The leading digit of a fraction in 256ths: floor(3 rest / 256).
                *trit = i8::from(*rest >= 86) + i8::from(*rest >= 171) - 1;
                *rest = rest.wrapping_mul(3);
            }
        }
    }

    fn encode<
        const LEN: usize,
        const COLS: usize,
        const A: usize,
        const B: usize,
        const C: usize,
    >(
        trits: &[i8; COLS],
        block: &mut [u8; LEN],
    ) {
        let (first, rest) = block.split_at_mut(A);
        let (second, rest) = rest.split_at_mut(B);
        let (last, _scale) = rest.split_at_mut(C);
        let (trits_first, trits_rest) = trits.split_at(5 * A);
        let (trits_second, trits_last) = trits_rest.split_at(5 * B);
        number_bytes::<A>(trits_first, first);
        number_bytes::<B>(trits_second, second);
        number_bytes::<C>(trits_last, last);
    }

    /// The reverse of `digits`. A plane that is not there counts as digit 0.
    fn number_bytes<const N: usize>(trits: &[i8], bytes: &mut [u8]) {
        let (planes, _) = trits.as_chunks::<N>();
        for (at, byte) in bytes.iter_mut().enumerate() {
            let digit = |plane: usize| {
                planes.get(plane).and_then(|plane| plane.get(at)).map_or(0, |trit| (trit + 1) as u8)
            };
            *byte = byte_of((0..5).fold(0, |number, plane| number * 3 + digit(plane)));
        }
    }
}

/// IQ1_BN: 64 trits in 13 bytes. Byte `3 g + k` of the first 12 holds the five trits from `16 g + 5 k`
/// on, the last byte the four trits `16 g + 15`, all with the first trit in the *lowest* digit.
mod iq1_bn {
    use super::{BadByte, bad_number, byte_of, lookup};

    pub(super) const COLS: usize = 64;
    pub(super) const LEN: usize = 13;

    pub(super) fn decode(block: &[u8; LEN], out: &mut [i8; COLS]) -> Result<(), BadByte> {
        let [lows @ .., extra] = block;
        let extra = lookup(*extra);
        // Four digits are the numbers below 81.
        let mut known = extra.known && extra.number < 81;
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

    #[cold]
    fn bad_byte(block: &[u8; LEN]) -> BadByte {
        let [lows @ .., extra] = block;
        match lows.iter().enumerate().find(|(_, byte)| !lookup(**byte).known) {
            Some((at, &byte)) => bad_number(at, at / 3 * 16 + at % 3 * 5, byte, 5),
            None => bad_number(LEN - 1, 15, *extra, 4),
        }
    }

    pub(super) fn encode(trits: &[i8; COLS], block: &mut [u8; LEN]) {
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
}
