//! TQ2_0 (llama.cpp): 256 trits in 66 bytes. Two runs of 32 bytes in two-bit fields, low bits first,
//! then an f16 scale.

use super::TernaryEncoding;
#[cfg(test)]
use super::codec::Position;
use super::codec::{Bundles, Codec, GgufType, Layout, Project, decode_blocks, encode_blocks};
use super::fields::{LOW_FIRST, pack, unpack};
use super::scales::{ScaleFloat, ScaleUnit, ScalesAt, StoredScales};

const COLS: usize = 256;
/// Bytes of a block without its scale.
const TRITS_LEN: usize = 64;
const LEN: usize = TRITS_LEN + 2;

impl TernaryEncoding {
    /// llama.cpp: two bits a trit, one f16 scale per 256 trits.
    pub const TQ2_0: Self = Self::new(&Codec {
        name: "TQ2_0",
        label: "TQ2_0",
        flag: Some("tq2_0"),
        gguf: Some(GgufType { id: 35, project: Project::Llama }),
        wf_name: None,
        layout: Layout::Bundles(Bundles {
            block_cols: COLS,
            block_len: LEN,
            scales: Some(StoredScales {
                unit: ScaleUnit::Group(COLS),
                float: ScaleFloat::F16,
                at: ScalesAt::Block(TRITS_LEN),
            }),
            decode: |blocks, _, out| {
                decode_blocks::<LEN, COLS>(blocks, out, |block, out| {
                    unpack::<32, LOW_FIRST>(block.split_at(TRITS_LEN).0, out)
                })
            },
            encode: |trits, _, blocks| {
                encode_blocks::<LEN, COLS>(trits, blocks, |trits, block| {
                    pack::<32, LOW_FIRST>(trits, block.split_at_mut(TRITS_LEN).0);
                });
            },
            ..Bundles::DEFAULT
        }),
        #[cfg(test)]
        position: Some(|_, cols, r, c| {
            let flat = r * cols + c;
            let (block, at) = (flat / 256 * 66, flat % 256);
            Position::Bits { byte: block + at / 128 * 32 + at % 32, shift: at % 128 / 32 * 2 }
        }),
    });
}
