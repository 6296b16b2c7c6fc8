//! Why bytes are not what their encoding says.
//!
//! Offsets count from the first byte of the tensor. Whoever knows the file and the tensor's name adds
//! them; here neither is known.

/// What is wrong with the bytes, the shape or the scales handed to a codec.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodingError {
    /// The encoding packs rows or columns in bundles that do not divide this shape.
    #[error("{encoding} needs {axis} in multiples of {multiple}, this has {found}")]
    Shape {
        /// Name of the encoding.
        encoding: &'static str,
        /// `rows` or `columns`.
        axis: &'static str,
        /// What the axis must be a multiple of.
        multiple: usize,
        /// Length of the axis.
        found: usize,
    },
    /// A matrix without rows or columns.
    #[error("{encoding} needs at least one row and one column, this is {rows} x {cols}")]
    Empty {
        /// Name of the encoding.
        encoding: &'static str,
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
    },
    /// A group length the encoding does not come in.
    #[error("{encoding} comes in groups of {allowed}, not {found}")]
    GroupLen {
        /// Name of the encoding.
        encoding: &'static str,
        /// The lengths it does come in.
        allowed: &'static str,
        /// The group length asked for.
        found: usize,
    },
    /// The shape's size in bytes is beyond 64 bits or this machine's memory.
    #[error("{rows} x {cols} in {encoding} is larger than this machine can address")]
    TooLarge {
        /// Name of the encoding.
        encoding: &'static str,
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
    },
    /// The bytes do not have the length the shape asks for.
    #[error("{encoding} of {rows} x {cols} takes {expected} bytes, this has {found}")]
    Size {
        /// Name of the encoding.
        encoding: &'static str,
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
        /// Bytes the shape takes.
        expected: u64,
        /// Bytes given.
        found: usize,
    },
    /// Rows were asked for that the matrix does not have.
    #[error("rows {start}..{end} asked of a matrix with {rows} rows")]
    Rows {
        /// First row asked for.
        start: usize,
        /// One past the last row asked for.
        end: usize,
        /// Rows of the matrix.
        rows: usize,
    },
    /// The caller's buffer does not match the rows or values it is for.
    #[error("a buffer of {found} values given where {expected} are needed")]
    Buffer {
        /// Values needed.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// A two-bit code that is no trit.
    #[error("byte {offset} (row {row}, column {col}): found code {code}, allowed are 0, 1 and 2")]
    Code {
        /// Byte within the tensor.
        offset: usize,
        /// Row of the trit.
        row: usize,
        /// Column of the trit.
        col: usize,
        /// The code found.
        code: u8,
    },
    /// A byte that no five (or four) trits encode to.
    #[error(
        "byte {offset} (row {row}, column {col}): found {byte:#04x}, allowed are the bytes that \
         {trits} trits encode to (ceil(256 v / 243) of a base-3 number v)"
    )]
    Base3 {
        /// Byte within the tensor.
        offset: usize,
        /// Row of the byte's trits.
        row: usize,
        /// Column of the byte's first trit.
        col: usize,
        /// The byte found.
        byte: u8,
        /// How many trits such a byte holds.
        trits: usize,
    },
    /// A byte that holds no pair or triple of trits.
    #[error(
        "byte {offset} (row {row}, column {col}): found {byte:#04x}, which no {encoding} byte is"
    )]
    TiledCode {
        /// Name of the encoding.
        encoding: &'static str,
        /// Byte within the tensor.
        offset: usize,
        /// Row of the byte's trits.
        row: usize,
        /// Column of the byte's first trit.
        col: usize,
        /// The byte found.
        byte: u8,
    },
    /// Tiles that the encoding cannot be cut into.
    #[error("{encoding} cannot have tiles of {rows} x {cols} with strips of {strip} rows")]
    Tiles {
        /// Name of the encoding.
        encoding: &'static str,
        /// Rows of a tile.
        rows: usize,
        /// Columns of a tile.
        cols: usize,
        /// Rows of a strip.
        strip: usize,
    },
    /// An encoding that is read and not written.
    #[error(
        "{encoding} is not written: files of it mean nothing without tables that are not in them"
    )]
    ReadOnly {
        /// Name of the encoding.
        encoding: &'static str,
    },
    /// A scale that cannot be one.
    #[error("byte {offset}: found scale {value}, allowed are finite numbers from 0 up")]
    Scale {
        /// Byte within the tensor.
        offset: usize,
        /// The scale found.
        value: f32,
    },
    /// A weight that is not a finite number.
    #[error("byte {offset} (value {index}): found {value}, allowed are finite numbers")]
    NotFinite {
        /// Byte within the given bytes.
        offset: usize,
        /// Which value.
        index: usize,
        /// The value found.
        value: f32,
    },
    /// The encoding has no room for scales.
    #[error("{encoding} carries no scale in its bytes, it lies elsewhere in the file")]
    NoScale {
        /// Name of the encoding.
        encoding: &'static str,
    },
    /// A trit to encode is none.
    #[error("row {row}, column {col}: found trit {found}, allowed are -1, 0 and 1")]
    Trit {
        /// Row of the trit.
        row: usize,
        /// Column of the trit.
        col: usize,
        /// The value found.
        found: i8,
    },
    /// There are not as many scales as the matrix has rows or groups.
    #[error("{found} scales given for {expected} rows or groups")]
    ScaleCount {
        /// Scales needed.
        expected: usize,
        /// Scales given.
        found: usize,
    },
    /// The scales differ where the encoding has room for one.
    #[error(
        "{encoding} holds one scale per {unit}, row {row} has {first} and {second} within one {unit}"
    )]
    ScaleUnit {
        /// Name of the encoding.
        encoding: &'static str,
        /// `tensor`, `row` or `group`.
        unit: &'static str,
        /// Row at which the second scale was met.
        row: usize,
        /// The first scale.
        first: f32,
        /// The one that differs.
        second: f32,
    },
    /// The scale would change when stored as f16.
    #[error("{encoding} stores scales as f16: {value} would become {stored}")]
    ScaleRounded {
        /// Name of the encoding.
        encoding: &'static str,
        /// The scale given.
        value: f32,
        /// What the file would hold.
        stored: f32,
    },
    /// A scale or value to encode is beyond what the encoding can hold.
    #[error("{encoding} cannot hold {value}, allowed are {allowed}")]
    Unholdable {
        /// Name of the encoding.
        encoding: &'static str,
        /// The number given.
        value: f32,
        /// Which numbers can be held.
        allowed: &'static str,
    },
}
