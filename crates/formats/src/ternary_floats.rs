//! Float weights that are trits in disguise, and master weights that become trits.

use crate::encoding::{AbsMean, AbsMeanScale, EncodingError, FloatEncoding, decode_floats};

/// Calls `each` with every row of a float matrix, decoded into one buffer.
fn for_each_row(
    float: FloatEncoding,
    bytes: &[u8],
    cols: usize,
    mut each: impl FnMut(&[f32]) -> bool,
) -> Result<(), EncodingError> {
    let row_size = usize::try_from(float.row_size(cols)?).unwrap_or(usize::MAX).max(1);
    let mut row = vec![0.0; cols];
    for bytes in bytes.chunks(row_size) {
        decode_floats(float, bytes, &mut row)?;
        if !each(&row) {
            break;
        }
    }
    Ok(())
}

/// The s of weights that are all −s, 0 or s; `None` if they are not. All zeros have s = 0.
pub(crate) fn scale(
    float: FloatEncoding,
    bytes: &[u8],
    cols: usize,
) -> Result<Option<f32>, EncodingError> {
    let mut scale = 0.0f32;
    let mut ternary = true;
    for_each_row(float, bytes, cols, |row| {
        for magnitude in row.iter().map(|weight| weight.abs()) {
            if scale == 0.0 {
                scale = magnitude;
            }
            ternary &= magnitude == 0.0 || magnitude == scale;
        }
        ternary
    })?;
    Ok(ternary.then_some(scale))
}

/// The mean magnitude of master weights, by which they become trits.
pub(crate) fn mean(
    float: FloatEncoding,
    bytes: &[u8],
    cols: usize,
) -> Result<AbsMeanScale, EncodingError> {
    let mut mean = AbsMean::default();
    for_each_row(float, bytes, cols, |row| {
        mean.add(row);
        true
    })?;
    mean.scale()
}

/// The trits of weights that [`scale`] has found to be ternary: their signs.
pub(crate) fn signs(weights: &[f32], out: &mut [i8]) {
    for (trit, weight) in out.iter_mut().zip(weights) {
        *trit = i8::from(*weight > 0.0).wrapping_sub(i8::from(*weight < 0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(weights: &[f32]) -> Vec<u8> {
        weights.iter().flat_map(|weight| weight.to_le_bytes()).collect()
    }

    #[test]
    fn one_magnitude_besides_zero_is_ternary() {
        let f32s = FloatEncoding::F32;
        let ternary = bytes(&[0.0, -1.5, 1.5, -0.0]);
        assert_eq!(scale(f32s, &ternary, 2).unwrap(), Some(1.5));
        assert_eq!(scale(f32s, &bytes(&[0.0, -1.5, 1.5, 1.25]), 2).unwrap(), None);
        assert_eq!(scale(f32s, &bytes(&[0.0; 4]), 2).unwrap(), Some(0.0));
        assert!(scale(f32s, &bytes(&[f32::NAN; 4]), 2).is_err());
    }

    #[test]
    fn signs_are_trits() {
        let mut trits = [9; 4];
        signs(&[0.0, -1.5, 1.5, -0.0], &mut trits);
        assert_eq!(trits, [0, -1, 1, 0]);
    }
}
