//! F32: IEEE single precision.

use super::FloatEncoding;
use super::codec::{FloatCodec, FloatKind};

impl FloatEncoding {
    /// IEEE single precision.
    pub const F32: Self = Self(&FloatCodec {
        name: "F32",
        flag: "f32",
        gguf_type: 0,
        kind: FloatKind::F32,
        block_len: 1,
        block_bytes: 4,
        scale_offset: 0,
        decode: |bytes, out| {
            for (out, value) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *out = f32::from_le_bytes(*value);
            }
        },
        decode_codes: None,
        encode: |values, out| {
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            Ok(())
        },
        range: "finite numbers",
        max_error: |_, _| 0.0,
        is_coarse: false,
        cost: None,
    });
}
