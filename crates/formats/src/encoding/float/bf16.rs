//! BF16: the upper half of IEEE single precision.

use half::bf16;

use super::FloatEncoding;
use super::codec::{FloatCodec, FloatKind};

impl FloatEncoding {
    /// The upper half of IEEE single precision.
    pub const BF16: Self = Self(&FloatCodec {
        name: "BF16",
        flag: "bf16",
        gguf_type: 30,
        kind: FloatKind::Bf16,
        block_len: 1,
        block_bytes: 2,
        scale_offset: 0,
        decode: |bytes, out| {
            for (out, value) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *out = f32::from_bits(u32::from(u16::from_le_bytes(*value)) << 16);
            }
        },
        decode_codes: None,
        encode: |values, out| {
            for &value in values {
                let stored = bf16::from_f32(value);
                if !stored.is_finite() {
                    return Err(value);
                }
                out.extend(stored.to_le_bytes());
            }
            Ok(())
        },
        range: "numbers whose bf16 is finite",
        max_error: |value, _| value.abs() / 256.0,
        is_coarse: false,
        cost: None,
    });
}
