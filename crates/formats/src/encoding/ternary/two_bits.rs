//! The encodings with two bits a trit, or one a sign: rows of the table that differ in numbers only.

use std::fmt;
use std::str::FromStr;

use wf_core::Scales;

use super::TernaryEncoding;
use super::codec::{Bundles, Codec, Layout, Packing, Project, ScaleFloat, ScaleUnit, StoredScales};
use super::fields::{HIGH_FIRST, LOW_FIRST, quads, runs, runs_in_blocks, signs_in_blocks, stacked};
use crate::encoding::error::EncodingError;

impl TernaryEncoding {
    /// BitNet's own encoding, in the order of the published files.
    pub const I2_S: Self = Self::new(&i2_s(
        "I2_S order 128",
        Some("i2_s"),
        Bundles::blocks(128, 32, runs::<32, HIGH_FIRST>()),
    ));

    /// I2_S as it is quantized on Arm.
    pub const I2_S_64: Self =
        Self::new(&i2_s("I2_S order 64", None, Bundles::blocks(64, 16, runs::<16, HIGH_FIRST>())));

    /// I2_S with four adjacent rows in a byte.
    pub const I2_S_4ROW: Self =
        Self::new(&i2_s("I2_S order 4row", None, four_rows(stacked::<HIGH_FIRST>())));

    /// llama.cpp: two bits a trit, one f16 scale per 256 trits, after them.
    pub const TQ2_0: Self = Self::new(&Codec {
        flag: Some("tq2_0"),
        gguf: Project::Llama.gguf(35),
        ..in_bundles(
            "TQ2_0",
            Bundles {
                scales: StoredScales::in_blocks(256, 64),
                ..Bundles::blocks(256, 66, runs_in_blocks::<32, 66, 256, 0>())
            },
        )
    });

    /// llama.cpp: two bits a trit in plain order, one f16 scale per 64 trits, before them.
    ///
    /// Code 3 stands for +2, which a ternary model does not have: it is rejected as elsewhere.
    pub const Q2_0: Self =
        Self::new(&q2_0("Q2_0 groups of 64", "q2_0", 64, runs_in_blocks::<1, 18, 64, 2>()));

    /// Q2_0 with one scale per 128 trits, as in PrismML's fork under the same type number.
    pub const Q2_0_G128: Self =
        Self::new(&q2_0("Q2_0 groups of 128", "q2_0_g128", 128, runs_in_blocks::<1, 34, 128, 2>()));

    /// PrismML's fork: Q2_0 in groups of 128 under a number of its own.
    pub const PQ2_0: Self = Self::new(&Codec {
        name: "PQ2_0",
        gguf: Project::Prism.gguf(142),
        ..q2_0("PQ2_0", "pq2_0", 128, runs_in_blocks::<1, 34, 128, 2>())
    });

    /// llama.cpp: a sign bit a weight, one f16 scale per 128, before them. There is no 0, except for a
    /// group of zeros, whose scale is 0.
    pub const Q1_0: Self = Self::new(&Codec {
        flag: Some("q1_0"),
        gguf: Project::Llama.gguf(41),
        has_zero: false,
        ..in_bundles(
            "Q1_0",
            Bundles {
                scales: StoredScales::in_blocks(128, 0),
                ..Bundles::blocks(128, 18, signs_in_blocks::<18, 128, 2>())
            },
        )
    });

    /// ik_llama.cpp: two bits a trit, one f32 scale a row.
    pub const IQ2_BN: Self = Self::new(&Codec {
        flag: Some("iq2_bn"),
        gguf: Project::IkLlama.gguf(135),
        ..in_bundles(
            "IQ2_BN",
            Bundles {
                head_len: 4,
                scales: StoredScales::in_heads(ScaleFloat::F32),
                ..Bundles::blocks(64, 16, runs::<16, LOW_FIRST>())
            },
        )
    });

    /// IQ2_BN with four rows interleaved.
    pub const IQ2_BN_R4: Self = Self::new(&Codec {
        flag: Some("iq2_bn_r4"),
        gguf: Project::IkLlama.gguf(335),
        ..in_bundles(
            "IQ2_BN_R4",
            Bundles {
                rows: 4,
                head_len: 16,
                scales: StoredScales::in_heads(ScaleFloat::F32),
                ..Bundles::blocks(64, 64, quads::<4>())
            },
        )
    });

    /// Packed checkpoints of `transformers`, u8 of [rows / 4, columns]: field `f` of packed row `r` is
    /// row `f * rows / 4 + r`. The scale is a tensor of its own.
    pub const HF_PACKED: Self = Self::new(&in_bundles(
        "HF packed",
        Bundles { spread: true, ..four_rows(stacked::<LOW_FIRST>()) },
    ));

    /// SGLBITNT, u8 of [rows, columns / 4] in the order of I2_S. The scale is in the tensor's header.
    pub const SGL_PACKED: Self = Self::new(&in_bundles(
        "SGLBITNT packed",
        Bundles::blocks(128, 32, runs::<32, HIGH_FIRST>()),
    ));

