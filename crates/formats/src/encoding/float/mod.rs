//! The float encodings: a table with one row for each.
//!
//! To add an encoding, describe it by a [`FloatCodec`] in a file of its own and list that file and its
//! constant here. Names, sizes, GGUF type numbers, the choices of `wf convert --head` and the tests
//! are read from the table.
//!
//! Numbers that are not finite are rejected in both directions: weights are finite.

mod blocks32;
mod iq4;
mod k_quants;
mod more_blocks32;
mod plain;
mod q6_k;

use std::fmt;
use std::str::FromStr;

use half::f16;

use super::error::EncodingError;

/// Number of values that [`decode_codes`] returns one scale for.
pub const CODES_PER_SCALE: usize = 16;

/// An arrangement of floats in a file.
#[derive(Clone, Copy)]
pub struct FloatEncoding(&'static FloatCodec);

impl FloatEncoding {
    /// Every encoding.
    pub const ALL: &'static [Self] = &[
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q8_0,
        Self::Q6_K,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q2_K,
        Self::Q3_K,
        Self::Q4_K,
        Self::Q5_K,
        Self::IQ4_NL,
        Self::IQ4_XS,
    ];

    /// Returns the usual name, which `.wf` files use too.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the name that `wf convert --head` and [`FromStr`] know it by.
    pub fn flag(self) -> &'static str {
        self.0.flag
    }

    /// Returns the number of its type in GGUF files.
    pub fn gguf_type(self) -> u32 {
        self.0.gguf_type
    }

    /// Returns the kind of numbers it stores.
    pub fn kind(self) -> FloatKind {
        self.0.kind
    }

    /// Returns `true` if it stores one number per value, without blocks.
    pub fn is_plain(self) -> bool {
        self.0.kind != FloatKind::Blocks
    }

    /// Returns `true` if [`decode_codes`] supports it.
    pub fn has_codes(self) -> bool {
        !matches!(self.0.decode, Decode::Values(_))
    }

    /// Returns `true` if groups of values have a minimum beside their scale.
    pub fn has_minima(self) -> bool {
        matches!(self.0.decode, Decode::CodesAndMinima(_))
    }

    /// Returns `true` if values can be encoded. Others are read, and copied as they are.
    pub fn is_writable(self) -> bool {
        self.0.encode.is_some()
    }

    /// Returns the number of values in a block; 1 for plain floats.
    pub fn block_len(self) -> usize {
        self.0.block_len
    }

    pub(crate) fn block_bytes(self) -> u64 {
        self.0.block_bytes as u64
    }

    /// Returns the largest rounding error of a value in a block of values up to `block_max`.
    pub fn max_error(self, value: f32, block_max: f32) -> f32 {
        (self.0.max_error)(value, block_max)
    }

    /// Returns `true` if an embedding in it visibly changes probabilities.
    pub fn is_coarse(self) -> bool {
        self.0.is_coarse
    }

    /// Returns the measured cost of an embedding in it, as published for BitNet-b1.58-2B-4T.
    pub fn cost(self) -> Option<&'static str> {
        self.0.cost
    }

    /// Returns the size in bytes of a row of `cols` values.
    pub fn row_size(self, cols: usize) -> Result<u64, EncodingError> {
        let (encoding, multiple) = (self.name(), self.0.block_len);
        if !cols.is_multiple_of(multiple) {
            let axis = "columns";
            return Err(EncodingError::Shape { encoding, axis, multiple, found: cols });
        }
        let too_large = EncodingError::TooLarge { encoding, rows: 1, cols };
        ((cols / multiple) as u64).checked_mul(self.0.block_bytes as u64).ok_or(too_large)
    }

    fn check_size(self, len: usize, cols: usize) -> Result<(), EncodingError> {
        EncodingError::check_size(self.name(), 1, cols, self.row_size(cols)?, len)
    }
}

impl fmt::Display for FloatEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for FloatEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FloatEncoding({self})")
    }
}

/// Names are unique, so they are compared in place of codecs.
impl PartialEq for FloatEncoding {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for FloatEncoding {}

impl FromStr for FloatEncoding {
    type Err = String;

    /// Parses the [`flag`](Self::flag) of an encoding, in any case.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|float| float.flag().eq_ignore_ascii_case(text));
        found.copied().ok_or_else(|| {
            let flags: Vec<&str> = Self::ALL.iter().map(|float| float.flag()).collect();
            format!("unknown type {text:?}, allowed are {}", flags.join(", "))
        })
    }
}

