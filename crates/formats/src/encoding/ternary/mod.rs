//! The ternary encodings: a table with one row for each.
//!
//! To add an encoding, describe it by a [`Codec`] in `two_bits`, `base3` or a file of its own, and list
//! its constant here. Names, sizes, GGUF type numbers, the choices of `wf convert --encoding` and the
//! tests are read from the table.

mod base3;
mod codec;
mod fields;
mod scales;
mod tl;
mod two_bits;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use codec::{Codec, Layout, ScaleFloat};
use scales::write_scales;
use wf_core::Scales;

pub(crate) use codec::Project;
pub use codec::{ScaleUnit, Tiles};
pub(crate) use scales::check_groups;
pub use scales::{Rounding, check_scales, decode_scales};
pub use two_bits::I2sOrder;

use super::error::{BadByte, EncodingError};

/// An arrangement of trits and their scales in a file.
#[derive(Clone, Copy)]
pub struct TernaryEncoding {
    codec: &'static Codec,
    /// Zero except for TL1 and TL2.
    tiles: Tiles,
}

impl TernaryEncoding {
    /// Every encoding; those that GGUF files are written with in order of preference: exact scales
    /// before rounded ones, then by the number of programs that read them.
    pub const ALL: &'static [Self] = &[
        Self::I2_S,
        Self::I2_S_64,
        Self::I2_S_4ROW,
        Self::IQ2_BN,
        Self::TQ2_0,
        Self::TQ1_0,
        Self::Q2_0,
        Self::Q2_0_G128,
        Self::PQ2_0,
        Self::PTQ1_0,
        Self::Q1_0,
        Self::IQ1_BN,
        Self::IQ2_BN_R4,
        Self::TL1,
        Self::TL2,
        Self::HF_PACKED,
        Self::SGL_PACKED,
        Self::QUAD_LINES,
        Self::QUAD_LINES_ROW,
        Self::QUAD_LINES_64,
        Self::QUAD_LINES_128,
        Self::QUAD_LINES_256,
    ];

    const fn new(codec: &'static Codec) -> Self {
        Self { codec, tiles: Tiles { rows: 0, cols: 0, strip: 0 } }
    }

    /// Returns the usual name, without order, group length or tiles.
    pub fn name(self) -> &'static str {
        self.codec.name
    }

    /// Returns the name that `wf convert --encoding` and [`FromStr`] know it by.
    pub fn flag(self) -> Option<&'static str> {
        self.codec.flag
    }

    /// Returns the number of its type in GGUF files.
    pub fn gguf_type(self) -> Option<u32> {
        self.codec.gguf.map(|gguf| gguf.id)
    }

    /// Returns `true` if its GGUF type is defined by this project.
    pub(crate) fn is_of(self, project: Project) -> bool {
        self.codec.gguf.is_some_and(|gguf| gguf.project == project)
    }

    #[cfg(test)]
    pub(crate) fn label(self) -> &'static str {
        self.codec.label
    }

    /// Returns the name in the header of a `.wf` file.
    pub(crate) fn wf_name(self) -> Option<&'static str> {
        self.codec.wf_name
    }

    /// Returns the part of a matrix that shares one scale, or `None` if scales are stored elsewhere.
    pub fn scale_unit(self) -> Option<ScaleUnit> {
        self.stored_scales().map(|(_, scales)| scales.unit)
    }

    /// Returns `true` if it stores scales as f32.
    pub fn has_exact_scales(self) -> bool {
        self.stored_scales().is_some_and(|(_, scales)| scales.float == ScaleFloat::F32)
    }

    /// Returns `false` if it stores -1 and 1 only, and 0 only for whole groups.
    pub fn has_zero(self) -> bool {
        self.codec.has_zero
    }

    /// Returns `true` if it can be encoded.
    pub fn is_writable(self) -> bool {
        matches!(self.codec.layout, Layout::Bundles(_))
    }

    /// Returns the size in bytes of a matrix, including scales and padding.
    pub fn size(self, rows: usize, cols: usize) -> Result<u64, EncodingError> {
        let encoding = self.name();
        if rows == 0 || cols == 0 {
            let what = "requires at least one row and one column";
            return Err(EncodingError::Invalid(format!(
                "{encoding} {what}, found {rows} x {cols}"
            )));
        }
        // Trits are decoded to a byte each, and slices cannot be longer than this.
        if rows.checked_mul(cols).is_none_or(|trits| trits > isize::MAX as usize) {
            return Err(EncodingError::TooLarge { encoding, rows, cols });
        }
        match &self.codec.layout {
            Layout::Bundles(bundles) => bundles.size(encoding, rows, cols),
            Layout::Tiled(tiled) => (tiled.size)(self.tiles, rows, cols),
        }
    }

    /// Checks that a matrix takes `len` bytes.
    fn check_size(self, len: usize, rows: usize, cols: usize) -> Result<(), EncodingError> {
        EncodingError::check_size(self.name(), rows, cols, self.size(rows, cols)?, len)
    }
}

impl fmt::Display for TernaryEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.codec.label)?;
        match self.codec.layout {
            Layout::Bundles(_) => Ok(()),
            Layout::Tiled(_) => write!(f, " tiles of {} x {}", self.tiles.rows, self.tiles.cols),
        }
    }
}

impl fmt::Debug for TernaryEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TernaryEncoding({self})")
    }
}

