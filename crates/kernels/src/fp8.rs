//! Conversion between eight-bit floats and single precision in software.
//!
//! There are two types, as in the OCP specification: `e4m3` (four bits of exponent, three of fraction,
//! no infinity, largest 448) and `e5m2` (the first byte of an f16, largest finite 57,344). Results are
//! rounded to nearest, ties to even; subnormals are kept; values out of range become the largest finite
//! number, so values should be scaled first.

/// The largest e4m3 number.
pub const E4M3_MAX: f32 = 448.0;

/// The largest finite e5m2 number.
pub const E5M2_MAX: f32 = 57_344.0;

/// Converts a float to e4m3. Values out of range become ±448; NaN stays NaN.
pub fn f32_to_e4m3(value: f32) -> u8 {
    narrow::<3, 7>(value, 0x7e)
}

/// Converts a float to e5m2. Values out of range become ±57,344; NaN stays NaN.
pub fn f32_to_e5m2(value: f32) -> u8 {
    narrow::<2, 15>(value, 0x7b)
}

/// Converts e4m3 to a float, exactly.
pub fn e4m3_to_f32(code: u8) -> f32 {
    if code & 0x7f == 0x7f { f32::NAN } else { widen::<3, 7>(code) }
}

/// Converts e5m2 to a float, exactly.
pub fn e5m2_to_f32(code: u8) -> f32 {
    match code & 0x7f {
        0x7c => f32::INFINITY.copysign(sign_of(code)),
        0x7d.. => f32::NAN,
        _ => widen::<2, 15>(code),
    }
}

/// Without branches that depend on the value, so that the compiler can do many at once.
#[inline(always)]
fn narrow<const FRACTION: u32, const BIAS: u32>(value: f32, largest: u32) -> u8 {
    let sign = value.to_bits() >> 24 & 0x80;
    let magnitude = value.to_bits() & 0x7fff_ffff;
    let dropped = 23 - FRACTION;
    // Just under half of the last kept bit carries exactly when rounding goes up; the lowest kept
    // bit joins in so that a tie goes to even.
    let lowest_kept = magnitude >> dropped & 1;
    let rounded = (magnitude + (1 << (dropped - 1)) - 1 + lowest_kept) >> dropped;
    let normal = rounded.wrapping_sub((127 - BIAS) << FRACTION);
    // At this number a float counts in the steps that subnormals have here, so adding it rounds.
    let exponent_of_step = 1 - BIAS.cast_signed() - FRACTION.cast_signed();
    let aligner = f32::from_bits((127 + 23 + exponent_of_step).cast_unsigned() << 23);
    let subnormal = (f32::from_bits(magnitude) + aligner).to_bits().wrapping_sub(aligner.to_bits());
    let smallest_normal = (128 - BIAS) << 23;
    let code = if magnitude < smallest_normal { subnormal } else { normal.min(largest) };
    let code = if magnitude > 0x7f80_0000 { 0x7f } else { code };
    (sign | code) as u8
}

fn widen<const FRACTION: u32, const BIAS: u32>(code: u8) -> f32 {
    let magnitude = u32::from(code & 0x7f);
    let (exponent, fraction) = (magnitude >> FRACTION, magnitude & ((1 << FRACTION) - 1));
    let wide = if exponent == 0 {
        // An integer times a power of two is exact.
        fraction as f32 * f32::from_bits((128 - BIAS - FRACTION) << 23)
    } else {
        f32::from_bits((exponent + 127 - BIAS) << 23 | fraction << (23 - FRACTION))
    };
    wide.copysign(sign_of(code))
}

fn sign_of(code: u8) -> f32 {
    if code & 0x80 == 0 { 1.0 } else { -1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Narrow = fn(f32) -> u8;
    type Widen = fn(u8) -> f32;

    const KINDS: [(Narrow, Widen, u8); 2] =
        [(f32_to_e4m3, e4m3_to_f32, 0x7e), (f32_to_e5m2, e5m2_to_f32, 0x7b)];

    #[test]
    fn codes_mean_what_the_specification_says() {
        for (code, value) in [
            (0x00, 0.0),
            (0x01, 2.0_f32.powi(-9)),
            (0x08, 2.0_f32.powi(-6)),
            (0x38, 1.0),
            (0x7e, 448.0),
        ] {
            assert_eq!(e4m3_to_f32(code), value);
            assert_eq!(e4m3_to_f32(code | 0x80), -value);
        }
        for code in 0..=u8::MAX {
            let f16 = crate::half::f16_to_f32(u16::from(code) << 8);
            let e5m2 = e5m2_to_f32(code);
            assert!(e5m2.to_bits() == f16.to_bits() || e5m2.is_nan() && f16.is_nan(), "{code:#x}");
        }
        assert!(e4m3_to_f32(0x7f).is_nan() && e4m3_to_f32(0xff).is_nan());
    }

    #[test]
    fn every_finite_code_survives_the_round_trip() {
        for (narrow, widen, largest) in KINDS {
            for code in (0..=largest).chain(0x80..=largest | 0x80) {
                assert_eq!(narrow(widen(code)), code, "{code:#x}");
            }
        }
    }

    #[test]
    fn narrowing_finds_the_nearest_and_ties_to_even() {
        for (narrow, widen, largest) in KINDS {
            for low in 0..largest {
                let (a, b) = (widen(low), widen(low + 1));
                let middle = a + (b - a) / 2.0;
                let even = low + low % 2;
                assert_eq!(narrow(middle), even, "{middle:e}");
                assert_eq!(narrow(-middle), even | 0x80, "{middle:e}");
                assert_eq!(narrow(middle.next_down()), low, "{middle:e}");
                assert_eq!(narrow(middle.next_up()), low + 1, "{middle:e}");
            }
            for huge in [widen(largest) * 1.5, f32::MAX, f32::INFINITY] {
                assert_eq!((narrow(huge), narrow(-huge)), (largest, largest | 0x80));
            }
            assert!(widen(narrow(f32::NAN)).is_nan());
            assert_eq!((narrow(1e-45), narrow(-1e-45)), (0, 0x80));
        }
    }
}
