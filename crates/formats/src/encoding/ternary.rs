//! The ternary encodings, their sizes, and trits out of bytes and back.
//!
//! Whatever the encoding, a tensor is a list of equal *bundles*, each holding one row (or four that
//! are packed together), and perhaps a tail. This file finds the bundle of a row; the files beside it
//! know what a bundle looks like inside. Scales are next door, in `scales`.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::base3::BadByte;
use super::error::EncodingError;
use super::fields::{self, BadCode, HIGH_FIRST, LOW_FIRST};
use super::scales::{Rounding, ScaleUnit, TritScales, write_scales};
use super::tl::{self, BadTile, Tiles};
use super::{iq_bn, q2_0, quad_lines, stacked, tq};

/// In which order I2_S has its trits. The file does not say; it depends on the program that wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum I2sOrder {
    /// 128 trits in 32 bytes: the published files, and what x86 builds write.
    #[default]
    Groups128,
    /// 64 trits in 16 bytes: files quantized on Arm.
    Groups64,
    /// The same column of four neighbouring rows in a byte: x86 builds without `ACT_PARALLEL`.
    FourRows,
}

impl fmt::Display for I2sOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Groups128 => "128",
            Self::Groups64 => "64",
            Self::FourRows => "4row",
        })
    }
}

impl FromStr for I2sOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "128" => Ok(Self::Groups128),
            "64" => Ok(Self::Groups64),
            "4row" => Ok(Self::FourRows),
            _ => Err(format!("unknown I2_S order {text:?}, allowed are 128, 64 and 4row")),
        }
    }
}

/// How trits lie in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TernaryEncoding {
    /// BitNet's own: two bits a trit, one f32 scale a tensor.
    I2s(I2sOrder),
    /// llama.cpp: five trits a byte, one f16 scale per 256 trits.
    Tq1_0,
    /// llama.cpp: two bits a trit, one f16 scale per 256 trits.
    Tq2_0,
    /// llama.cpp (groups of 64) and a fork of it (groups of 128): two bits a trit in plain order, one
    /// f16 scale a group.
    Q2_0 {
        /// Trits under one scale: 64 or 128.
        group_len: usize,
    },
    /// ik_llama.cpp: two bits a trit, one f32 scale a row.
    Iq2Bn,
    /// ik_llama.cpp: five trits a byte, one f16 scale a row.
    Iq1Bn,
    /// `Iq2Bn` with four rows interleaved.
    Iq2BnR4,
    /// Hugging Face's `bitnet` checkpoints: u8 of [rows / 4, columns], the scale in a tensor beside it.
    HfPacked,
    /// SGLBITNT: u8 of [rows, columns / 4] in I2_S order 128, the scale in the tensor's header.
    SglPacked,
    /// bitnet.cpp on Arm: pairs of trits in tiles, the scale in a tensor beside it. Read, not written.
    Tl1(Tiles),
    /// bitnet.cpp on x86: triples of trits in tiles, the scale in a tensor beside it. Read, not written.
    Tl2(Tiles),
    /// Our own file: two bits a trit in the order of our kernels, scales as f32 after them.
    QuadLines(ScaleUnit),
}

impl fmt::Display for TernaryEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::I2s(order) => write!(f, "I2_S order {order}"),
            Self::Q2_0 { group_len } => write!(f, "Q2_0 groups of {group_len}"),
            Self::QuadLines(ScaleUnit::Row) => f.write_str("quad lines, a scale a row"),
            Self::QuadLines(ScaleUnit::Group(len)) => write!(f, "quad lines groups of {len}"),
            Self::Tl1(tiles) | Self::Tl2(tiles) => {
                write!(f, "{} tiles of {} x {}", self.name(), tiles.rows, tiles.cols)
            }
            _ => f.write_str(self.name()),
        }
    }
}

