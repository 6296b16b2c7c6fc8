//! Q6_K (ggml): 256 values as 6-bit integers, a scale per 16, in 210 bytes.
//!
//! ```text
//! bytes   0..128  low four bits    } value 128 h + 32 s + l  (h 0..2, s 0..4, l 0..32):
//! bytes 128..192  high two bits    }   low  in byte 64 h + 32 (s % 2) + l, upper nibble if s >= 2
//!                                  }   high in byte 128 + 32 h + l, shifted by 2 s
//! bytes 192..208  i8 scales, one per 16 values in order
//! bytes 208..210  f16 scale of the scales
//! ```
//!
//! A value is (code - 32) x scale of its 16 x scale of the block.

use half::f16;

use super::{
    Decode, F16_RANGE, FloatCodec, FloatEncoding, FloatKind, decode_blocks, furthest_from_zero,
    to_f16,
};

const LEN: usize = 256;
const BYTES: usize = 210;
/// Byte of the block's own scale.
const SCALE_AT: usize = 208;

impl FloatEncoding {
    /// ggml: 6-bit integers, one scale per 16.
    pub const Q6_K: Self = Self(&FloatCodec {
        name: "Q6_K",
        flag: "q6_k",
        gguf_type: 14,
        kind: FloatKind::Blocks,
        block_len: LEN,
        block_bytes: BYTES,
        scale_offset: SCALE_AT,
        decode: Decode::Codes(|bytes, codes, scales| decode_blocks(bytes, codes, scales, decode)),
        encode: Some(|values, out| {
            for block in values.as_chunks::<LEN>().0 {
                out.extend(encode(block)?);
            }
            Ok(())
        }),
        range: F16_RANGE,
        // The scales of sixteen values are themselves rounded, to 1/127 of the largest.
        max_error: |_, block_max| block_max / 32.0 + 4e-6,
        is_coarse: false,
        cost: Some("costs 0.23 % in perplexity (17.149 for 17.109)"),
    });
}

const SUB_LEN: usize = 16;
const STRIP_LEN: usize = 32;
const HIGH_AT: usize = 128;
const SCALES_AT: usize = 192;

/// Returns byte and shift of the low four bits of value `at`, then of its high two.
const fn position(at: usize) -> (usize, usize, usize, usize) {
    let (half, strip, lane) = (at / 128, at / 32 % 4, at % 32);
    (64 * half + 32 * (strip % 2) + lane, 4 * (strip / 2), HIGH_AT + 32 * half + lane, 2 * strip)
}

/// Decodes eight strips of 32 values, each from 32 adjacent bytes, so that a strip becomes vector code.
fn decode(block: &[u8; BYTES], codes: &mut [i8; LEN], scales_out: &mut [f32; LEN / SUB_LEN]) {
    let [.., scale_low, scale_high] = block;
    let scale = f16::from_le_bytes([*scale_low, *scale_high]).to_f32();
    let (lows, rest) = block.split_at(HIGH_AT);
    let (highs, scales) = rest.split_at(SCALES_AT - HIGH_AT);
    for (out, &sub_scale) in scales_out.iter_mut().zip(scales) {
        *out = scale * f32::from(sub_scale as i8);
    }
    let (halves, highs) = (lows.as_chunks::<64>().0, highs.as_chunks::<STRIP_LEN>().0);
    // Each half of the low bits serves strips 0 and 1 by its lower nibbles, 2 and 3 by its upper.
    let lows =
        halves.iter().flat_map(|half| half.as_chunks::<STRIP_LEN>().0.iter().cycle().take(4));
    let highs = highs.iter().flat_map(|high| std::iter::repeat_n(high, 4));
    let strips = codes.as_chunks_mut::<STRIP_LEN>().0.iter_mut();
    for (at, (codes, (low, high))) in strips.zip(lows.zip(highs)).enumerate() {
        let (low_shift, high_shift) = (at % 4 / 2 * 4, at % 4 * 2);
        for (code, (low, high)) in codes.iter_mut().zip(low.iter().zip(high)) {
            let bits = (low >> low_shift) & 15 | ((high >> high_shift) & 3) << 4;
            *code = bits as i8 - 32;
        }
    }
}

fn encode(values: &[f32; LEN]) -> Result<[u8; BYTES], f32> {
    let mut block = [0; BYTES];
    let subs = values.as_chunks::<SUB_LEN>().0;
    let mut scales = [0.0; LEN / SUB_LEN];
    for (scale, sub) in scales.iter_mut().zip(subs) {
        *scale = best_scale(sub);
    }
    // The largest scale becomes -128, so that all 8 bits are used.
    let block_scale = to_f16(furthest_from_zero(&scales) / -128.0)?;
    let block_value = block_scale.to_f32();
    let mut put = |at: usize, bits: u8| {
        if let Some(byte) = block.get_mut(at) {
            *byte |= bits;
        }
    };
    for (sub, (values, scale)) in subs.iter().zip(scales).enumerate() {
        let code = if block_value == 0.0 { 0 } else { (scale / block_value).round() as i8 };
        put(SCALES_AT + sub, code as u8);
        let stored = block_value * f32::from(code);
        for (lane, value) in values.iter().enumerate() {
            let code = if stored == 0.0 { 32 } else { nearest(value / stored) + 32 } as u8;
            let (low, low_shift, high, high_shift) = position(sub * SUB_LEN + lane);
            put(low, (code & 15) << low_shift);
            put(high, (code >> 4) << high_shift);
        }
    }
    let [low, high] = block_scale.to_le_bytes();
    put(SCALE_AT, low);
    put(SCALE_AT + 1, high);
    Ok(block)
}

/// The nearest 6-bit integer, -32 to 31.
fn nearest(ratio: f32) -> i32 {
    (ratio.round_ties_even() as i32).clamp(-32, 31)
}

/// Finds the scale under which 16 values, rounded to 6 bits, have the least squared error, weighted
/// by the squares of the values.
///
/// The error is not smooth in the scale, so several near "the largest value becomes -32" are tried, each
/// refined by a least-squares fit to the integers it gives.
fn best_scale(values: &[f32; SUB_LEN]) -> f32 {
    let furthest = furthest_from_zero(values);
    // Below this the squares of the squares leave the range of f32.
    if furthest.abs() < 1e-15 {
        return 0.0;
    }
    let mut best = (0.0, 0.0);
    for tenths in -9_i8..=9 {
        let multiplier = -(32.0 + 0.1 * f32::from(tenths)) / furthest;
        let (mut dot, mut square) = (0.0, 0.0);
        for value in values {
            let code = f64::from(nearest(value * multiplier));
            let value = f64::from(*value);
            dot += value * value * value * code;
            square += value * value * code * code;
        }
        // The fit dot / square lowers the weighted error by dot^2 / square.
        let gain = if square > 0.0 { dot * dot / square } else { 0.0 };
        if gain > best.0 {
            best = (gain, (dot / square) as f32);
        }
    }
    best.1
}
