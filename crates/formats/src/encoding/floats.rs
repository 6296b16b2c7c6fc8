//! Floats in a file: plain ones, and the block-quantized ones that embeddings come in.
//!
//! ```text
//! Q8_0   32 values   f16 scale, 32 x i8                                       34 bytes
//! Q4_0   32 values   f16 scale, 16 bytes: value j low, value j + 16 high       18 bytes
//! Q6_K  256 values   see `q6_k`                                               210 bytes
//! ```
//!
//! Numbers that are not finite are refused both ways: no weight is one.

use std::fmt;

use half::{bf16, f16, slice::HalfFloatSliceExt};

use super::error::EncodingError;
use super::q6_k;

/// How floats lie in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FloatEncoding {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of single precision.
    Bf16,
    /// ggml: 8-bit integers, a scale per 32.
    Q8_0,
    /// ggml: 6-bit integers, a scale per 16.
    Q6K,
    /// ggml: 4-bit integers, a scale per 32.
    Q4_0,
}

impl fmt::Display for FloatEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Values in a block of Q8_0 and Q4_0.
const SMALL_BLOCK_LEN: usize = 32;
pub(super) const Q8_BLOCK_BYTES: usize = 2 + 32;
pub(super) const Q4_BLOCK_BYTES: usize = 2 + 16;

impl FloatEncoding {
    /// The encoding's usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Q8_0 => "Q8_0",
            Self::Q6K => "Q6_K",
            Self::Q4_0 => "Q4_0",
        }
    }

    /// Bytes of a row of `cols` values.
    pub fn row_size(self, cols: usize) -> Result<u64, EncodingError> {
        let (len, bytes) = self.block();
        let encoding = self.name();
        if !cols.is_multiple_of(len) {
            let axis = "columns";
            return Err(EncodingError::Shape { encoding, axis, multiple: len, found: cols });
        }
        let too_large = EncodingError::TooLarge { encoding, rows: 1, cols };
        ((cols / len) as u64).checked_mul(bytes as u64).ok_or(too_large)
    }

    /// Values and bytes of the smallest piece.
    fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Q8_0 => (SMALL_BLOCK_LEN, Q8_BLOCK_BYTES),
            Self::Q4_0 => (SMALL_BLOCK_LEN, Q4_BLOCK_BYTES),
            Self::Q6K => (q6_k::BLOCK_LEN, q6_k::BLOCK_BYTES),
        }
    }
}

/// Decodes whole rows: as many as `out` has room for, which must be what `bytes` holds.
pub fn decode_floats(
    encoding: FloatEncoding,
    bytes: &[u8],
    out: &mut [f32],
) -> Result<(), EncodingError> {
    let cols = out.len();
    let expected = encoding.row_size(cols)?;
    if bytes.len() as u64 != expected {
        let (encoding, found) = (encoding.name(), bytes.len());
        return Err(EncodingError::Size { encoding, rows: 1, cols, expected, found });
    }
    let offset_of_bad = match encoding {
        FloatEncoding::F32 => {
            let (values, _) = bytes.as_chunks::<4>();
            for (out, value) in out.iter_mut().zip(values) {
                *out = f32::from_le_bytes(*value);
            }
            bad_value(out).map(|at| at * 4)
        }
        FloatEncoding::F16 => {
            decode_halves(bytes, out, f16::from_le_bytes, |halves, out| {
                halves.convert_to_f32_slice(out);
            });
            bad_value(out).map(|at| at * 2)
        }
        FloatEncoding::Bf16 => {
            let (values, _) = bytes.as_chunks::<2>();
            for (out, value) in out.iter_mut().zip(values) {
                *out = f32::from_bits(u32::from(u16::from_le_bytes(*value)) << 16);
            }
            bad_value(out).map(|at| at * 2)
        }
        FloatEncoding::Q8_0 => {
            let (blocks, _) = bytes.as_chunks::<Q8_BLOCK_BYTES>();
            let (outs, _) = out.as_chunks_mut::<SMALL_BLOCK_LEN>();
            blocks.iter().zip(outs).for_each(|(block, out)| decode_q8_0(block, out));
            bad_value(out).map(|at| at / SMALL_BLOCK_LEN * Q8_BLOCK_BYTES)
        }
        FloatEncoding::Q4_0 => {
            let (blocks, _) = bytes.as_chunks::<Q4_BLOCK_BYTES>();
            let (outs, _) = out.as_chunks_mut::<SMALL_BLOCK_LEN>();
            blocks.iter().zip(outs).for_each(|(block, out)| decode_q4_0(block, out));
            bad_value(out).map(|at| at / SMALL_BLOCK_LEN * Q4_BLOCK_BYTES)
        }
        FloatEncoding::Q6K => {
            let (blocks, _) = bytes.as_chunks::<{ q6_k::BLOCK_BYTES }>();
            let (outs, _) = out.as_chunks_mut::<{ q6_k::BLOCK_LEN }>();
            blocks.iter().zip(outs).for_each(|(block, out)| q6_k::decode(block, out));
            bad_value(out).map(|at| at / q6_k::BLOCK_LEN * q6_k::BLOCK_BYTES + q6_k::SCALE_AT)
        }
    };
    match offset_of_bad {
        None => Ok(()),
        Some(offset) => {
            let index = bad_value(out).unwrap_or_default();
            let value = out.get(index).copied().unwrap_or_default();
            Err(EncodingError::NotFinite { offset, index, value })
        }
    }
}