/// How a matrix is cut into bundles.
struct Bundles {
    /// Rows that share a bundle.
    rows: usize,
    /// Bytes of a bundle.
    bytes: usize,
    /// What the columns must be a multiple of.
    col_multiple: usize,
}

/// Bytes after the last bundle of I2_S: the f32 scale, then padding that nobody reads.
const I2S_TAIL: u64 = 32;

impl TernaryEncoding {
    /// The encoding's usual name, without its order or group length.
    pub fn name(self) -> &'static str {
        match self {
            Self::I2s(_) => "I2_S",
            Self::Tq1_0 => "TQ1_0",
            Self::Tq2_0 => "TQ2_0",
            Self::Q2_0 { .. } => "Q2_0",
            Self::Iq2Bn => "IQ2_BN",
            Self::Iq1Bn => "IQ1_BN",
            Self::Iq2BnR4 => "IQ2_BN_R4",
            Self::HfPacked => "HF packed",
            Self::SglPacked => "SGLBITNT packed",
            Self::Tl1(_) => "TL1",
            Self::Tl2(_) => "TL2",
            Self::QuadLines(_) => "quad lines",
        }
    }

    /// Bytes of a matrix, with everything the encoding adds to the trits.
    pub fn size(self, rows: usize, cols: usize) -> Result<u64, EncodingError> {
        let encoding = self.name();
        if rows == 0 || cols == 0 {
            return Err(EncodingError::Empty { encoding, rows, cols });
        }
        let addressable = rows.checked_mul(cols).is_some_and(|trits| trits <= isize::MAX as usize);
        match self {
            Self::Tl1(tiles) if addressable => return tiles.tl1_size(rows, cols),
            Self::Tl2(tiles) if addressable => return tiles.tl2_size(rows, cols),
            Self::QuadLines(unit) => return quad_lines::size(unit, rows, cols),
            _ => {}
        }
        let bundles = self.bundles(cols)?;
        for (axis, found, multiple) in
            [("columns", cols, bundles.col_multiple), ("rows", rows, bundles.rows)]
        {
            if !found.is_multiple_of(multiple) {
                return Err(EncodingError::Shape { encoding, axis, multiple, found });
            }
        }
        let tail = if matches!(self, Self::I2s(_)) { I2S_TAIL } else { 0 };
        ((rows / bundles.rows) as u64)
            .checked_mul(bundles.bytes as u64)
            .and_then(|bytes| bytes.checked_add(tail))
            // Trits are decoded to a byte each, and slices cannot be longer than this.
            .filter(|_| addressable)
            .ok_or(EncodingError::TooLarge { encoding, rows, cols })
    }

    /// How `cols` columns are bundled. Dividing first keeps every number below `2 * cols + 16`.
    fn bundles(self, cols: usize) -> Result<Bundles, EncodingError> {
        let plain = |col_multiple, bytes| Bundles { rows: 1, bytes, col_multiple };
        let head = |head: usize, bytes: usize| head.saturating_add(bytes);
        Ok(match self {
            Self::I2s(I2sOrder::Groups128) | Self::SglPacked => plain(128, cols / 4),
            Self::I2s(I2sOrder::Groups64) => plain(64, cols / 4),
            Self::I2s(I2sOrder::FourRows) | Self::HfPacked => {
                Bundles { rows: stacked::ROWS, bytes: cols, col_multiple: 1 }
            }
            Self::Tq1_0 => plain(tq::GROUP_LEN, cols / tq::GROUP_LEN * tq::TQ1_GROUP_BYTES),
            Self::Tq2_0 => plain(tq::GROUP_LEN, cols / tq::GROUP_LEN * tq::TQ2_GROUP_BYTES),
            Self::Q2_0 { group_len: group_len @ (64 | 128) } => {
                plain(group_len, cols / group_len * q2_0::group_bytes(group_len))
            }
            Self::Q2_0 { group_len: found } => {
                let (encoding, allowed) = (self.name(), "64 or 128");
                return Err(EncodingError::GroupLen { encoding, allowed, found });
            }
            Self::Iq2Bn => plain(iq_bn::RUN_LEN, head(4, cols / 4)),
            Self::Iq1Bn => {
                plain(iq_bn::RUN_LEN, head(2, cols / iq_bn::RUN_LEN * iq_bn::IQ1_RUN_BYTES))
            }
            // The last one may have rows of padding.
            Self::QuadLines(_) => Bundles {
                rows: quad_lines::STRIP_ROWS,
                bytes: quad_lines::strip_bytes(cols),
                col_multiple: 1,
            },
            // They have no bundles; what is larger than any matrix is refused with these.
            Self::Tl1(_) | Self::Tl2(_) => plain(1, cols / 4),
            Self::Iq2BnR4 => Bundles {
                rows: iq_bn::R4_ROWS,
                bytes: head(16, cols),
                col_multiple: iq_bn::RUN_LEN,
            },
        })
    }

    /// Bytes from one bundle to the next; the shape has passed `size`.
    pub(super) fn bundle_bytes(self, cols: usize) -> Result<usize, EncodingError> {
        self.bundles(cols).map(|bundles| bundles.bytes)
    }

    /// How many of the bytes come before the scales, where those come last.
    pub fn trit_bytes(self, rows: usize, cols: usize) -> Option<usize> {
        match self {
            Self::QuadLines(_) => Some(quad_lines::lines_bytes(rows, cols)),
            _ => None,
        }
    }

    /// Quad lines that hold scales like these: groups that kernels do not know are said with
    /// shorter ones.
    pub(crate) fn quad_lines_for(scales: &TritScales) -> Self {
        Self::QuadLines(match scales {
            TritScales::Tensor(_) => ScaleUnit::Tensor,
            TritScales::Rows(_) => ScaleUnit::Row,
            TritScales::Groups { len, .. } => {
                ScaleUnit::Group(quad_lines::group_len(*len).unwrap_or(*len))
            }
        })
    }

    /// Which bundle a row lies in.
    fn bundle_of(self, row: usize, rows: usize) -> usize {
        match self {
            Self::HfPacked => stacked::quartered(row, rows).packed_row,
            Self::I2s(I2sOrder::FourRows) => stacked::neighbours(row).packed_row,
            Self::Iq2BnR4 => row / iq_bn::R4_ROWS,
            Self::QuadLines(_) => row / quad_lines::STRIP_ROWS,
            _ => row,
        }
    }

    /// Checks that `len` bytes are what the shape takes.
    pub(super) fn check_size(
        self,
        len: usize,
        rows: usize,
        cols: usize,
    ) -> Result<(), EncodingError> {
        let expected = self.size(rows, cols)?;
        if len as u64 == expected {
            return Ok(());
        }
        Err(EncodingError::Size { encoding: self.name(), rows, cols, expected, found: len })
    }
}

