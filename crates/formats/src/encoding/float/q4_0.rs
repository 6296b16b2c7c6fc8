//! Q4_0 (ggml): 32 values in 18 bytes, an f16 scale and 16 bytes with value `j` in the low bits and
//! value `j + 16` in the high ones.

use half::f16;

use super::FloatEncoding;
use super::codec::{
    F16_RANGE, FloatCodec, FloatKind, decode_blocks, decode_code_blocks, furthest_from_zero,
    inverse, to_f16,
};

const LEN: usize = 32;
const BYTES: usize = 2 + LEN / 2;

impl FloatEncoding {
    /// ggml: 4-bit integers, one scale per 32.
    pub const Q4_0: Self = Self(&FloatCodec {
        name: "Q4_0",
        flag: "q4_0",
        gguf_type: 2,
        kind: FloatKind::Blocks,
        block_len: LEN,
        block_bytes: BYTES,
        scale_offset: 0,
        decode: |bytes, out| decode_blocks(bytes, out, decode),
        decode_codes: Some(|bytes, codes, scales| {
            decode_code_blocks(bytes, codes, scales, decode_codes);
        }),
        encode,
        range: F16_RANGE,
        // A whole step: the largest value is mapped to one end of the range, so the other is cut off.
        max_error: |_, block_max| block_max * (1.0 / 8.0 + 1.0 / 2048.0) + 4e-6,
        is_coarse: true,
        cost: Some("costs 1.4 % in perplexity (17.353 for 17.109)"),
    });
}

fn decode([low, high, values @ ..]: &[u8; BYTES], out: &mut [f32; LEN]) {
    let scale = f16::from_le_bytes([*low, *high]).to_f32();
    let (first, second) = out.split_at_mut(LEN / 2);
    for ((first, second), value) in first.iter_mut().zip(second).zip(values) {
        *first = (f32::from(value & 15) - 8.0) * scale;
        *second = (f32::from(value >> 4) - 8.0) * scale;
    }
}

fn decode_codes(
    [low, high, values @ ..]: &[u8; BYTES],
    codes: &mut [i8; LEN],
    scales: &mut [f32; 2],
) {
    *scales = [f16::from_le_bytes([*low, *high]).to_f32(); 2];
    let (first, second) = codes.split_at_mut(LEN / 2);
    for ((first, second), value) in first.iter_mut().zip(second).zip(values) {
        *first = (value & 15) as i8 - 8;
        *second = (value >> 4) as i8 - 8;
    }
}

fn encode(values: &[f32], out: &mut Vec<u8>) -> Result<(), f32> {
    for block in values.as_chunks::<LEN>().0 {
        // The value furthest from 0 becomes code 0, which is -8 times the scale: its sign is the scale's.
        let scale = furthest_from_zero(block) / -8.0;
        let inverse = inverse(scale);
        let codes = block.map(|value| ((value * inverse + 8.5) as u8).min(15));
        out.extend(to_f16(scale)?.to_le_bytes());
        let (first, second) = codes.split_at(LEN / 2);
        out.extend(first.iter().zip(second).map(|(first, second)| first | second << 4));
    }
    Ok(())
}