/// Decodes as many values as `out` holds, which must be those that `bytes` holds.
pub fn decode_floats(
    encoding: FloatEncoding,
    bytes: &[u8],
    out: &mut [f32],
) -> Result<(), EncodingError> {
    encoding.check_size(bytes.len(), out.len())?;
    let codec = encoding.0;
    match codec.decode {
        Decode::Values(decode) => decode(bytes, out),
        Decode::Codes(decode) => {
            let decode = |bytes: &[u8], codes: &mut [i8], scales: &mut [f32], _: &mut [f32]| {
                decode(bytes, codes, scales);
            };
            decode_by_codes(decode, codec, bytes, out);
        }
        Decode::CodesAndMinima(decode) => decode_by_codes(decode, codec, bytes, out),
    }
    let Some(index) = first_not_finite(out) else { return Ok(()) };
    let offset = index / codec.block_len * codec.block_bytes + codec.scale_offset;
    let value = out.get(index).copied().unwrap_or_default();
    Err(EncodingError::NotFinite { offset, index, value })
}

/// Decodes some blocks at a time to codes, multiplies them by their scales and subtracts their minima.
fn decode_by_codes(
    decode: impl Fn(&[u8], &mut [i8], &mut [f32], &mut [f32]),
    codec: &FloatCodec,
    bytes: &[u8],
    out: &mut [f32],
) {
    const LEN: usize = 1024;
    const GROUPS: usize = LEN / CODES_PER_SCALE;
    let (mut codes, mut scales, mut minima) = ([0; LEN], [0.0; GROUPS], [0.0; GROUPS]);
    let bytes_len = LEN / codec.block_len * codec.block_bytes;
    for (bytes, out) in bytes.chunks(bytes_len).zip(out.chunks_mut(LEN)) {
        decode(bytes, &mut codes, &mut scales, &mut minima);
        let groups = out.as_chunks_mut::<CODES_PER_SCALE>().0.iter_mut();
        let groups = groups.zip(codes.as_chunks::<CODES_PER_SCALE>().0);
        for ((out, codes), (scale, minimum)) in groups.zip(scales.iter().zip(minima)) {
            for (out, &code) in out.iter_mut().zip(codes) {
                *out = f32::from(code) * scale - minimum;
            }
        }
    }
}

/// Decodes one row of a block encoding into integers and a scale for every sixteen of them, followed by
/// as many minima if the encoding [has them](FloatEncoding::has_minima). A code times its scale, rounded
/// to f32, minus its minimum, is exactly the value that [`decode_floats`] returns.
///
/// # Errors
///
/// If `bytes` is not a row of as many values, or if the encoding has no codes.
pub fn decode_codes(
    encoding: FloatEncoding,
    bytes: &[u8],
    codes: &mut [i8],
    scales: &mut [f32],
) -> Result<(), EncodingError> {
    encoding.check_size(bytes.len(), codes.len())?;
    let groups = codes.len() / CODES_PER_SCALE;
    let expected = if encoding.has_minima() { 2 * groups } else { groups };
    if scales.len() != expected && encoding.has_codes() {
        return Err(EncodingError::Buffer { expected, found: scales.len() });
    }
    match encoding.0.decode {
        Decode::Values(_) => {
            return Err(EncodingError::Invalid(format!("{encoding} has no integer codes")));
        }
        Decode::Codes(decode) => decode(bytes, codes, scales),
        Decode::CodesAndMinima(decode) => {
            let (scales, minima) = scales.split_at_mut(groups);
            decode(bytes, codes, scales, minima);
        }
    }
    Ok(())
}

/// Encodes whole rows. Block encodings round as the reference code of ggml does, except that Q6_K has
/// its own search for scales.
pub fn encode_floats(encoding: FloatEncoding, values: &[f32]) -> Result<Vec<u8>, EncodingError> {
    encoding.row_size(values.len())?;
    if let Some(index) = first_not_finite(values) {
        let value = values.get(index).copied().unwrap_or_default();
        return Err(EncodingError::NotFinite { offset: index.saturating_mul(4), index, value });
    }
    let codec = encoding.0;
    let Some(encode) = codec.encode else {
        return Err(EncodingError::Invalid(format!("{encoding} can be read, but not written")));
    };
    let mut out = Vec::with_capacity(values.len() / codec.block_len * codec.block_bytes);
    encode(values, &mut out).map_err(|value| EncodingError::Unrepresentable {
        encoding: codec.name,
        value,
        allowed: codec.range,
    })?;
    Ok(out)
}

