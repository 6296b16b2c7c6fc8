//! Q4_1, Q5_0 and Q5_1 (ggml): blocks of 32 values that other programs write.
//!
//! ```text
//! Q4_1  f16 scale | f16 minimum | 16 bytes of low bits
//! Q5_0  f16 scale | 4 bytes of fifth bits | 16 bytes of low bits
//! Q5_1  f16 scale | f16 minimum | 4 bytes of fifth bits | 16 bytes of low bits
//! ```
//!
//! Value `j` has the low four bits of byte `j`, value `j + 16` the high ones; the fifth bit of value `j` is
//! bit `j` of a little-endian integer. A value is scale times code plus minimum, or scale times
//! (code - 16).

use super::{Decode, FloatCodec, FloatEncoding, decode_blocks, decode_blocks_with_minima, f16_at};

const LEN: usize = 32;

impl FloatEncoding {
    /// ggml: 4-bit integers, one scale and minimum per 32.
    pub const Q4_1: Self = Self(&FloatCodec::read_only(
        "Q4_1",
        "q4_1",
        3,
        (LEN, 20),
        0,
        Decode::CodesAndMinima(|bytes, codes, scales, minima| {
            decode_blocks_with_minima::<20, LEN, 2>(bytes, codes, scales, minima, |b, c, s, m| {
                (*s, *m) = ([f16_at(b, 0); 2], [-f16_at(b, 2); 2]);
                nibbles(b.get(4..).unwrap_or_default(), c);
            });
        }),
    ));

    /// ggml: 5-bit integers, one scale per 32.
    pub const Q5_0: Self = Self(&FloatCodec::read_only(
        "Q5_0",
        "q5_0",
        6,
        (LEN, 22),
        0,
        Decode::Codes(|bytes, codes, scales| {
            decode_blocks::<22, LEN, 2>(bytes, codes, scales, |b, c, s| {
                *s = [f16_at(b, 0); 2];
                nibbles(b.get(6..).unwrap_or_default(), c);
                add_fifth_bits(b.get(2..).unwrap_or_default(), c);
                c.iter_mut().for_each(|code| *code -= 16);
            });
        }),
    ));

    /// ggml: 5-bit integers, one scale and minimum per 32.
    pub const Q5_1: Self = Self(&FloatCodec::read_only(
        "Q5_1",
        "q5_1",
        7,
        (LEN, 24),
        0,
        Decode::CodesAndMinima(|bytes, codes, scales, minima| {
            decode_blocks_with_minima::<24, LEN, 2>(bytes, codes, scales, minima, |b, c, s, m| {
                (*s, *m) = ([f16_at(b, 0); 2], [-f16_at(b, 2); 2]);
                nibbles(b.get(8..).unwrap_or_default(), c);
                add_fifth_bits(b.get(4..).unwrap_or_default(), c);
            });
        }),
    ));
}

/// Writes the low four bits of sixteen bytes, then the high ones.
pub(super) fn nibbles(packed: &[u8], codes: &mut [i8]) {
    let (first, second) = codes.split_at_mut(LEN / 2);
    for ((first, second), byte) in first.iter_mut().zip(second).zip(packed) {
        *first = (byte & 15) as i8;
        *second = (byte >> 4) as i8;
    }
}

fn add_fifth_bits(packed: &[u8], codes: &mut [i8; LEN]) {
    let bits = packed.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    for (at, code) in codes.iter_mut().enumerate() {
        *code |= ((bits >> at & 1) << 4) as i8;
    }
}