/// The first value that is not finite.
fn bad_value(values: &[f32]) -> Option<usize> {
    // A fold has no early way out, so it becomes vector code; the search runs only on bad files.
    let all_finite = values.iter().fold(true, |all, value| all & value.is_finite());
    if all_finite { None } else { values.iter().position(|value| !value.is_finite()) }
}

/// Converts in pieces of 64, because the bytes of a file need not be aligned for a slice of halves.
fn decode_halves<H: Copy + Default>(
    bytes: &[u8],
    out: &mut [f32],
    read: impl Fn([u8; 2]) -> H,
    convert: impl Fn(&[H], &mut [f32]),
) {
    let (values, _) = bytes.as_chunks::<2>();
    let mut halves = [H::default(); 64];
    for (values, out) in values.chunks(64).zip(out.chunks_mut(64)) {
        for (half, value) in halves.iter_mut().zip(values) {
            *half = read(*value);
        }
        convert(halves.get(..out.len()).unwrap_or_default(), out);
    }
}

fn decode_q8_0(block: &[u8; Q8_BLOCK_BYTES], out: &mut [f32; SMALL_BLOCK_LEN]) {
    let [low, high, values @ ..] = block;
    let scale = f16::from_le_bytes([*low, *high]).to_f32();
    for (out, value) in out.iter_mut().zip(values) {
        *out = f32::from(*value as i8) * scale;
    }
}

fn decode_q4_0(block: &[u8; Q4_BLOCK_BYTES], out: &mut [f32; SMALL_BLOCK_LEN]) {
    let [low, high, values @ ..] = block;
    let scale = f16::from_le_bytes([*low, *high]).to_f32();
    let (first, second) = out.split_at_mut(SMALL_BLOCK_LEN / 2);
    for ((first, second), value) in first.iter_mut().zip(second).zip(values) {
        *first = (f32::from(value & 15) - 8.0) * scale;
        *second = (f32::from(value >> 4) - 8.0) * scale;
    }
}

/// Encodes whole rows. The quantized encodings round as ggml's reference code does, except that Q6_K
/// searches its scales in our own way.
pub fn encode_floats(encoding: FloatEncoding, values: &[f32]) -> Result<Vec<u8>, EncodingError> {
    encoding.row_size(values.len())?;
    if let Some(index) = bad_value(values) {
        let value = values.get(index).copied().unwrap_or_default();
        return Err(EncodingError::NotFinite { offset: index.saturating_mul(4), index, value });
    }
    let (len, bytes) = encoding.block();
    let mut out = Vec::with_capacity(values.len() / len * bytes);
    let halves = "numbers whose f16 is finite";
    let half = |value: f32| {
        let half = f16::from_f32(value);
        let too_large =
            EncodingError::Unholdable { encoding: encoding.name(), value, allowed: halves };
        if half.is_finite() { Ok(half) } else { Err(too_large) }
    };
    match encoding {
        FloatEncoding::F32 => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        FloatEncoding::F16 => {
            for value in values {
                out.extend(half(*value)?.to_le_bytes());
            }
        }
        FloatEncoding::Bf16 => {
            for &value in values {
                let stored = bf16::from_f32(value);
                if !stored.is_finite() {
                    let allowed = "numbers whose bf16 is finite";
                    let encoding = encoding.name();
                    return Err(EncodingError::Unholdable { encoding, value, allowed });
                }
                out.extend(stored.to_le_bytes());
            }
        }
        FloatEncoding::Q8_0 => {
            for block in values.as_chunks::<SMALL_BLOCK_LEN>().0 {
                let (scale, codes) = quantize_q8_0(block);
                out.extend(half(scale)?.to_le_bytes());
                out.extend(codes.map(|code| code as u8));
            }
        }
        FloatEncoding::Q4_0 => {
            for block in values.as_chunks::<SMALL_BLOCK_LEN>().0 {
                let (scale, codes) = quantize_q4_0(block);
                out.extend(half(scale)?.to_le_bytes());
                let (first, second) = codes.split_at(SMALL_BLOCK_LEN / 2);
                out.extend(first.iter().zip(second).map(|(first, second)| first | second << 4));
            }
        }
        FloatEncoding::Q6K => {
            for block in values.as_chunks::<{ q6_k::BLOCK_LEN }>().0 {
                out.extend(q6_k::encode(block, half)?);
            }
        }
    }
    Ok(out)
}

/// One over the scale, or 0 for a block of zeros.
fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

fn quantize_q8_0(block: &[f32; SMALL_BLOCK_LEN]) -> (f32, [i8; SMALL_BLOCK_LEN]) {
    let largest = block.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let scale = largest / 127.0;
    let inverse = inverse(scale);
    // `as` saturates, and half away from zero is what ggml's roundf does.
    (scale, block.map(|value| (value * inverse).round() as i8))
}

fn quantize_q4_0(block: &[f32; SMALL_BLOCK_LEN]) -> (f32, [u8; SMALL_BLOCK_LEN]) {
    // The value furthest from 0 becomes code 0, that is -8 times the scale: its sign is the scale's.
    let furthest =
        block.iter().fold(
            0.0_f32,
            |furthest, &value| {
                if value.abs() > furthest.abs() { value } else { furthest }
            },
        );
    let scale = furthest / -8.0;
    let inverse = inverse(scale);
    (scale, block.map(|value| ((value * inverse + 8.5) as u8).min(15)))
}
