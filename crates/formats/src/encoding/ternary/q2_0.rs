//! Q2_0 (llama.cpp): an f16 scale, then 64 trits in plain order, low bits first. PrismML's fork has
//! groups of 128 under the same type number.
//!
//! Code 3 stands for +2, which a ternary model does not have: it is rejected as elsewhere.

use super::TernaryEncoding;
#[cfg(test)]
use super::codec::Position;
use super::codec::{Bundles, Codec, GgufType, Layout, Project, decode_blocks, encode_blocks};
use super::fields::{LOW_FIRST, pack, unpack};
use super::scales::{ScaleFloat, ScaleUnit, ScalesAt, StoredScales};

const SCALE_LEN: usize = 2;

impl TernaryEncoding {
    /// llama.cpp: two bits a trit in plain order, one f16 scale per 64 trits.
    pub const Q2_0: Self = Self::new(&Codec {
        label: "Q2_0 groups of 64",
        flag: Some("q2_0"),
        ..codec::<64, { SCALE_LEN + 16 }>()
    });

    /// Q2_0 with one scale per 128 trits.
    pub const Q2_0_G128: Self = Self::new(&Codec {
        label: "Q2_0 groups of 128",
        flag: Some("q2_0_g128"),
        ..codec::<128, { SCALE_LEN + 32 }>()
    });
}

const fn codec<const COLS: usize, const LEN: usize>() -> Codec {
    Codec {
        name: "Q2_0",
        label: "Q2_0",
        flag: None,
        gguf: Some(GgufType { id: 42, project: Project::Llama }),
        wf_name: None,
        layout: Layout::Bundles(Bundles {
            block_cols: COLS,
            block_len: LEN,
            scales: Some(StoredScales {
                unit: ScaleUnit::Group(COLS),
                float: ScaleFloat::F16,
                at: ScalesAt::Block(0),
            }),
            decode: |blocks, _, out| {
                decode_blocks::<LEN, COLS>(blocks, out, |block, out| {
                    let (_scale, packed) = block.split_at(SCALE_LEN);
                    unpack::<1, LOW_FIRST>(packed, out).map_err(|bad| bad.shift(SCALE_LEN, 0))
                })
            },
            encode: |trits, _, blocks| {
                encode_blocks::<LEN, COLS>(trits, blocks, |trits, block| {
                    pack::<1, LOW_FIRST>(trits, block.split_at_mut(SCALE_LEN).1);
                });
            },
            ..Bundles::DEFAULT
        }),
        #[cfg(test)]
        position: Some(|_, cols, r, c| {
            let flat = r * cols + c;
            let (block, at) = (flat / COLS * (2 + COLS / 4), flat % COLS);
            Position::Bits { byte: block + 2 + at / 4, shift: at % 4 * 2 }
        }),
    }
}