/// Labels are unique, so they are compared in place of codecs.
impl PartialEq for TernaryEncoding {
    fn eq(&self, other: &Self) -> bool {
        self.codec.label == other.codec.label && self.tiles == other.tiles
    }
}

impl Eq for TernaryEncoding {}

impl FromStr for TernaryEncoding {
    type Err = String;

    /// Parses the [`flag`](Self::flag) of an encoding, in any case.
    fn from_str(text: &str) -> Result<Self, String> {
        let flags = Self::ALL.iter().filter_map(|&encoding| Some((encoding.flag()?, encoding)));
        let found = flags.clone().find(|(flag, _)| flag.eq_ignore_ascii_case(text));
        found.map(|(_, encoding)| encoding).ok_or_else(|| {
            let flags: Vec<&str> = flags.map(|(flag, _)| flag).collect();
            format!("unknown encoding {text:?}, allowed are {}", flags.join(", "))
        })
    }
}

/// Decodes some rows of a matrix. `bytes` is the whole tensor; `out` has `cols` trits for each row.
pub fn decode_trits(
    encoding: TernaryEncoding,
    bytes: &[u8],
    rows_total: usize,
    cols: usize,
    rows: Range<usize>,
    out: &mut [i8],
) -> Result<(), EncodingError> {
    encoding.check_size(bytes.len(), rows_total, cols)?;
    check_rows(rows_total, cols, &rows, out.len())?;
    for (row, out) in rows.zip(out.chunks_exact_mut(cols)) {
        let decoded = match &encoding.codec.layout {
            Layout::Tiled(tiled) => (tiled.decode)(encoding.tiles, bytes, rows_total, row, out),
            Layout::Bundles(bundles) => {
                let (range, lane) = bundles.locate(row, rows_total, cols);
                let start = range.start;
                let blocks = bytes.get(range).unwrap_or_default();
                (bundles.packing.decode)(blocks, lane, out).map_err(|bad| bad.shift(start, 0))
            }
        };
        decoded.map_err(|bad| BadByte { row, ..bad })?;
    }
    Ok(())
}

/// Checks that a matrix has these rows, and that a buffer has their size.
pub(crate) fn check_rows(
    rows_total: usize,
    cols: usize,
    rows: &Range<usize>,
    buffer: usize,
) -> Result<(), EncodingError> {
    let &Range { start, end } = rows;
    if start > end || end > rows_total {
        let what =
            format!("rows {start}..{end} are out of range for a matrix of {rows_total} rows");
        return Err(EncodingError::Invalid(what));
    }
    let expected = rows.len().saturating_mul(cols);
    if buffer == expected { Ok(()) } else { Err(EncodingError::Buffer { expected, found: buffer }) }
}

/// Encodes a whole matrix with its scales.
///
/// # Errors
///
/// If the shape does not fit the encoding, if it stores fewer scales than differ, or if a scale is out
/// of range; with [`Rounding::Exact`] also if a scale would be rounded. An encoding without
/// scales still accepts only one for the tensor, because that is what is stored beside it.
pub fn encode_trits(
    encoding: TernaryEncoding,
    trits: &[i8],
    rows: usize,
    cols: usize,
    scales: &Scales,
    rounding: Rounding,
) -> Result<Vec<u8>, EncodingError> {
    let size = encoding.size(rows, cols)?;
    let Layout::Bundles(bundles) = &encoding.codec.layout else {
        let why = "its files depend on tables that they do not contain";
        return Err(EncodingError::Invalid(format!(
            "{} cannot be written: {why}",
            encoding.name()
        )));
    };
    // `size` has proved that rows * cols fits.
    let expected = rows * cols;
    if trits.len() != expected {
        return Err(EncodingError::Buffer { expected, found: trits.len() });
    }
    if let Some(at) = trits.iter().position(|trit| !(-1..=1).contains(trit)) {
        let found = trits.get(at).copied().unwrap_or_default();
        let (row, col) = (at / cols, at % cols);
        let what = format!("row {row}, column {col}: found trit {found}, allowed are -1, 0 and 1");
        return Err(EncodingError::Invalid(what));
    }
    if !encoding.has_zero() {
        check_signs(encoding, trits, cols)?;
    }
    let too_large = |_| EncodingError::TooLarge { encoding: encoding.name(), rows, cols };
    let len = usize::try_from(size).map_err(too_large)?;
    let mut bytes = vec![bundles.padding.unwrap_or(0); len];
    for (row, trits) in trits.chunks_exact(cols).enumerate() {
        let (range, lane) = bundles.locate(row, rows, cols);
        (bundles.packing.encode)(trits, lane, bytes.get_mut(range).unwrap_or_default());
    }
    write_scales(encoding, scales, rounding, trits, rows, cols, &mut bytes)?;
    Ok(bytes)
}

/// Checks that no trit is 0, except in groups of nothing else.
fn check_signs(encoding: TernaryEncoding, trits: &[i8], cols: usize) -> Result<(), EncodingError> {
    let Some(ScaleUnit::Group(len)) = encoding.scale_unit() else { return Ok(()) };
    for (group, trits) in trits.chunks(len).enumerate() {
        let zero = trits.iter().position(|trit| *trit == 0);
        let Some(at) = zero.filter(|_| trits.iter().any(|trit| *trit != 0)) else { continue };
        let (row, col) = ((group * len + at) / cols, (group * len + at) % cols);
        let what =
            format!("{} stores -1 and 1 only, but row {row}, column {col} is 0", encoding.name());
        return Err(EncodingError::Invalid(what));
    }
    Ok(())
}
