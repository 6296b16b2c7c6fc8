//! The operands of attention in bf16: queries, keys, weights and values.
//!
//! Each is zero or at least 2⁻⁴⁰, so it is a multiple of 2⁻⁴⁷. Products are multiples of 2⁻⁹⁴, and so
//! are their sums, however they are rounded: none is subnormal. Tiles, which flush subnormals to zero,
//! therefore give the bits of other instructions.

use crate::half::f32_to_bf16;

/// Products that are added up before the sum is added to those before: 32 elements of a key, or the
/// positions of a page. One instruction does so on tiles.
pub(crate) const BLOCK: usize = 32;

/// The smallest magnitude of an operand but zero: 2⁻⁴⁰.
const SMALLEST: f32 = f32::from_bits((127 - 40) << 23);

const MAGNITUDE: u32 = 0x7fff_ffff;

/// Rounds a number to an operand. NaN and infinities stay.
///
/// Written without branches, so that loops of it become vector instructions.
#[inline(always)]
pub(crate) fn bf16_operand(x: f32) -> u16 {
    let magnitude = x.to_bits() & MAGNITUDE;
    let kept = if magnitude < SMALLEST.to_bits() { 0 } else { u16::MAX };
    f32_to_bf16(x) & kept
}

/// Rounds numbers to operands.
pub(super) fn encode_operands(values: &[f32], out: &mut [u16]) {
    for (out, x) in out.iter_mut().zip(values) {
        *out = bf16_operand(*x);
    }
}

/// Rounds numbers to finite operands: large ones to the largest, and what is not finite to anything. Returns
/// `true` if all numbers are finite. The value of a position that a row does not see is multiplied by zero,
/// which must give zero.
pub(super) fn encode_finite(values: &[f32], out: &mut [u16]) -> bool {
    const INFINITE: u32 = f32::INFINITY.to_bits();
    const LARGEST: u32 = 0x7f7f << 16;
    let mut largest = 0;
    for (out, x) in out.iter_mut().zip(values) {
        let magnitude = x.to_bits() & MAGNITUDE;
        largest = largest.max(magnitude);
        let sign = x.to_bits() & !MAGNITUDE;
        *out = bf16_operand(f32::from_bits(magnitude.min(LARGEST) | sign));
    }
    largest < INFINITE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::half::bf16_to_f32;

    #[test]
    fn small_numbers_become_zero() {
        for x in [SMALLEST, -SMALLEST, 1.0, -3.3e38, f32::INFINITY] {
            assert_eq!(bf16_to_f32(bf16_operand(x)), bf16_to_f32(f32_to_bf16(x)));
        }
        for x in [0.0, -0.0, f32::MIN_POSITIVE, SMALLEST.next_down(), -SMALLEST.next_down()] {
            assert_eq!(bf16_operand(x), 0);
        }
        assert!(bf16_to_f32(bf16_operand(f32::NAN)).is_nan());
    }

    #[test]
    fn values_are_finite() {
        let largest = bf16_to_f32(0x7f7f);
        let values = [-2.0, f32::MAX, f32::MIN, 0.0, f32::NAN, f32::INFINITY, -f32::INFINITY];
        let expected = [-2.0, largest, -largest, 0.0];
        let mut bits = [0; 7];
        assert!(!encode_finite(&values, &mut bits));
        assert!(bits.iter().all(|bits| bf16_to_f32(*bits).is_finite()), "{bits:x?}");
        assert!(encode_finite(&values[..4], &mut bits));
        assert_eq!([0, 1, 2, 3].map(|i| bf16_to_f32(bits[i])), expected);
    }
}
