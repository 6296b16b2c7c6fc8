//! F16: IEEE half precision.

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::FloatEncoding;
use super::codec::{F16_RANGE, FloatCodec, FloatKind, to_f16};

impl FloatEncoding {
    /// IEEE half precision.
    pub const F16: Self = Self(&FloatCodec {
        name: "F16",
        flag: "f16",
        gguf_type: 1,
        kind: FloatKind::F16,
        block_len: 1,
        block_bytes: 2,
        scale_offset: 0,
        decode,
        decode_codes: None,
        encode: |values, out| {
            for &value in values {
                out.extend(to_f16(value)?.to_le_bytes());
            }
            Ok(())
        },
        range: F16_RANGE,
        // Half a unit in the last place; the second number is that of the smallest value.
        max_error: |value, _| value.abs() / 2048.0 + 3e-8,
        is_coarse: false,
        cost: None,
    });
}

/// Converts 64 values at a time: the bytes of a file need not be aligned for a slice of halves.
fn decode(bytes: &[u8], out: &mut [f32]) {
    let mut halves = [f16::ZERO; 64];
    for (values, out) in bytes.as_chunks::<2>().0.chunks(64).zip(out.chunks_mut(64)) {
        for (half, value) in halves.iter_mut().zip(values) {
            *half = f16::from_le_bytes(*value);
        }
        halves.get(..out.len()).unwrap_or_default().convert_to_f32_slice(out);
    }
}