/// Decodes some rows of a matrix. `bytes` is the whole tensor, `out` has `cols` places for each row
/// asked for.
pub fn decode_trits(
    encoding: TernaryEncoding,
    bytes: &[u8],
    rows_total: usize,
    cols: usize,
    rows: Range<usize>,
    out: &mut [i8],
) -> Result<(), EncodingError> {
    encoding.check_size(bytes.len(), rows_total, cols)?;
    if rows.start > rows.end || rows.end > rows_total {
        let Range { start, end } = rows;
        return Err(EncodingError::Rows { start, end, rows: rows_total });
    }
    // `size` has proved that rows * cols fits.
    let expected = rows.len() * cols;
    if out.len() != expected {
        return Err(EncodingError::Buffer { expected, found: out.len() });
    }
    if let TernaryEncoding::Tl1(tiles) | TernaryEncoding::Tl2(tiles) = encoding {
        for (row, out) in rows.zip(out.chunks_exact_mut(cols)) {
            let decoded = match encoding {
                TernaryEncoding::Tl1(_) => tl::decode_row_1(tiles, bytes, row, out),
                _ => tl::decode_row_2(tiles, bytes, rows_total, row, out),
            };
            decoded.map_err(|BadTile { byte: offset, col, value: byte }| {
                EncodingError::TiledCode { encoding: encoding.name(), offset, row, col, byte }
            })?;
        }
        return Ok(());
    }
    let bundle_bytes = encoding.bundle_bytes(cols)?;
    for (row, out) in rows.zip(out.chunks_exact_mut(cols)) {
        let start = encoding.bundle_of(row, rows_total) * bundle_bytes;
        let bundle = bytes.get(start..start + bundle_bytes).unwrap_or_default();
        decode_row(encoding, bundle, row, rows_total, out).map_err(|bad| bad.at(row, start))?;
    }
    Ok(())
}

