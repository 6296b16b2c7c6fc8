//! One row of the table of ternary encodings, and the geometry that rows are described with.
//!
//! Most encodings are a list of equal *bundles*. A bundle holds one row of the matrix, or several
//! that are packed together: an optional head, then equal blocks of columns. After the last bundle
//! there may be a tail. Scales lie in the heads, in the blocks, in the tail, or outside the tensor.

use std::ops::Range;

use crate::encoding::error::{BadByte, EncodingError};

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
    /// `false` if it stores signs only: -1 and 1.
    pub(crate) has_zero: bool,
    pub(crate) layout: Layout,
}

impl Codec {
    /// An encoding that is its only variant, and that no file format has a name for.
    pub(super) const fn new(name: &'static str, layout: Layout) -> Self {
        let (flag, gguf, wf_name, has_zero) = (None, None, None, true);
        Self { name, label: name, flag, gguf, wf_name, has_zero, layout }
    }
}

/// The type number of an encoding, and the project that defines it.
#[derive(Clone, Copy)]
pub(crate) struct GgufType {
    pub(crate) id: u32,
    pub(crate) project: Project,
}

/// Projects that define ternary types for GGUF: bitnet.cpp, llama.cpp, ik_llama.cpp and PrismML's fork of
/// llama.cpp.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Project {
    BitNet,
    Llama,
    IkLlama,
    Prism,
}

impl Project {
    pub(super) const fn gguf(self, id: u32) -> Option<GgufType> {
        Some(GgufType { id, project: self })
    }
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
    pub(crate) block_cols: usize,
    pub(crate) block_len: usize,
    /// Byte that fills incomplete blocks and bundles; `None` if the shape must be a multiple of them.
    pub(crate) padding: Option<u8>,
    /// Position of the scales; `None` if they are stored outside the tensor.
    pub(crate) scales: Option<StoredScales>,
    pub(crate) packing: Packing,
}

/// The trits of one row, which is `lane` of its bundle, in the blocks of the bundle.
pub(crate) struct Packing {
    pub(crate) decode: DecodeRow,
    /// Encodes valid trits into blocks that hold zeros or padding.
    pub(crate) encode: fn(trits: &[i8], lane: usize, blocks: &mut [u8]),
}

type DecodeRow = fn(blocks: &[u8], lane: usize, trits: &mut [i8]) -> Result<(), BadByte>;

/// A matrix in tiles, whose sizes are not stored in the file. Such encodings are read only.
pub(crate) struct Tiled {
    /// Returns the bytes of a matrix.
    pub(crate) size: fn(tiles: Tiles, rows: usize, cols: usize) -> Result<u64, EncodingError>,
    pub(crate) decode: DecodeTiledRow,
}

type DecodeTiledRow = fn(
    tiles: Tiles,
    bytes: &[u8],
    rows: usize,
    row: usize,
    trits: &mut [i8],
) -> Result<(), BadByte>;

/// Sizes of the tiles that a matrix is divided into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiles {
    /// Rows of a tile (`bm` of a `kernel_config.ini`).
    pub rows: usize,
    /// Columns of a tile (`bk`).
    pub cols: usize,
    /// Rows of a strip (`bmm`).
    pub strip: usize,
}

impl Bundles {
    /// Blocks of `cols` columns in `len` bytes, one row to a bundle, without head, padding or scales.
    pub(super) const fn blocks(cols: usize, len: usize, packing: Packing) -> Self {
        Self {
            rows: 1,
            spread: false,
            head_len: 0,
            block_cols: cols,
            block_len: len,
            padding: None,
            scales: None,
            packing,
        }
    }

    /// Checks that the shape is a multiple of blocks and bundles, and returns the size of the tensor.
    pub(super) fn size(
        &self,
        encoding: &'static str,
        rows: usize,
        cols: usize,
    ) -> Result<u64, EncodingError> {
        let (block_cols, block_rows) =
            if self.padding.is_none() { (self.block_cols, self.rows) } else { (1, 1) };
        check_multiple(encoding, "columns", cols, block_cols)?;
        check_multiple(encoding, "rows", rows, block_rows)?;
        if let Some(StoredScales { unit: ScaleUnit::Group(len), .. }) = self.scales {
            check_multiple(encoding, "columns", cols, len)?;
        }
        // In u128, where nothing below can wrap.
        let wide = |count: usize| count as u128;
        let blocks = wide(cols.div_ceil(self.block_cols)) * wide(self.block_len);
        let bundles = wide(rows.div_ceil(self.rows)) * (wide(self.head_len) + blocks);
        let tail = match &self.scales {
            Some(StoredScales { unit, float, at: ScalesAt::Tail(min) }) => {
                (wide(unit.count(rows, cols)) * wide(float.len())).max(wide(*min))
            }
            _ => 0,
        };
        u64::try_from(bundles + tail)
            .ok()
            .filter(|&size| size <= isize::MAX as u64)
            .ok_or(EncodingError::TooLarge { encoding, rows, cols })
    }

