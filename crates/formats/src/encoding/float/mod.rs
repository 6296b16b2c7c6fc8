//! The float encodings: a table with one row for each.
//!
//! To add an encoding, describe it by a [`FloatCodec`] in a file of its own and list that file and its
//! constant here. Names, sizes, GGUF type numbers, the choices of `wf convert --head` and the tests
//! are read from the table.
//!
//! Numbers that are not finite are rejected in both directions: weights are finite.

mod bf16;
mod codec;
mod f16;
mod f32;
mod q4_0;
mod q6_k;
mod q8_0;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use codec::FloatCodec;

pub use codec::FloatKind;

use super::error::EncodingError;

/// Number of values that [`decode_codes`] returns one scale for.
pub const CODES_PER_SCALE: usize = 16;

/// An arrangement of floats in a file.
#[derive(Clone, Copy)]
pub struct FloatEncoding(&'static FloatCodec);

impl FloatEncoding {
    /// Every encoding.
    pub const ALL: &'static [Self] =
        &[Self::F32, Self::F16, Self::BF16, Self::Q8_0, Self::Q6_K, Self::Q4_0];

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
        self.0.decode_codes.is_some()
    }

    /// Returns the number of values in a block; 1 for plain floats.
    pub fn block_len(self) -> usize {
        self.0.block_len
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
        let expected = self.row_size(cols)?;
        if len as u64 == expected {
            return Ok(());
        }
        Err(EncodingError::Size { encoding: self.name(), rows: 1, cols, expected, found: len })
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

impl Hash for FloatEncoding {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

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
    (codec.decode)(bytes, out);
    let Some(index) = first_not_finite(out) else { return Ok(()) };
    let offset = index / codec.block_len * codec.block_bytes + codec.scale_offset;
    let value = out.get(index).copied().unwrap_or_default();
    Err(EncodingError::NotFinite { offset, index, value })
}

/// Decodes one row of a block encoding into integers and a scale for every sixteen of them. A code
/// times its scale, rounded to f32, is exactly the value that [`decode_floats`] returns.
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
    let expected = codes.len() / CODES_PER_SCALE;
    match encoding.0.decode_codes {
        Some(decode) if scales.len() == expected => {
            decode(bytes, codes, scales);
            Ok(())
        }
        Some(_) => Err(EncodingError::Buffer { expected, found: scales.len() }),
        None => Err(EncodingError::NoCodes { encoding: encoding.name() }),
    }
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
    let mut out = Vec::with_capacity(values.len() / codec.block_len * codec.block_bytes);
    (codec.encode)(values, &mut out).map_err(|value| EncodingError::Unrepresentable {
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