/// What a row decoder found, placed within the bundle.
enum Bad {
    Code(BadCode),
    Base3(BadByte),
}

impl Bad {
    fn at(self, row: usize, start: usize) -> EncodingError {
        match self {
            Self::Code(BadCode { byte, col }) => {
                EncodingError::Code { offset: start + byte, row, col, code: 3 }
            }
            Self::Base3(BadByte { byte, col, value, trits }) => {
                EncodingError::Base3 { offset: start + byte, row, col, byte: value, trits }
            }
        }
    }
}

fn decode_row(
    encoding: TernaryEncoding,
    bundle: &[u8],
    row: usize,
    rows: usize,
    out: &mut [i8],
) -> Result<(), Bad> {
    let after =
        |head: usize| move |bad: BadCode| Bad::Code(BadCode { byte: head + bad.byte, ..bad });
    match encoding {
        TernaryEncoding::I2s(I2sOrder::Groups128) | TernaryEncoding::SglPacked => {
            fields::unpack::<32, HIGH_FIRST>(bundle, out).map_err(Bad::Code)
        }
        TernaryEncoding::I2s(I2sOrder::Groups64) => {
            fields::unpack::<16, HIGH_FIRST>(bundle, out).map_err(Bad::Code)
        }
        TernaryEncoding::I2s(I2sOrder::FourRows) => {
            stacked::decode_row(bundle, stacked::neighbours(row).shift, out).map_err(Bad::Code)
        }
        TernaryEncoding::HfPacked => {
            stacked::decode_row(bundle, stacked::quartered(row, rows).shift, out).map_err(Bad::Code)
        }
        TernaryEncoding::Tq1_0 => tq::decode_row_1(bundle, out).map_err(Bad::Base3),
        TernaryEncoding::Tq2_0 => tq::decode_row_2(bundle, out).map_err(Bad::Code),
        TernaryEncoding::Q2_0 { group_len } => {
            q2_0::decode_row(bundle, group_len, out).map_err(Bad::Code)
        }
        TernaryEncoding::Iq2Bn => {
            fields::unpack::<16, LOW_FIRST>(bundle.get(4..).unwrap_or_default(), out)
                .map_err(after(4))
        }
        TernaryEncoding::Iq1Bn => {
            let packed = bundle.get(2..).unwrap_or_default();
            iq_bn::decode_row_1(packed, out)
                .map_err(|bad| Bad::Base3(BadByte { byte: 2 + bad.byte, ..bad }))
        }
        TernaryEncoding::QuadLines(_) => {
            quad_lines::decode_row(bundle, row % quad_lines::STRIP_ROWS, out).map_err(Bad::Code)
        }
        // Decoded as a whole, not by bundles.
        TernaryEncoding::Tl1(_) | TernaryEncoding::Tl2(_) => Ok(()),
        TernaryEncoding::Iq2BnR4 => {
            let packed = bundle.get(16..).unwrap_or_default();
            iq_bn::decode_row_r4(packed, row % iq_bn::R4_ROWS, out).map_err(after(16))
        }
    }
}

