//! Arrangements of numbers in a file: every float and ternary encoding, decoded and encoded.
//!
//! Each encoding is a row of a table, in a file of its own: see [`TernaryEncoding::ALL`] and
//! [`FloatEncoding::ALL`]. The functions are pure: no files, no threads. They trust no byte, so any
//! bytes of any length give numbers or an [`EncodingError`], never a panic.
//!
//! A ternary matrix is `rows` x `cols` trits in row-major order plus one or more scales; a weight is
//! its trit times its scale. [`decode_trits`] and [`decode_scales`] read the two parts, [`encode_trits`]
//! writes both. Decoding is strict: a code that no encoder writes (code 3, a byte that is no base-3
//! number) means a damaged file or the wrong encoding, and is an error.

#![deny(clippy::indexing_slicing)]

pub(crate) mod absmean;
mod error;
mod float;
mod ternary;

pub use error::{BadByte, EncodingError, Fault};
pub use float::{
    CODES_PER_SCALE, FloatEncoding, FloatKind, decode_codes, decode_floats, encode_floats,
};
pub use ternary::{
    I2sOrder, Rounding, ScaleUnit, TernaryEncoding, Tiles, check_scales, decode_scales,
    decode_trits, encode_trits,
};
pub(crate) use ternary::{Project, check_rows};

pub use wf_core::Scales;

#[cfg(test)]
mod tests;