fn first_not_finite(values: &[f32]) -> Option<usize> {
    // A fold has no early exit, so it becomes vector code; the search runs only on bad files.
    let all_finite = values.iter().fold(true, |all, value| all & value.is_finite());
    if all_finite { None } else { values.iter().position(|value| !value.is_finite()) }
}

/// A float encoding: everything that other code knows about it.
pub(crate) struct FloatCodec {
    pub(crate) name: &'static str,
    /// Name in `wf convert --head`.
    pub(crate) flag: &'static str,
    pub(crate) gguf_type: u32,
    pub(crate) kind: FloatKind,
    /// Values in a block.
    pub(crate) block_len: usize,
    pub(crate) block_bytes: usize,
    /// Byte of a block at which a value that is not finite is reported.
    pub(crate) scale_offset: usize,
    pub(crate) decode: Decode,
    /// Appends whole blocks of finite values, or returns a value that is out of range; `None` if the
    /// encoding is only read.
    pub(crate) encode: Option<Encode>,
    /// The values that can be encoded, for messages.
    pub(crate) range: &'static str,
    /// Returns the largest rounding error of a value.
    pub(crate) max_error: fn(value: f32, block_max: f32) -> f32,
    pub(crate) is_coarse: bool,
    /// Measured cost of an embedding in this encoding.
    pub(crate) cost: Option<&'static str>,
}

impl FloatCodec {
    /// An encoding in blocks that is read and copied, but not written.
    const fn read_only(
        name: &'static str,
        flag: &'static str,
        gguf_type: u32,
        (block_len, block_bytes): (usize, usize),
        scale_offset: usize,
        decode: Decode,
    ) -> Self {
        Self {
            name,
            flag,
            gguf_type,
            kind: FloatKind::Blocks,
            block_len,
            block_bytes,
            scale_offset,
            decode,
            encode: None,
            range: F16_RANGE,
            // Nothing is rounded to it.
            max_error: |_, _| 0.0,
            is_coarse: false,
            cost: None,
        }
    }
}

type DecodeCodesAndMinima =
    fn(bytes: &[u8], codes: &mut [i8], scales: &mut [f32], minima: &mut [f32]);
type Encode = fn(&[f32], &mut Vec<u8>) -> Result<(), f32>;

/// Decodes whole blocks.
pub(crate) enum Decode {
    /// Into values.
    Values(fn(&[u8], &mut [f32])),
    /// Into codes and scales, which models compute with: see [`decode_codes`](decode_codes).
    Codes(fn(bytes: &[u8], codes: &mut [i8], scales: &mut [f32])),
    /// Into codes, scales and minima.
    CodesAndMinima(DecodeCodesAndMinima),
}

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

const F16_RANGE: &str = "numbers whose f16 is finite";

/// Rounds to f16, or returns the value if it is out of range.
fn to_f16(value: f32) -> Result<f16, f32> {
    let half = f16::from_f32(value);
    if half.is_finite() { Ok(half) } else { Err(value) }
}

/// Returns 1 / scale, or 0 for a block of zeros.
fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// Returns the value with the largest magnitude, the first of equal ones, or 0.
fn furthest_from_zero(values: &[f32]) -> f32 {
    let further = |a: f32, b: f32| if b.abs() > a.abs() { b } else { a };
    values.iter().copied().fold(0.0, further)
}

fn decode_blocks<const BYTES: usize, const LEN: usize, const SCALES: usize>(
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

/// As [`decode_blocks`], for encodings with minima.
fn decode_blocks_with_minima<const BYTES: usize, const LEN: usize, const GROUPS: usize>(
    bytes: &[u8],
    codes: &mut [i8],
    scales: &mut [f32],
    minima: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [i8; LEN], &mut [f32; GROUPS], &mut [f32; GROUPS]),
) {
    let codes = codes.as_chunks_mut::<LEN>().0.iter_mut();
    let factors = scales.as_chunks_mut::<GROUPS>().0.iter_mut();
    let factors = factors.zip(minima.as_chunks_mut::<GROUPS>().0);
    for (block, (codes, (scales, minima))) in
        bytes.as_chunks::<BYTES>().0.iter().zip(codes.zip(factors))
    {
        decode(block, codes, scales, minima);
    }
}

/// Returns the f16 at byte `at`, or 0 past the end.
fn f16_at(block: &[u8], at: usize) -> f32 {
    let bytes = block.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0.0, |bytes| f16::from_le_bytes(*bytes).to_f32())
}