    /// `.wf` files: two bits a trit in the order of the kernels, one f32 scale a tensor.
    pub const QUAD_LINES: Self = Self::new(&quad_lines(QUAD, "QUAD_LINES", ScaleUnit::Tensor));
    /// Quad lines with one scale a row.
    pub const QUAD_LINES_ROW: Self =
        Self::new(&quad_lines("quad lines, one scale per row", "QUAD_LINES_ROW", ScaleUnit::Row));
    /// Quad lines with one scale per 64 columns.
    pub const QUAD_LINES_64: Self =
        Self::new(&quad_lines("quad lines groups of 64", "QUAD_LINES_64", ScaleUnit::Group(64)));
    /// Quad lines with one scale per 128 columns.
    pub const QUAD_LINES_128: Self =
        Self::new(&quad_lines("quad lines groups of 128", "QUAD_LINES_128", ScaleUnit::Group(128)));
    /// Quad lines with one scale per 256 columns.
    pub const QUAD_LINES_256: Self =
        Self::new(&quad_lines("quad lines groups of 256", "QUAD_LINES_256", ScaleUnit::Group(256)));

    /// Returns the number of bytes before the scales of a matrix in quad lines.
    pub fn quad_lines_len(self, rows: usize, cols: usize) -> Option<usize> {
        match &self.codec.layout {
            Layout::Bundles(bundles) if self.name() == QUAD => Some(bundles.len(rows, cols)),
            _ => None,
        }
    }

    /// Returns the quad lines that hold such scales. Groups of a length that kernels do not support
    /// are divided into shorter ones.
    pub(crate) fn quad_lines_for(scales: &Scales) -> Result<Self, EncodingError> {
        match scales {
            Scales::Tensor(_) => Ok(Self::QUAD_LINES),
            Scales::Rows(_) => Ok(Self::QUAD_LINES_ROW),
            Scales::Groups { len, .. } if len.is_multiple_of(256) => Ok(Self::QUAD_LINES_256),
            Scales::Groups { len, .. } if len.is_multiple_of(128) => Ok(Self::QUAD_LINES_128),
            Scales::Groups { len, .. } if len.is_multiple_of(64) => Ok(Self::QUAD_LINES_64),
            Scales::Groups { len, .. } => {
                let what = format!("{QUAD} supports groups of 64, 128 or 256, found {len}");
                Err(EncodingError::Invalid(what))
            }
        }
    }

    /// Returns the order of an I2_S encoding.
    pub fn i2s_order(self) -> Option<I2sOrder> {
        I2sOrder::ALL.iter().find(|(.., encoding)| *encoding == self).map(|(order, ..)| *order)
    }
}

const fn in_bundles(name: &'static str, bundles: Bundles) -> Codec {
    Codec::new(name, Layout::Bundles(bundles))
}

/// A byte for a column of four rows.
const fn four_rows(packing: Packing) -> Bundles {
    Bundles { rows: 4, ..Bundles::blocks(1, 1, packing) }
}

/// BitNet's fork of llama.cpp. After the trits come 32 bytes: the scale, then padding that is not read.
const fn i2_s(label: &'static str, flag: Option<&'static str>, bundles: Bundles) -> Codec {
    let scales = StoredScales::in_tail(ScaleUnit::Tensor, 32);
    let gguf = Project::BitNet.gguf(36);
    Codec { label, flag, gguf, ..in_bundles("I2_S", Bundles { scales, ..bundles }) }
}

const fn q2_0(label: &'static str, flag: &'static str, cols: usize, packing: Packing) -> Codec {
    let scales = StoredScales::in_blocks(cols, 0);
    let bundles = Bundles { scales, ..Bundles::blocks(cols, 2 + cols / 4, packing) };
    Codec { label, flag: Some(flag), gguf: Project::Llama.gguf(42), ..in_bundles("Q2_0", bundles) }
}

const QUAD: &str = "quad lines";

/// The layout that kernels compute with, as `layout/quad_lines.rs` in `wf-kernels` specifies it: strips
/// of sixteen rows, padded with zero trits to whole strips and to multiples of 64 columns. After the
/// last strip come the scales as f32, row after row.
const fn quad_lines(label: &'static str, wf_name: &'static str, unit: ScaleUnit) -> Codec {
    let bundles = Bundles {
        rows: 16,
        padding: Some(0b01_01_01_01),
        scales: StoredScales::in_tail(unit, 0),
        ..Bundles::blocks(64, 256, quads::<16>())
    };
    Codec { label, wf_name: Some(wf_name), ..in_bundles(QUAD, bundles) }
}

/// The order of trits in I2_S, high bits first. It depends on the program that wrote a file, and the
/// file does not store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
        let found = Self::ALL.iter().find(|(_, name, _)| *name == text).map(|(order, ..)| *order);
        found.ok_or_else(|| format!("unknown I2_S order {text:?}, allowed are 128, 64 and 4row"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_divided_into_the_longest_supported() {
        let unit = |len| {
            let scales = Scales::Groups { len, values: Vec::new() };
            TernaryEncoding::quad_lines_for(&scales).ok().and_then(TernaryEncoding::scale_unit)
        };
        let found = [512, 256, 384, 128, 192, 64, 96, 32].map(unit);
        let group = |len| Some(ScaleUnit::Group(len));
        let [long, some, short] = [256, 128, 64].map(group);
        assert_eq!(found, [long, long, some, some, short, short, None, None]);
    }

    #[test]
    fn sizes_are_of_whole_strips_and_runs() {
        type E = TernaryEncoding;
        assert_eq!(E::QUAD_LINES.size(1, 1).unwrap(), 256 + 4);
        assert_eq!(E::QUAD_LINES_ROW.size(17, 65).unwrap(), 2 * 512 + 4 * 17);
        assert_eq!(E::QUAD_LINES_64.size(16, 128).unwrap(), 512 + 4 * 32);
        assert!(E::QUAD_LINES_64.size(16, 100).is_err());
        assert!(E::QUAD_LINES_ROW.size(usize::MAX / 2, 2).is_err());
    }
}
