//! One row of the table of ternary encodings, and the geometry that rows are described with.
//!
//! Most encodings are a list of equal *bundles*. A bundle holds one row of the matrix, or several
//! that are packed together: an optional head, then equal blocks of columns. After the last bundle
//! there may be a tail. StoredScales lie in the heads, in the blocks, in the tail, or outside the tensor.

use super::scales::StoredScales;
use super::tl::Tiles;
use crate::encoding::error::EncodingError;

/// A ternary encoding: everything that other code knows about it.
pub(crate) struct Codec {
    /// Usual name, shared by the variants of an encoding.
    pub(crate) name: &'static str,
    /// Unique name, including the variant.
    pub(crate) label: &'static str,
    /// Name in `wf convert --encoding`; `None` if it cannot be chosen there.
    pub(crate) flag: Option<&'static str>,
    /// Its type in GGUF files; `None` if GGUF has none.
    pub(crate) gguf: Option<GgufType>,
    /// Name in the header of a `.wf` file; `None` if such files cannot hold it.
    pub(crate) wf_name: Option<&'static str>,
    pub(crate) layout: Layout,
    /// Returns the position of the trit in row `r`, column `c`: a second definition, written from the
    /// documentation of the encoding, that tests compare the codec with.
    #[cfg(test)]
    pub(crate) position: Option<PositionOf>,
}

#[cfg(test)]
pub(crate) type PositionOf = fn(rows: usize, cols: usize, r: usize, c: usize) -> Position;

/// The type number of an encoding, and the project that defines it.
#[derive(Clone, Copy)]
pub(crate) struct GgufType {
    pub(crate) id: u32,
    pub(crate) project: Project,
}

/// Projects that define ternary types for GGUF: bitnet.cpp, llama.cpp and ik_llama.cpp.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Project {
    BitNet,
    Llama,
    IkLlama,
}

/// Arrangement of a matrix in bytes.
pub(crate) enum Layout {
    Bundles(Bundles),
    Tiled(Tiled),
}

/// A matrix as a list of bundles.
pub(crate) struct Bundles {
    /// Rows in a bundle.
    pub(crate) rows: usize,
    /// The rows of a bundle are a fraction of the matrix apart instead of adjacent.
    pub(crate) spread: bool,
    /// Bytes before the first block of a bundle.
    pub(crate) head_len: usize,
    /// Columns in a block.
    pub(crate) block_cols: usize,
    /// Bytes of a block.
    pub(crate) block_len: usize,
    /// Byte that fills incomplete blocks and bundles; `None` if the shape must be a multiple of them.
    pub(crate) padding: Option<u8>,
    /// Position of the scales; `None` if they are stored outside the tensor.
    pub(crate) scales: Option<StoredScales>,
    pub(crate) decode: DecodeRow,
    pub(crate) encode: EncodeRow,
}

/// Decodes one row, `lane` of its bundle, from the blocks of the bundle.
type DecodeRow = fn(blocks: &[u8], lane: usize, trits: &mut [i8]) -> Result<(), BadByte>;
/// Encodes one row of valid trits, `lane` of its bundle, into blocks that hold zeros or padding.
type EncodeRow = fn(trits: &[i8], lane: usize, blocks: &mut [u8]);

/// A matrix in tiles, whose sizes are not stored in the file. Such encodings are read only.
pub(crate) struct Tiled {
    /// Returns the bytes of a matrix.
    pub(crate) size: fn(tiles: Tiles, rows: usize, cols: usize) -> Result<u64, EncodingError>,
    pub(crate) decode: DecodeTiledRow,
}

/// Decodes one row of a matrix of `rows` rows.
type DecodeTiledRow = fn(
    tiles: Tiles,
    bytes: &[u8],
    rows: usize,
    row: usize,
    trits: &mut [i8],
) -> Result<(), BadByte>;

impl Bundles {
    /// Adjacent rows, one to a bundle, without head, padding or scales; the codec does nothing.
    pub(crate) const DEFAULT: Self = Self {
        rows: 1,
        spread: false,
        head_len: 0,
        block_cols: 1,
        block_len: 1,
        padding: None,
        scales: None,
        decode: |_, _, _| Ok(()),
        encode: |_, _, _| {},
    };

