//! The packing of Hugging Face's `bitnet` checkpoints: u8 of [rows / 4, columns].
//!
//! Field `f` (low bits first) of packed row `r` is row `f * rows / 4 + r`. The scale is a tensor of its
//! own.

use super::TernaryEncoding;
#[cfg(test)]
use super::codec::Position;
use super::codec::{Bundles, Codec, Layout};
use super::stacked;

impl TernaryEncoding {
    /// Packed checkpoints of `transformers`: two bits a trit, the scale in a tensor of its own.
    pub const HF_PACKED: Self = Self::new(&Codec {
        name: "HF packed",
        label: "HF packed",
        flag: None,
        gguf: None,
        wf_name: None,
        layout: Layout::Bundles(Bundles {
            rows: stacked::ROWS,
            spread: true,
            decode: |packed, quarter, out| stacked::decode_row(packed, 2 * quarter, out),
            encode: |trits, quarter, packed| stacked::encode_row(trits, 2 * quarter, packed),
            ..Bundles::DEFAULT
        }),
        #[cfg(test)]
        position: Some(|rows, cols, r, c| {
            let quarter = rows / 4;
            Position::Bits { byte: r % quarter * cols + c, shift: r / quarter * 2 }
        }),
    });
}