/// Encodes a whole matrix with its scales.
///
/// Refuses scales that the encoding has no room for, and with [`Rounding::Exact`] also those that
/// would change when stored. Encodings that carry no scale still refuse more than one, since what lies
/// beside them is one number a tensor.
pub fn encode_trits(
    encoding: TernaryEncoding,
    trits: &[i8],
    rows: usize,
    cols: usize,
    scales: &TritScales,
    rounding: Rounding,
) -> Result<Vec<u8>, EncodingError> {
    let size = encoding.size(rows, cols)?;
    if let TernaryEncoding::Tl1(_) | TernaryEncoding::Tl2(_) = encoding {
        return Err(EncodingError::ReadOnly { encoding: encoding.name() });
    }
    // `size` has proved that rows * cols fits.
    let expected = rows * cols;
    if trits.len() != expected {
        return Err(EncodingError::Buffer { expected, found: trits.len() });
    }
    if let Some(at) = trits.iter().position(|trit| !(-1..=1).contains(trit)) {
        let found = trits.get(at).copied().unwrap_or_default();
        return Err(EncodingError::Trit { row: at / cols, col: at % cols, found });
    }
    let too_large = |_| EncodingError::TooLarge { encoding: encoding.name(), rows, cols };
    // Other encodings have no padding.
    let padding =
        if let TernaryEncoding::QuadLines(_) = encoding { quad_lines::ZERO_TRITS } else { 0 };
    let mut bytes = vec![padding; usize::try_from(size).map_err(too_large)?];
    let bundle_bytes = encoding.bundle_bytes(cols)?;
    for (row, trits) in trits.chunks_exact(cols).enumerate() {
        let start = encoding.bundle_of(row, rows) * bundle_bytes;
        let bundle = bytes.get_mut(start..start + bundle_bytes).unwrap_or_default();
        encode_row(encoding, trits, row, rows, bundle);
    }
    write_scales(encoding, scales, rounding, trits, rows, cols, &mut bytes)?;
    Ok(bytes)
}

fn encode_row(encoding: TernaryEncoding, trits: &[i8], row: usize, rows: usize, bundle: &mut [u8]) {
    match encoding {
        TernaryEncoding::I2s(I2sOrder::Groups128) | TernaryEncoding::SglPacked => {
            fields::pack::<32, HIGH_FIRST>(trits, bundle);
        }
        TernaryEncoding::I2s(I2sOrder::Groups64) => fields::pack::<16, HIGH_FIRST>(trits, bundle),
        TernaryEncoding::I2s(I2sOrder::FourRows) => {
            stacked::encode_row(trits, stacked::neighbours(row).shift, bundle);
        }
        TernaryEncoding::HfPacked => {
            stacked::encode_row(trits, stacked::quartered(row, rows).shift, bundle);
        }
        TernaryEncoding::Tq1_0 => tq::encode_row_1(trits, bundle),
        TernaryEncoding::Tq2_0 => tq::encode_row_2(trits, bundle),
        TernaryEncoding::Q2_0 { group_len } => q2_0::encode_row(trits, group_len, bundle),
        TernaryEncoding::Iq2Bn => {
            fields::pack::<16, LOW_FIRST>(trits, bundle.get_mut(4..).unwrap_or_default());
        }
        TernaryEncoding::Iq1Bn => {
            iq_bn::encode_row_1(trits, bundle.get_mut(2..).unwrap_or_default());
        }
        TernaryEncoding::QuadLines(_) => {
            quad_lines::encode_row(trits, row % quad_lines::STRIP_ROWS, bundle);
        }
        // Refused before.
        TernaryEncoding::Tl1(_) | TernaryEncoding::Tl2(_) => {}
        TernaryEncoding::Iq2BnR4 => {
            let packed = bundle.get_mut(16..).unwrap_or_default();
            iq_bn::encode_row_r4(trits, row % iq_bn::R4_ROWS, packed);
        }
    }
}