    /// Bytes of a bundle. Like all below, for shapes that `size` has accepted.
    fn bundle_len(&self, cols: usize) -> usize {
        self.head_len + cols.div_ceil(self.block_cols) * self.block_len
    }

    /// Bytes of all bundles.
    pub(super) fn len(&self, rows: usize, cols: usize) -> usize {
        rows.div_ceil(self.rows) * self.bundle_len(cols)
    }

    /// Byte range of the blocks that hold `row`, and the row's index within its bundle.
    pub(super) fn locate(&self, row: usize, rows: usize, cols: usize) -> (Range<usize>, usize) {
        let bundles = rows / self.rows;
        let (bundle, lane) = if self.spread {
            (row % bundles, row / bundles)
        } else {
            (row / self.rows, row % self.rows)
        };
        let end = (bundle + 1) * self.bundle_len(cols);
        (bundle * self.bundle_len(cols) + self.head_len..end, lane)
    }

    pub(super) fn scale_offset(
        &self,
        stored: &StoredScales,
        index: usize,
        rows: usize,
        cols: usize,
    ) -> usize {
        let len = stored.float.len();
        match stored.at {
            ScalesAt::Head => index / self.rows * self.bundle_len(cols) + index % self.rows * len,
            ScalesAt::Block(at) => {
                let blocks = cols / self.block_cols;
                let (row, block) = (index / blocks, index % blocks);
                row * self.bundle_len(cols) + self.head_len + block * self.block_len + at
            }
            ScalesAt::Tail(_) => self.len(rows, cols) + index * len,
        }
    }
}

/// Checks that a shape is a multiple of its parts.
pub(super) fn check_multiple(
    encoding: &'static str,
    axis: &'static str,
    found: usize,
    multiple: usize,
) -> Result<(), EncodingError> {
    if found.is_multiple_of(multiple) {
        return Ok(());
    }
    Err(EncodingError::Shape { encoding, axis, multiple, found })
}

/// The part of a matrix that shares one scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaleUnit {
    /// The whole matrix.
    Tensor,
    /// One row.
    Row,
    /// A number of adjacent columns of one row.
    Group(usize),
}

impl ScaleUnit {
    pub(super) fn count(self, rows: usize, cols: usize) -> usize {
        match self {
            Self::Tensor => 1,
            Self::Row => rows,
            Self::Group(len) => rows * (cols / len),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Row => "row",
            Self::Group(_) => "group",
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct StoredScales {
    pub(crate) unit: ScaleUnit,
    pub(crate) float: ScaleFloat,
    pub(crate) at: ScalesAt,
}

impl StoredScales {
    /// An f16 at this byte of each block.
    pub(super) const fn in_blocks(cols: usize, at: usize) -> Option<Self> {
        let (unit, float) = (ScaleUnit::Group(cols), ScaleFloat::F16);
        Some(Self { unit, float, at: ScalesAt::Block(at) })
    }

    /// One a row, in the heads of bundles.
    pub(super) const fn in_heads(float: ScaleFloat) -> Option<Self> {
        Some(Self { unit: ScaleUnit::Row, float, at: ScalesAt::Head })
    }

    /// As f32 after the last bundle, in at least `min` bytes.
    pub(super) const fn in_tail(unit: ScaleUnit, min: usize) -> Option<Self> {
        Some(Self { unit, float: ScaleFloat::F32, at: ScalesAt::Tail(min) })
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ScaleFloat {
    F16,
    F32,
}

impl ScaleFloat {
    fn len(self) -> usize {
        if self == Self::F32 { 4 } else { 2 }
    }
}

/// Position of the scales.
#[derive(Clone, Copy)]
pub(crate) enum ScalesAt {
    /// In the head of each bundle, one for each of its rows.
    Head,
    /// In each block, at this byte of it; a block belongs to one row.
    Block(usize),
    /// After the last bundle, in at least this many bytes.
    Tail(usize),
}

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

pub(super) fn encode_blocks<const LEN: usize, const COLS: usize>(
    trits: &[i8],
    blocks: &mut [u8],
    encode: impl Fn(&[i8; COLS], &mut [u8; LEN]),
) {
    let blocks = blocks.as_chunks_mut::<LEN>().0.iter_mut().zip(trits.as_chunks::<COLS>().0);
    blocks.for_each(|(block, trits)| encode(trits, block));
}
