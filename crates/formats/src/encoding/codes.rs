//! Block-quantized floats as what they are: small integers, and a scale for every sixteen of them.

use half::f16;

use super::error::EncodingError;
use super::floats::{FloatEncoding, Q4_BLOCK_BYTES, Q8_BLOCK_BYTES};
use super::q6_k;

/// Values that [`decode_codes`] gives one scale.
pub const CODES_PER_SCALE: usize = 16;

/// Decodes one row of Q8_0, Q6_K or Q4_0 into codes and scales. A code times its scale, rounded to
/// f32, is the very value that [`decode_floats`](super::decode_floats) gives.
///
/// # Errors
///
/// If `bytes` are not a row of as many values, or if `encoding` has no codes.
pub fn decode_codes(
    encoding: FloatEncoding,
    bytes: &[u8],
    codes: &mut [i8],
    scales: &mut [f32],
) -> Result<(), EncodingError> {
    let (name, cols) = (encoding.name(), codes.len());
    let expected = encoding.row_size(cols)?;
    let has_codes =
        matches!(encoding, FloatEncoding::Q8_0 | FloatEncoding::Q6K | FloatEncoding::Q4_0);
    if bytes.len() as u64 != expected || scales.len() != cols / CODES_PER_SCALE || !has_codes {
        let found = bytes.len();
        return Err(EncodingError::Size { encoding: name, rows: 1, cols, expected, found });
    }
    match encoding {
        FloatEncoding::Q8_0 => {
            let blocks = bytes.as_chunks::<Q8_BLOCK_BYTES>().0.iter();
            let outs = codes.as_chunks_mut::<32>().0.iter_mut().zip(scales.as_chunks_mut::<2>().0);
            for ([low, high, values @ ..], (codes, scales)) in blocks.zip(outs) {
                *scales = [f16::from_le_bytes([*low, *high]).to_f32(); 2];
                *codes = values.map(|value| value as i8);
            }
        }
        FloatEncoding::Q4_0 => {
            let blocks = bytes.as_chunks::<Q4_BLOCK_BYTES>().0.iter();
            let outs = codes.as_chunks_mut::<32>().0.iter_mut().zip(scales.as_chunks_mut::<2>().0);
            for ([low, high, values @ ..], (codes, scales)) in blocks.zip(outs) {
                *scales = [f16::from_le_bytes([*low, *high]).to_f32(); 2];
                let (first, second) = codes.split_at_mut(16);
                for ((first, second), value) in first.iter_mut().zip(second).zip(values) {
                    *first = (value & 15) as i8 - 8;
                    *second = (value >> 4) as i8 - 8;
                }
            }
        }
        _ => {
            let blocks = bytes.as_chunks::<{ q6_k::BLOCK_BYTES }>().0.iter();
            let outs = codes.as_chunks_mut::<{ q6_k::BLOCK_LEN }>().0.iter_mut();
            for (block, (codes, scales)) in blocks.zip(outs.zip(scales.as_chunks_mut().0)) {
                q6_k::decode_codes(block, codes, scales);
            }
        }
    }
    Ok(())
}
