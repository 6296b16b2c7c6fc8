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

use super::error::EncodingError;

/// Values in a block.
pub(super) const BLOCK_LEN: usize = 256;
/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 210;
/// Byte of the block's own scale.
pub(super) const SCALE_AT: usize = 208;

const SUB_LEN: usize = 16;
const STRIP_LEN: usize = 32;
const HIGH_AT: usize = 128;
const SCALES_AT: usize = 192;

/// Where the six bits of value `at` are: byte and shift of the low four, byte and shift of the high
/// two.
const fn place(at: usize) -> (usize, usize, usize, usize) {
    let (half, strip, lane) = (at / 128, at / 32 % 4, at % 32);
    (64 * half + 32 * (strip % 2) + lane, 4 * (strip / 2), HIGH_AT + 32 * half + lane, 2 * strip)
}

/// Decodes one block: a value is its code times the scale of its sixteen.
pub(super) fn decode(block: &[u8; BLOCK_BYTES], out: &mut [f32; BLOCK_LEN]) {
    let (mut codes, mut scales) = ([0; BLOCK_LEN], [0.0; BLOCK_LEN / SUB_LEN]);
    decode_codes(block, &mut codes, &mut scales);
    let subs = out.as_chunks_mut::<SUB_LEN>().0.iter_mut().zip(codes.as_chunks::<SUB_LEN>().0);
    for ((out, codes), scale) in subs.zip(scales) {
        for (out, &code) in out.iter_mut().zip(codes) {
            *out = f32::from(code) * scale;
        }
    }
}

/// The codes of one block and the scale of every sixteen: eight strips of 32 values, each from 32
/// neighbouring bytes, so that the compiler can do a strip at once.
pub(super) fn decode_codes(
    block: &[u8; BLOCK_BYTES],
    codes: &mut [i8; BLOCK_LEN],
    scales_out: &mut [f32; BLOCK_LEN / SUB_LEN],
) {
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

/// Encodes one block; `half` turns the block's scale into f16 or refuses it.
pub(super) fn encode(
    values: &[f32; BLOCK_LEN],
    half: impl Fn(f32) -> Result<f16, EncodingError>,
) -> Result<[u8; BLOCK_BYTES], EncodingError> {
    let mut block = [0; BLOCK_BYTES];
    let subs = values.as_chunks::<SUB_LEN>().0;
    let mut scales = [0.0; BLOCK_LEN / SUB_LEN];
    for (scale, sub) in scales.iter_mut().zip(subs) {
        *scale = best_scale(sub);
    }
    let furthest =
        scales.iter().fold(
            0.0_f32,
            |furthest, &scale| {
                if scale.abs() > furthest.abs() { scale } else { furthest }
            },
        );
    // The furthest scale becomes -128, so that all 8 bits are used.
    let block_scale = half(furthest / -128.0)?;
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
            let (low, low_shift, high, high_shift) = place(sub * SUB_LEN + lane);
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

/// The scale under which 16 values, rounded to 6 bits, come back with the least squared error, large
/// values counting more.
///
/// Rounding makes the error jumpy in the scale, so we try a handful near "the furthest value becomes
/// -32" and for each take the least-squares fit of the integers it gives.
fn best_scale(values: &[f32; SUB_LEN]) -> f32 {
    let furthest =
        values.iter().fold(
            0.0_f32,
            |furthest, &value| {
                if value.abs() > furthest.abs() { value } else { furthest }
            },
        );
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
