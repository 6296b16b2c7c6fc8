//! Errors of encodings.
//!
//! Offsets count from the first byte of the tensor. Callers add the names of file and tensor.

/// Invalid bytes, shapes or scales.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum EncodingError {
    /// The shape is not a multiple of the blocks of the encoding.
    #[error("{encoding} requires {axis} in multiples of {multiple}, found {found}")]
    Shape { encoding: &'static str, axis: &'static str, multiple: usize, found: usize },
    /// A matrix without rows or columns.
    #[error("{encoding} requires at least one row and one column, found {rows} x {cols}")]
    Empty { encoding: &'static str, rows: usize, cols: usize },
    /// The encoding does not support this group length.
    #[error("{encoding} supports groups of {allowed}, found {found}")]
    GroupLen { encoding: &'static str, allowed: &'static str, found: usize },
    /// The size is larger than this machine can address.
    #[error("{rows} x {cols} in {encoding} is larger than this machine can address")]
    TooLarge { encoding: &'static str, rows: usize, cols: usize },
    /// The bytes do not have the size of the shape.
    #[error("{encoding} of {rows} x {cols} takes {expected} bytes, found {found}")]
    Size { encoding: &'static str, rows: usize, cols: usize, expected: u64, found: usize },
    /// The matrix does not have these rows.
    #[error("rows {start}..{end} are out of range for a matrix of {rows} rows")]
    Rows { start: usize, end: usize, rows: usize },
    /// A buffer does not have the right length.
    #[error("buffer has {found} values, {expected} are required")]
    Buffer { expected: usize, found: usize },
    /// A two-bit code does not stand for a trit.
    #[error("byte {offset} (row {row}, column {col}): found code {code}, allowed are 0, 1 and 2")]
    Code { offset: usize, row: usize, col: usize, code: u8 },
    /// A byte is not the encoding of five (or four) trits.
    #[error(
        "byte {offset} (row {row}, column {col}): found {byte:#04x}, allowed are the bytes that \
         {trits} trits encode to (ceil(256 v / 243) of a base-3 number v)"
    )]
    Base3 { offset: usize, row: usize, col: usize, byte: u8, trits: usize },
    /// A byte does not stand for pairs or triples of trits.
    #[error(
        "byte {offset} (row {row}, column {col}): found {byte:#04x}, which is not a valid {encoding} byte"
    )]
    TiledCode { encoding: &'static str, offset: usize, row: usize, col: usize, byte: u8 },
    /// The encoding does not support these tiles.
    #[error("{encoding} does not support tiles of {rows} x {cols} with strips of {strip} rows")]
    Tiles { encoding: &'static str, rows: usize, cols: usize, strip: usize },
    /// The encoding cannot be written.
    #[error("{encoding} cannot be written: its files depend on tables that they do not contain")]
    ReadOnly { encoding: &'static str },
    /// A stored scale is negative or not finite.
    #[error("byte {offset}: found scale {value}, allowed are finite numbers from 0 up")]
    Scale { offset: usize, value: f32 },
    /// A value is not finite.
    #[error("byte {offset} (value {index}): found {value}, allowed are finite numbers")]
    NotFinite { offset: usize, index: usize, value: f32 },
    /// The encoding does not store scales.
    #[error("{encoding} stores no scales in the tensor")]
    NoScale { encoding: &'static str },
    /// The encoding has no integer codes.
    #[error("{encoding} has no integer codes")]
    NoCodes { encoding: &'static str },
    /// A trit to encode is not −1, 0 or 1.
    #[error("row {row}, column {col}: found trit {found}, allowed are -1, 0 and 1")]
    Trit { row: usize, col: usize, found: i8 },
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
