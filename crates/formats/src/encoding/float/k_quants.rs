//! Q2_K to Q5_K (ggml): 256 values as 2- to 5-bit integers, with small scales and minima under an f16 each.
//!
//! ```text
//! Q2_K   84 bytes  16 scales and minima (4 bits each) | 64 of codes | f16 scale | f16 minimum
//! Q3_K  110 bytes  32 of third bits | 64 of codes | 12 of 6-bit scales | f16 scale
//! Q4_K  144 bytes  f16 scale | f16 minimum | 12 of 6-bit scales and minima | 128 of codes
//! Q5_K  176 bytes  as Q4_K, with 32 of fifth bits before the codes
//! ```
//!
//! Two-bit codes: value 128 h + 32 s + l is in byte 32 h + l, shifted by 2 s; its third bit is bit 4 h + s of
//! byte l. Four-bit codes: value 64 q + 32 s + l is in byte 32 q + l, the upper nibble if s is 1; its fifth
//! bit is bit 2 q + s of byte l. A value is scale x code - minimum; in Q3_K the code is 4 lower without
//! its third bit, and there is no minimum.

use super::{
    CODES_PER_SCALE, Decode, FloatCodec, FloatEncoding, decode_blocks, decode_blocks_with_minima,
    f16_at,
};

const LEN: usize = 256;
const GROUPS: usize = LEN / CODES_PER_SCALE;
/// Values that share a shift.
const STRIP: usize = 32;

impl FloatEncoding {
    /// ggml: 2-bit integers, one scale and minimum per 16.
    pub const Q2_K: Self = Self(&FloatCodec::read_only(
        "Q2_K",
        "q2_k",
        10,
        (LEN, 84),
        80,
        Decode::CodesAndMinima(|bytes, codes, scales, minima| {
            decode_blocks_with_minima(bytes, codes, scales, minima, q2_k);
        }),
    ));

    /// ggml: 3-bit integers, one scale per 16.
    pub const Q3_K: Self = Self(&FloatCodec::read_only(
        "Q3_K",
        "q3_k",
        11,
        (LEN, 110),
        108,
        Decode::Codes(|bytes, codes, scales| decode_blocks(bytes, codes, scales, q3_k)),
    ));

    /// ggml: 4-bit integers, one scale and minimum per 32.
    pub const Q4_K: Self = Self(&FloatCodec::read_only(
        "Q4_K",
        "q4_k",
        12,
        (LEN, 144),
        0,
        Decode::CodesAndMinima(|bytes, codes, scales, minima| {
            decode_blocks_with_minima(bytes, codes, scales, minima, q4_k);
        }),
    ));

    /// ggml: 5-bit integers, one scale and minimum per 32.
    pub const Q5_K: Self = Self(&FloatCodec::read_only(
        "Q5_K",
        "q5_k",
        13,
        (LEN, 176),
        0,
        Decode::CodesAndMinima(|bytes, codes, scales, minima| {
            decode_blocks_with_minima(bytes, codes, scales, minima, q5_k);
        }),
    ));
}

type Codes = [i8; LEN];
type Factors = [f32; GROUPS];

fn q2_k(block: &[u8; 84], codes: &mut Codes, scales: &mut Factors, minima: &mut Factors) {
    let (factors, rest) = block.split_at(GROUPS);
    let (scale, minimum) = (f16_at(block, 80), f16_at(block, 82));
    for (bits, (out_scale, out_minimum)) in factors.iter().zip(scales.iter_mut().zip(minima)) {
        *out_scale = scale * f32::from(bits & 15);
        *out_minimum = minimum * f32::from(bits >> 4);
    }
    two_bits(rest, codes);
}

fn q3_k(block: &[u8; 110], codes: &mut Codes, scales: &mut Factors) {
    let (thirds, rest) = block.split_at(STRIP);
    let (packed, factors) = rest.split_at(64);
    let scale = f16_at(block, 108);
    for (at, out) in scales.iter_mut().enumerate() {
        let byte = |at: usize| factors.get(at).copied().unwrap_or(0);
        let low = byte(at % 8) >> (at / 8 * 4) & 15;
        let high = byte(8 + at % 4) >> (at / 4 * 2) & 3;
        *out = scale * f32::from((low | high << 4) as i8 - 32);
    }
    two_bits(packed, codes);
    for (at, strip) in codes.as_chunks_mut::<STRIP>().0.iter_mut().enumerate() {
        for (code, third) in strip.iter_mut().zip(thirds) {
            *code -= 4 * i8::from(third >> at & 1 == 0);
        }
    }
}

fn two_bits(packed: &[u8], codes: &mut Codes) {
    let halves = packed.as_chunks::<STRIP>().0.iter();
    let strips = halves.flat_map(|half| (0..4).map(move |strip| (half, 2 * strip)));
    for (codes, (half, shift)) in codes.as_chunks_mut::<STRIP>().0.iter_mut().zip(strips) {
        for (code, byte) in codes.iter_mut().zip(half) {
            *code = (byte >> shift & 3) as i8;
        }
    }
}

fn q4_k(block: &[u8; 144], codes: &mut Codes, scales: &mut Factors, minima: &mut Factors) {
    six_bit_factors(block, scales, minima);
    four_bits(block.get(16..).unwrap_or_default(), codes);
}

fn q5_k(block: &[u8; 176], codes: &mut Codes, scales: &mut Factors, minima: &mut Factors) {
    six_bit_factors(block, scales, minima);
    let (_, rest) = block.split_at(16);
    let (fifths, packed) = rest.split_at(STRIP);
    four_bits(packed, codes);
    for (at, strip) in codes.as_chunks_mut::<STRIP>().0.iter_mut().enumerate() {
        for (code, fifth) in strip.iter_mut().zip(fifths) {
            *code |= (fifth >> at & 1) as i8 * 16;
        }
    }
}

fn four_bits(packed: &[u8], codes: &mut Codes) {
    let quarters = packed.as_chunks::<STRIP>().0.iter();
    let strips = quarters.flat_map(|quarter| [(quarter, 0), (quarter, 4)]);
    for (codes, (quarter, shift)) in codes.as_chunks_mut::<STRIP>().0.iter_mut().zip(strips) {
        for (code, byte) in codes.iter_mut().zip(quarter) {
            *code = (byte >> shift & 15) as i8;
        }
    }
}

/// Reads the scales and minima of eight strips. Of twelve bytes, the first four hold the scales of strips
/// 0 to 3 and the next four their minima, in their low six bits; the last four hold the low bits of the
/// scales (lower nibble) and minima of strips 4 to 7, whose upper two bits are those left over before.
fn six_bit_factors(block: &[u8], scales: &mut Factors, minima: &mut Factors) {
    let (scale, minimum) = (f16_at(block, 0), f16_at(block, 2));
    let byte = |at: usize| block.get(4 + at).copied().unwrap_or(0);
    let strips = scales.as_chunks_mut::<2>().0.iter_mut().zip(minima.as_chunks_mut::<2>().0);
    for (strip, (scales, minima)) in strips.enumerate() {
        let (scale_bits, minimum_bits) = if strip < 4 {
            (byte(strip) & 63, byte(strip + 4) & 63)
        } else {
            let low = byte(strip + 4);
            (low & 15 | byte(strip - 4) >> 6 << 4, low >> 4 | byte(strip) >> 6 << 4)
        };
        *scales = [scale * f32::from(scale_bits); 2];
        *minima = [minimum * f32::from(minimum_bits); 2];
    }
}
