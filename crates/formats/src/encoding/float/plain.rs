//! Plain floats: one number after another.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::{Decode, F16_RANGE, FloatCodec, FloatEncoding, FloatKind, to_f16};

impl FloatEncoding {
    /// IEEE single precision.
    pub const F32: Self = Self(&FloatCodec {
        name: "F32",
        flag: "f32",
        gguf_type: 0,
        kind: FloatKind::F32,
        block_bytes: 4,
        decode: Decode::Values(|bytes, out| {
            for (out, value) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *out = f32::from_le_bytes(*value);
            }
        }),
        encode: Some(|values, out| {
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            Ok(())
        }),
        range: "finite numbers",
        max_error: |_, _| 0.0,
        ..PLAIN
    });

    /// IEEE half precision.
    pub const F16: Self = Self(&FloatCodec {
        name: "F16",
        flag: "f16",
        gguf_type: 1,
        kind: FloatKind::F16,
        decode: Decode::Values(decode_f16),
        encode: Some(|values, out| {
            for &value in values {
                out.extend(to_f16(value)?.to_le_bytes());
            }
            Ok(())
        }),
        range: F16_RANGE,
        // Half a unit in the last place; the second number is that of the smallest value.
        max_error: |value, _| value.abs() / 2048.0 + 3e-8,
        ..PLAIN
    });

    /// The upper half of IEEE single precision.
    pub const BF16: Self = Self(&PLAIN);
}

/// BF16, and what all plain floats have in common.
const PLAIN: FloatCodec = FloatCodec {
    name: "BF16",
    flag: "bf16",
    gguf_type: 30,
    kind: FloatKind::Bf16,
    block_len: 1,
    block_bytes: 2,
    scale_offset: 0,
    decode: Decode::Values(|bytes, out| {
        for (out, value) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *out = f32::from_bits(u32::from(u16::from_le_bytes(*value)) << 16);
        }
    }),
    encode: Some(|values, out| {
        for &value in values {
            let stored = bf16::from_f32(value);
            if !stored.is_finite() {
                return Err(value);
            }
            out.extend(stored.to_le_bytes());
        }
        Ok(())
    }),
    range: "numbers whose bf16 is finite",
    max_error: |value, _| value.abs() / 256.0,
    is_coarse: false,
    cost: None,
};

/// Converts 64 values at a time: the bytes of a file need not be aligned for a slice of halves.
fn decode_f16(bytes: &[u8], out: &mut [f32]) {
    let mut halves = [f16::ZERO; 64];
    for (values, out) in bytes.as_chunks::<2>().0.chunks(64).zip(out.chunks_mut(64)) {
        for (half, value) in halves.iter_mut().zip(values) {
            *half = f16::from_le_bytes(*value);
        }
        halves.get(..out.len()).unwrap_or_default().convert_to_f32_slice(out);
    }
}
