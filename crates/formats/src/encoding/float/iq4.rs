//! IQ4_NL and IQ4_XS (ggml): 4-bit indices into a table of sixteen integers.
//!
//! ```text
//! IQ4_NL   32 values  f16 scale | 16 bytes of indices
//! IQ4_XS  256 values  f16 scale | u16 high bits of scales | 4 bytes of low bits | 128 bytes of indices
//! ```
//!
//! Of 32 values, the first half has the low four bits of sixteen bytes, the second the high ones. In
//! IQ4_XS each 32 have a 6-bit scale: four low bits in order, two high ones in `u16`; 32 is subtracted.

use super::more_blocks32::nibbles;
use super::{Decode, FloatCodec, FloatEncoding, decode_blocks, f16_at};

/// The integers that indices stand for: closer together near 0, where most weights are.
const VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

const LEN: usize = 32;

impl FloatEncoding {
    /// ggml: 4-bit indices, one scale per 32.
    pub const IQ4_NL: Self = Self(&FloatCodec::read_only(
        "IQ4_NL",
        "iq4_nl",
        20,
        (LEN, 18),
        0,
        Decode::Codes(|bytes, codes, scales| {
            decode_blocks::<18, LEN, 2>(bytes, codes, scales, |block, codes, scales| {
                *scales = [f16_at(block, 0); 2];
                look_up(block.get(2..).unwrap_or_default(), codes);
            });
        }),
    ));

    /// ggml: 4-bit indices, one 6-bit scale per 32.
    pub const IQ4_XS: Self = Self(&FloatCodec::read_only(
        "IQ4_XS",
        "iq4_xs",
        23,
        (256, 136),
        0,
        Decode::Codes(|bytes, codes, scales| {
            decode_blocks::<136, 256, 16>(bytes, codes, scales, iq4_xs);
        }),
    ));
}

fn iq4_xs(block: &[u8; 136], codes: &mut [i8; 256], scales: &mut [f32; 16]) {
    let [_, _, high_0, high_1, low_0, low_1, low_2, low_3, packed @ ..] = block;
    let scale = f16_at(block, 0);
    let high = u16::from_le_bytes([*high_0, *high_1]);
    let low = u32::from_le_bytes([*low_0, *low_1, *low_2, *low_3]);
    for (at, scales) in scales.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let bits = (low >> (4 * at) & 15) as i8 + (high >> (2 * at) & 3) as i8 * 16;
        *scales = [scale * f32::from(bits - 32); 2];
    }
    for (codes, packed) in codes.as_chunks_mut::<LEN>().0.iter_mut().zip(packed.chunks(LEN / 2)) {
        look_up(packed, codes);
    }
}

fn look_up(packed: &[u8], codes: &mut [i8; LEN]) {
    nibbles(packed, codes);
    for code in codes {
        *code = usize::try_from(*code).ok().and_then(|at| VALUES.get(at)).copied().unwrap_or(0);
    }
}
