//! One row of the table of float encodings, and what several rows share.

use half::f16;

/// A float encoding: everything that other code knows about it.
pub(crate) struct FloatCodec {
    pub(crate) name: &'static str,
    /// Name in `wf convert --head`.
    pub(crate) flag: &'static str,
    pub(crate) gguf_type: u32,
    pub(crate) kind: FloatKind,
    /// Values in a block.
    pub(crate) block_len: usize,
    /// Bytes of a block.
    pub(crate) block_bytes: usize,
    /// Byte of a block at which a value that is not finite is reported.
    pub(crate) scale_offset: usize,
    /// Decodes whole blocks.
    pub(crate) decode: fn(&[u8], &mut [f32]),
    /// `None` for plain floats; blocks need it, because models compute with codes.
    pub(crate) decode_codes: Option<DecodeCodes>,
    /// Appends whole blocks of finite values, or returns a value that is out of range.
    pub(crate) encode: fn(&[f32], &mut Vec<u8>) -> Result<(), f32>,
    /// The values that can be encoded, for messages.
    pub(crate) range: &'static str,
    /// Returns the largest rounding error of a value.
    pub(crate) max_error: fn(value: f32, block_max: f32) -> f32,
    pub(crate) is_coarse: bool,
    /// Measured cost of an embedding in this encoding.
    pub(crate) cost: Option<&'static str>,
}

/// Decodes whole blocks into codes and scales: see [`decode_codes`](super::decode_codes).
type DecodeCodes = fn(bytes: &[u8], codes: &mut [i8], scales: &mut [f32]);

/// The kind of numbers that an encoding stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatKind {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of single precision.
    Bf16,
    /// Blocks of small integers with scales.
    Blocks,
}

pub(super) const F16_RANGE: &str = "numbers whose f16 is finite";

/// Rounds to f16, or returns the value if it is out of range.
pub(super) fn to_f16(value: f32) -> Result<f16, f32> {
    let half = f16::from_f32(value);
    if half.is_finite() { Ok(half) } else { Err(value) }
}

/// Returns 1 / scale, or 0 for a block of zeros.
pub(super) fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// Returns the value with the largest magnitude, the first of equal ones, or 0.
pub(super) fn furthest_from_zero(values: &[f32]) -> f32 {
    let further = |a: f32, b: f32| if b.abs() > a.abs() { b } else { a };
    values.iter().copied().fold(0.0, further)
}

/// Decodes block by block.
pub(super) fn decode_blocks<const BYTES: usize, const LEN: usize>(
    bytes: &[u8],
    out: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [f32; LEN]),
) {
    let blocks = bytes.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<LEN>().0);
    blocks.for_each(|(block, out)| decode(block, out));
}

/// Decodes codes and scales block by block.
pub(super) fn decode_code_blocks<const BYTES: usize, const LEN: usize, const SCALES: usize>(
    bytes: &[u8],
    codes: &mut [i8],
    scales: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [i8; LEN], &mut [f32; SCALES]),
) {
    let outs = codes.as_chunks_mut::<LEN>().0.iter_mut().zip(scales.as_chunks_mut::<SCALES>().0);
    for (block, (codes, scales)) in bytes.as_chunks::<BYTES>().0.iter().zip(outs) {
        decode(block, codes, scales);
    }
}
