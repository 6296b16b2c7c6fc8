//! How numbers lie in a file: every float and ternary encoding, to plain numbers and back.
//!
//! Pure functions over bytes: no files, no names, no threads. Nothing in here trusts a byte, so any
//! bytes of any length give numbers or an [`EncodingError`], never a panic.
//!
//! A ternary matrix is `rows` x `cols` trits in row-major order plus one or more scales; a weight is
//! its trit times the scale that covers it. [`decode_trits`] and [`decode_scales`] read the two parts,
//! [`encode_trits`] writes both. Decoding is strict: a code that no encoder writes (code 3, a byte that
//! is no base-3 number) means a damaged file or the wrong encoding, and is refused with its place.

#![deny(clippy::indexing_slicing)]

mod absmean;
mod base3;
mod codes;
mod error;
mod fields;
mod floats;
mod iq_bn;
mod q2_0;
mod q6_k;
mod quad_lines;
mod scales;
mod stacked;
mod ternary;
mod tl;
mod tq;

pub use absmean::{AbsMean, AbsMeanScale};
pub use codes::{CODES_PER_SCALE, decode_codes};
pub use error::EncodingError;
pub use floats::{FloatEncoding, decode_floats, encode_floats};
pub use scales::{Rounding, ScaleUnit, TritScales, decode_scales};
pub use ternary::{I2sOrder, TernaryEncoding, decode_trits, encode_trits};
pub use tl::Tiles;

#[cfg(test)]
mod tests;
