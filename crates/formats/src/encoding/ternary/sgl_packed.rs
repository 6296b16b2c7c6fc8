//! The packing of SGLBITNT files: u8 of [rows, columns / 4] in the order of I2_S, with the scale in the
//! header of the tensor.

use super::TernaryEncoding;
#[cfg(test)]
use super::codec::Position;
use super::codec::{Bundles, Codec, Layout};
use super::fields::{HIGH_FIRST, pack, unpack};

impl TernaryEncoding {
    /// SGLBITNT: two bits a trit, the scale in the tensor's header.
    pub const SGL_PACKED: Self = Self::new(&Codec {
        name: "SGLBITNT packed",
        label: "SGLBITNT packed",
        flag: None,
        gguf: None,
        wf_name: None,
        layout: Layout::Bundles(Bundles {
            block_cols: 128,
            block_len: 32,
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
}
