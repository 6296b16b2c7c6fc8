//! Errors of encodings.
//!
//! Offsets count from the first byte of the tensor. Callers add the names of file and tensor.

/// Invalid bytes, shapes or scales.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum EncodingError {
    /// An invalid argument; the message says which.
    #[error("{0}")]
    Invalid(String),
    /// The shape is not a multiple of the blocks of the encoding.
    #[error("{encoding} requires {axis} in multiples of {multiple}, found {found}")]
    Shape { encoding: &'static str, axis: &'static str, multiple: usize, found: usize },
    /// The size is larger than this machine can address.
    #[error("{rows} x {cols} in {encoding} is larger than this machine can address")]
    TooLarge { encoding: &'static str, rows: usize, cols: usize },
    /// A buffer does not have the right length.
    #[error("buffer has {found} values, {expected} are required")]
    Buffer { expected: usize, found: usize },
    /// A byte that no encoder writes.
    #[error(transparent)]
    Byte(#[from] BadByte),
    /// The encoding does not support these tiles.
    #[error("{encoding} does not support tiles of {rows} x {cols} with strips of {strip} rows")]
    Tiles { encoding: &'static str, rows: usize, cols: usize, strip: usize },
    /// A stored scale is negative or not finite.
    #[error("byte {offset}: found scale {value}, allowed are finite numbers from 0 up")]
    Scale { offset: usize, value: f32 },
    /// A value is not finite.
    #[error("byte {offset} (value {index}): found {value}, allowed are finite numbers")]
    NotFinite { offset: usize, index: usize, value: f32 },
    /// The number of scales does not match the rows or groups of the matrix.
    #[error("{found} scales for {expected} rows or groups")]
    ScaleCount { expected: usize, found: usize },
    /// The scales differ within a unit that the encoding stores one scale for.
    #[error(
        "{encoding} stores one scale per {unit}, but row {row} has {first} and {second} in one {unit}"
    )]
    ScaleUnit { encoding: &'static str, unit: &'static str, row: usize, first: f32, second: f32 },
    /// The scale would be rounded to f16.
    #[error("{encoding} stores scales as f16, which rounds {value} to {stored}")]
    ScaleRounded { encoding: &'static str, value: f32, stored: f32 },
    /// A scale or value is out of the range of the encoding.
    #[error("{encoding} cannot represent {value}, allowed are {allowed}")]
    Unrepresentable { encoding: &'static str, value: f32, allowed: &'static str },
}

impl EncodingError {
    /// Checks that a matrix takes `expected` bytes.
    pub(super) fn check_size(
        encoding: &str,
        rows: usize,
        cols: usize,
        expected: u64,
        found: usize,
    ) -> Result<(), Self> {
        if found as u64 == expected {
            return Ok(());
        }
        let what = format!("{encoding} of {rows} x {cols} takes {expected} bytes, found {found}");
        Err(Self::Invalid(what))
    }
}

/// A byte that no encoder writes, and the position of its first trit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("byte {offset} (row {row}, column {col}): found {fault}")]
#[expect(missing_docs, reason = "the message names the fields")]
pub struct BadByte {
    pub offset: usize,
    pub row: usize,
    pub col: usize,
    pub fault: Fault,
}

/// The reason why a byte is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum Fault {
    /// A two-bit code does not stand for a trit.
    #[error("code 3, allowed are 0, 1 and 2")]
    Code,
    /// A byte is not the encoding of five (or four) trits.
    #[error(
        "{byte:#04x}, allowed are the bytes that {trits} trits encode to (ceil(256 v / 243) of a \
         base-3 number v)"
    )]
    Base3 { byte: u8, trits: usize },
    /// A byte does not stand for pairs or triples of trits.
    #[error("{byte:#04x}, which is not a valid {encoding} byte")]
    Tile { encoding: &'static str, byte: u8 },
}

impl BadByte {
    /// Reports a position counted from the first byte and column that a decoder was given.
    pub(crate) const fn new(offset: usize, col: usize, fault: Fault) -> Self {
        Self { offset, row: 0, col, fault }
    }

    /// Moves the position by that of the part it was found in.
    pub(crate) fn shift(mut self, offset: usize, col: usize) -> Self {
        self.offset += offset;
        self.col += col;
        self
    }
}