    /// Checks that the shape is a multiple of blocks and bundles, and returns the size of the tensor.
    pub(super) fn size(
        &self,
        name: &'static str,
        rows: usize,
        cols: usize,
    ) -> Result<u64, EncodingError> {
        let axes = [("columns", cols, self.block_cols), ("rows", rows, self.rows)];
        for (axis, found, multiple) in axes {
            if self.padding.is_none() && !found.is_multiple_of(multiple) {
                return Err(EncodingError::Shape { encoding: name, axis, multiple, found });
            }
        }
        if let Some(scales) = &self.scales {
            scales.check_columns(name, cols)?;
        }
        // In u128, where nothing below can wrap.
        let wide = |count: usize| count as u128;
        let blocks = wide(cols.div_ceil(self.block_cols)) * wide(self.block_len);
        let bundles = wide(rows.div_ceil(self.rows)) * (wide(self.head_len) + blocks);
        let tail = self.scales.as_ref().map_or(0, |scales| scales.tail_len(rows, cols));
        u64::try_from(bundles + tail)
            .ok()
            .filter(|&size| size <= isize::MAX as u64)
            .ok_or(EncodingError::TooLarge { encoding: name, rows, cols })
    }

    /// Bytes of a bundle. Like all below, for shapes that `size` has accepted.
    pub(super) fn bundle_len(&self, cols: usize) -> usize {
        self.head_len + cols.div_ceil(self.block_cols) * self.block_len
    }

    /// Bytes of all bundles.
    pub(super) fn len(&self, rows: usize, cols: usize) -> usize {
        rows.div_ceil(self.rows) * self.bundle_len(cols)
    }

    /// Byte range of the blocks that hold `row`, and the row's index within its bundle.
    pub(super) fn locate(
        &self,
        row: usize,
        rows: usize,
        cols: usize,
    ) -> (std::ops::Range<usize>, usize) {
        let bundles = rows / self.rows;
        let (bundle, lane) = if self.spread {
            (row % bundles, row / bundles)
        } else {
            (row / self.rows, row % self.rows)
        };
        let end = (bundle + 1) * self.bundle_len(cols);
        (bundle * self.bundle_len(cols) + self.head_len..end, lane)
    }
}

/// A byte that no encoder writes, and the column of its first trit.
#[derive(Debug, PartialEq)]
pub(crate) struct BadByte {
    /// Position, counted from the first byte that the decoder was given.
    pub(crate) offset: usize,
    pub(crate) col: usize,
    pub(crate) fault: Fault,
}

/// The reason why a byte is invalid.
#[derive(Debug, PartialEq)]
pub(crate) enum Fault {
    /// A two-bit code of 3.
    Code,
    /// A value that no base-3 number of `trits` digits is stored as.
    Base3 { value: u8, trits: usize },
    /// A value that stands for no pair or triple of trits.
    Tile { value: u8 },
}

impl BadByte {
    /// Moves the position by that of the part it was found in.
    pub(crate) fn shift(self, offset: usize, col: usize) -> Self {
        Self { offset: self.offset + offset, col: self.col + col, fault: self.fault }
    }

    pub(super) fn into_error(self, encoding: &'static str, row: usize) -> EncodingError {
        let Self { offset, col, fault } = self;
        match fault {
            Fault::Code => EncodingError::Code { offset, row, col, code: 3 },
            Fault::Base3 { value: byte, trits } => {
                EncodingError::Base3 { offset, row, col, byte, trits }
            }
            Fault::Tile { value: byte } => {
                EncodingError::TiledCode { encoding, offset, row, col, byte }
            }
        }
    }
}

/// Decodes a row block by block.
pub(super) fn decode_blocks<const LEN: usize, const COLS: usize>(
    blocks: &[u8],
    out: &mut [i8],
    decode: impl Fn(&[u8; LEN], &mut [i8; COLS]) -> Result<(), BadByte>,
) -> Result<(), BadByte> {
    let blocks = blocks.as_chunks::<LEN>().0.iter().zip(out.as_chunks_mut::<COLS>().0);
    for (at, (block, out)) in blocks.enumerate() {
        decode(block, out).map_err(|bad| bad.shift(at * LEN, at * COLS))?;
    }
    Ok(())
}

/// Encodes a row block by block.
pub(super) fn encode_blocks<const LEN: usize, const COLS: usize>(
    trits: &[i8],
    blocks: &mut [u8],
    encode: impl Fn(&[i8; COLS], &mut [u8; LEN]),
) {
    let blocks = blocks.as_chunks_mut::<LEN>().0.iter_mut().zip(trits.as_chunks::<COLS>().0);
    blocks.for_each(|(block, trits)| encode(trits, block));
}

/// Position of a trit.
#[cfg(test)]
pub(crate) enum Position {
    /// Two bits of a byte.
    Bits { byte: usize, shift: usize },
    /// A digit of a base-3 number, counted from the leading one of five.
    Digit { byte: usize, digit: usize },
}
