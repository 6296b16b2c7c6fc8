//! Q8_0 and Q4_0 (ggml): blocks of 32 values with an f16 scale in front.

use half::f16;

use super::{
    Decode, F16_RANGE, FloatCodec, FloatEncoding, FloatKind, decode_blocks, furthest_from_zero,
    inverse, to_f16,
};

const LEN: usize = 32;
const Q8_0_BYTES: usize = 2 + LEN;
const Q4_0_BYTES: usize = 2 + LEN / 2;

impl FloatEncoding {
    /// ggml: 8-bit integers, one scale per 32.
    pub const Q8_0: Self = Self(&FloatCodec {
        name: "Q8_0",
        flag: "q8_0",
        gguf_type: 8,
        kind: FloatKind::Blocks,
        block_len: LEN,
        block_bytes: Q8_0_BYTES,
        scale_offset: 0,
        decode: Decode::Codes(|bytes, codes, scales| decode_blocks(bytes, codes, scales, q8_0)),
        encode: Some(|values, out| {
            for block in values.as_chunks::<LEN>().0 {
                let scale = furthest_from_zero(block).abs() / 127.0;
                let inverse = inverse(scale);
                out.extend(to_f16(scale)?.to_le_bytes());
                // `as` saturates, and half away from zero is what ggml's roundf does.
                out.extend(block.map(|value| (value * inverse).round() as i8 as u8));
            }
            Ok(())
        }),
        range: F16_RANGE,
        // Half a step, and the rounding of the step itself to f16.
        max_error: |_, block_max| block_max * (0.5 / 127.0 + 1.0 / 2048.0) + 4e-6,
        is_coarse: false,
        cost: Some("costs 0.06 % in perplexity (17.120 for 17.109)"),
    });

    /// ggml: 4-bit integers, one scale per 32; value `j` has the low bits of byte `j`, value `j + 16` the
    /// high ones.
    pub const Q4_0: Self = Self(&FloatCodec {
        name: "Q4_0",
        flag: "q4_0",
        gguf_type: 2,
        kind: FloatKind::Blocks,
        block_len: LEN,
        block_bytes: Q4_0_BYTES,
        scale_offset: 0,
        decode: Decode::Codes(|bytes, codes, scales| decode_blocks(bytes, codes, scales, q4_0)),
        encode: Some(|values, out| {
            for block in values.as_chunks::<LEN>().0 {
                // The value furthest from 0 becomes code 0, -8 times the scale: its sign is the scale's.
                let scale = furthest_from_zero(block) / -8.0;
                let inverse = inverse(scale);
                let codes = block.map(|value| ((value * inverse + 8.5) as u8).min(15));
                out.extend(to_f16(scale)?.to_le_bytes());
                let (first, second) = codes.split_at(LEN / 2);
                out.extend(first.iter().zip(second).map(|(first, second)| first | second << 4));
            }
            Ok(())
        }),
        range: F16_RANGE,
        // A whole step: the largest value is mapped to one end of the range, so the other is cut off.
        max_error: |_, block_max| block_max * (1.0 / 8.0 + 1.0 / 2048.0) + 4e-6,
        is_coarse: true,
        cost: Some("costs 1.4 % in perplexity (17.353 for 17.109)"),
    });
}

fn q8_0(block: &[u8; Q8_0_BYTES], codes: &mut [i8; LEN], scales: &mut [f32; 2]) {
    let [low, high, values @ ..] = block;
    *scales = [f16::from_le_bytes([*low, *high]).to_f32(); 2];
    // A loop becomes vector code where `map` does not.
    for (code, value) in codes.iter_mut().zip(values) {
        *code = *value as i8;
    }
}

fn q4_0(block: &[u8; Q4_0_BYTES], codes: &mut [i8; LEN], scales: &mut [f32; 2]) {
    let [low, high, values @ ..] = block;
    *scales = [f16::from_le_bytes([*low, *high]).to_f32(); 2];
    let (first, second) = codes.split_at_mut(LEN / 2);
    for ((first, second), value) in first.iter_mut().zip(second).zip(values) {
        *first = (value & 15) as i8 - 8;
        *second = (value >> 4) as i8 - 8;
    }
}
