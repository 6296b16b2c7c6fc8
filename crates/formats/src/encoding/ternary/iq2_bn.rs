//! IQ2_BN (ik_llama.cpp): for each row an f32 scale, then 16 bytes per 64 trits in two-bit fields, low
//! bits first.

use super::TernaryEncoding;
#[cfg(test)]
use super::codec::Position;
use super::codec::{Bundles, Codec, GgufType, Layout, Project};
use super::fields::{LOW_FIRST, pack, unpack};
use super::scales::{ScaleFloat, ScaleUnit, ScalesAt, StoredScales};

impl TernaryEncoding {
    /// ik_llama.cpp: two bits a trit, one f32 scale a row.
    pub const IQ2_BN: Self = Self::new(&Codec {
        name: "IQ2_BN",
        label: "IQ2_BN",
        flag: Some("iq2_bn"),
        gguf: Some(GgufType { id: 135, project: Project::IkLlama }),
        wf_name: None,
        layout: Layout::Bundles(Bundles {
            head_len: 4,
            block_cols: 64,
            block_len: 16,
            scales: Some(StoredScales {
                unit: ScaleUnit::Row,
                float: ScaleFloat::F32,
                at: ScalesAt::Head,
            }),
            decode: |packed, _, out| unpack::<16, LOW_FIRST>(packed, out),
            encode: |trits, _, packed| pack::<16, LOW_FIRST>(trits, packed),
            ..Bundles::DEFAULT
        }),
        #[cfg(test)]
        position: Some(|_, cols, r, c| {
            let row = r * (4 + cols / 4) + 4;
            Position::Bits { byte: row + c / 64 * 16 + c % 16, shift: c % 64 / 16 * 2 }
        }),
    });
}
