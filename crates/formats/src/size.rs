//! Arithmetic on sizes and offsets that come from a file.
//!
//! Results that do not fit in `u64` are `None`: they are larger than any file.

/// Returns the product of all dimensions.
pub(crate) fn product(dims: &[u64]) -> Option<u64> {
    let mut total: u128 = 1;
    for &dim in dims {
        total = total.checked_mul(u128::from(dim))?;
        // Stop early only past u64; a later zero must not hide an overflow.
        if total > u128::from(u64::MAX) {
            return None;
        }
    }
    u64::try_from(total).ok()
}

/// Rounds `offset` up to a multiple of `alignment`, which must not be zero.
pub(crate) fn align_up(offset: u64, alignment: u64) -> Option<u64> {
    offset.checked_next_multiple_of(alignment)
}

/// Returns `bytes[offset..offset + len]`, if it lies inside.
pub(crate) fn slice(bytes: &[u8], offset: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    let stop = usize::try_from(offset.checked_add(len)?).ok()?;
    bytes.get(start..stop)
}

/// Converts a length to `u64`, which is at least as wide on all supported targets.
pub(crate) fn widen(len: usize) -> u64 {
    len as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_past_u64_are_none_even_if_a_zero_follows() {
        assert_eq!(product(&[1 << 32, 1 << 31]), Some(1 << 63));
        assert_eq!(product(&[1 << 32, 1 << 32]), None);
        assert_eq!(product(&[1 << 40, 1 << 40, 0]), None);
        assert_eq!(product(&[u64::MAX, 1]), Some(u64::MAX));
        assert_eq!(product(&[]), Some(1));
    }

    #[test]
    fn padding_never_wraps_to_a_small_offset() {
        assert_eq!(align_up(u64::MAX - 5, 32), None);
        assert_eq!(align_up(33, 32), Some(64));
        assert_eq!(align_up(64, 32), Some(64));
        assert_eq!(align_up(1, 0), None);
    }

    #[test]
    fn a_slice_past_the_end_is_none() {
        let bytes = [0u8; 10];
        assert_eq!(slice(&bytes, 4, 6).map(<[u8]>::len), Some(6));
        assert!(slice(&bytes, 4, 7).is_none());
        assert!(slice(&bytes, u64::MAX, 2).is_none());
    }
}
