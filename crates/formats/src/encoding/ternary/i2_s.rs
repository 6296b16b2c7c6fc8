//! I2_S (BitNet's fork of llama.cpp): two bits a trit, high bits first, one f32 scale a tensor.
//!
//! ```text
//! order 128   field f of byte j of 32 bytes is trit 32 f + j of 128
//! order 64    field f of byte j of 16 bytes is trit 16 f + j of 64
//! order 4row  field f of a byte is row 4 r + f of one column
//! ```
//!
//! After the trits come 32 bytes: the scale, then padding that is not read.

use std::fmt;
use std::str::FromStr;

use super::TernaryEncoding;
#[cfg(test)]
use super::codec::Position;
use super::codec::{Bundles, Codec, GgufType, Layout, Project};
use super::fields::{HIGH_FIRST, pack, unpack};
use super::scales::{ScaleFloat, ScaleUnit, ScalesAt, StoredScales};
use super::stacked;

/// The order of trits in I2_S. It depends on the program that wrote a file, and the file does not
/// store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum I2sOrder {
    /// 128 trits in 32 bytes: the published files, and those written by x86 builds.
    #[default]
    Groups128,
    /// 64 trits in 16 bytes: files quantized on Arm.
    Groups64,
    /// The same column of four adjacent rows in a byte: x86 builds without `ACT_PARALLEL`.
    FourRows,
}

impl I2sOrder {
    const ALL: [(Self, &'static str, TernaryEncoding); 3] = [
        (Self::Groups128, "128", TernaryEncoding::I2_S),
        (Self::Groups64, "64", TernaryEncoding::I2_S_64),
        (Self::FourRows, "4row", TernaryEncoding::I2_S_4ROW),
    ];

    /// Returns the encoding with this order.
    pub fn encoding(self) -> TernaryEncoding {
        let found = Self::ALL.iter().find(|(order, ..)| *order == self);
        found.map_or(TernaryEncoding::I2_S, |(.., encoding)| *encoding)
    }
}

impl fmt::Display for I2sOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.iter().find(|(order, ..)| order == self);
        f.write_str(found.map_or("", |(_, name, _)| name))
    }
}

impl FromStr for I2sOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name, _)| *name == text);
        found
            .map(|(order, ..)| *order)
            .ok_or_else(|| format!("unknown I2_S order {text:?}, allowed are 128, 64 and 4row"))
    }
}

const GGUF: GgufType = GgufType { id: 36, project: Project::BitNet };

const SCALES: StoredScales =
    StoredScales { unit: ScaleUnit::Tensor, float: ScaleFloat::F32, at: ScalesAt::Tail(32) };

impl TernaryEncoding {
    /// BitNet's own encoding, in the order of the published files.
    pub const I2_S: Self = Self::new(&Codec {
        name: "I2_S",
        label: "I2_S order 128",
        flag: Some("i2_s"),
        gguf: Some(GGUF),
        wf_name: None,
        layout: Layout::Bundles(Bundles {
            block_cols: 128,
            block_len: 32,
            scales: Some(SCALES),
            decode: |packed, _, out| unpack::<32, HIGH_FIRST>(packed, out),
            encode: |trits, _, packed| pack::<32, HIGH_FIRST>(trits, packed),
            ..Bundles::DEFAULT
        }),
        #[cfg(test)]
        position: Some(|_, cols, r, c| {
            let flat = r * cols + c;
            let byte = flat / 128 * 32 + flat % 32;
            Position::Bits { byte, shift: 6 - flat % 128 / 32 * 2 }
        }),
    });

    /// I2_S as it is quantized on Arm.
    pub const I2_S_64: Self = Self::new(&Codec {
        name: "I2_S",
        label: "I2_S order 64",
        flag: None,
        gguf: Some(GGUF),
        wf_name: None,
        layout: Layout::Bundles(Bundles {
            block_cols: 64,
            block_len: 16,
            scales: Some(SCALES),
            decode: |packed, _, out| unpack::<16, HIGH_FIRST>(packed, out),
            encode: |trits, _, packed| pack::<16, HIGH_FIRST>(trits, packed),
            ..Bundles::DEFAULT
        }),
        #[cfg(test)]
        position: Some(|_, cols, r, c| {
            let flat = r * cols + c;
            let byte = flat / 64 * 16 + flat % 16;
            Position::Bits { byte, shift: 6 - flat % 64 / 16 * 2 }
        }),
    });

    /// I2_S with four adjacent rows in a byte.
    pub const I2_S_4ROW: Self = Self::new(&Codec {
        name: "I2_S",
        label: "I2_S order 4row",
        flag: None,
        gguf: Some(GGUF),
        wf_name: None,
        layout: Layout::Bundles(Bundles {
            rows: stacked::ROWS,
            scales: Some(SCALES),
            decode: |packed, lane, out| stacked::decode_row(packed, 6 - 2 * lane, out),
            encode: |trits, lane, packed| stacked::encode_row(trits, 6 - 2 * lane, packed),
            ..Bundles::DEFAULT
        }),
        #[cfg(test)]
        position: Some(|_, cols, r, c| Position::Bits {
            byte: r / 4 * cols + c,
            shift: 6 - r % 4 * 2,
        }),
    });

    /// Returns the order of an I2_S encoding.
    pub fn i2s_order(self) -> Option<I2sOrder> {
        I2sOrder::ALL.iter().find(|(.., encoding)| *encoding == self).map(|(order, ..)| *order)
    }
}
