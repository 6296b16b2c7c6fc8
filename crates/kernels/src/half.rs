//! Conversion between 16-bit floats and single precision in software.
//!
//! Results are rounded to nearest, halves to even; subnormals are kept; a NaN stays a quiet NaN.
//! Hardware conversions are used only where they give the same bits.

/// Converts a float to bf16.
#[inline]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    // Adding just under half of the last kept bit carries exactly when rounding goes up; the lowest
    // kept bit joins in so that a tie goes to even. The carry out of f32::MAX is infinity, as due.
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    // Dropping the low half of a NaN could leave an infinity: set the quiet bit.
    let nan = bits >> 16 | 0x0040;
    (if value.is_nan() { nan } else { rounded }) as u16
}

/// Converts bf16 to a float, exactly.
#[inline]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Converts a float to f16. Values out of range become infinite.
pub fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let narrow = if magnitude > 0x7f80_0000 {
        0x7e00 | (magnitude >> 13 & 0x3ff) as u16
    } else if magnitude >= 0x4780_0000 {
        // 2^16 and more.
        0x7c00
    } else if magnitude >= 0x3880_0000 {
        // Normal, 2^-14 and more: the exponent bias goes from 127 to 15, ten bits of fraction stay.
        // A carry out of 65504 is infinity, as due.
        let lowest_kept = magnitude >> 13 & 1;
        ((magnitude - (112 << 23) + 0x0fff + lowest_kept) >> 13) as u16
    } else {
        // Subnormal. In [0.5, 1) a float counts in steps of 2^-24, just as f16 does here, so the
        // addition rounds to the right place, by IEEE rules.
        let aligned = f32::from_bits(magnitude) + 0.5;
        (aligned.to_bits() - 0.5_f32.to_bits()) as u16
    };
    sign | narrow
}

/// Converts f16 to a float, exactly.
pub fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff);
    let wide = match magnitude {
        // Steps of 2^-24: an integer times a power of two is exact.
        0..0x0400 => (magnitude as f32 * f32::from_bits((127 - 24) << 23)).to_bits(),
        0x0400..0x7c00 => (magnitude << 13) + (112 << 23),
        0x7c00 => 0x7f80_0000,
        _ => 0x7fc0_0000 | magnitude << 13,
    };
    f32::from_bits(sign | wide)
}

/// Converts a slice to bf16.
pub fn encode_bf16(values: &[f32], out: &mut [u16]) {
    encode(values, out, f32_to_bf16);
}

/// Converts a slice to f16.
pub fn encode_f16(values: &[f32], out: &mut [u16]) {
    encode(values, out, f32_to_f16);
}

#[inline(always)]
fn encode(values: &[f32], out: &mut [u16], narrow: impl Fn(f32) -> u16) {
    assert_eq!(values.len(), out.len(), "one result per value");
    for (out, value) in out.iter_mut().zip(values) {
        *out = narrow(*value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The neighbour of `value` among all finite numbers of a format, found by search: an
    /// independent definition of rounding. `decode` maps the magnitude bits 0..=`max` in order.
    fn nearest(value: f64, max: u16, decode: impl Fn(u16) -> f64) -> u16 {
        let (mut low, mut high) = (0, max);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if decode(middle) <= value { low = middle } else { high = middle }
        }
        let (below, above) = (value - decode(low), decode(high) - value);
        let up = above < below || (above == below && high % 2 == 0);
        if up { high } else { low }
    }

    /// Floats of every exponent, the ties between neighbouring short floats, and what is next to them.
    fn samples() -> impl Iterator<Item = f32> {
        (0..=u32::MAX / 4099).flat_map(|i| {
            let bits = (i * 4099) & 0x7fff_ffff;
            [bits, bits & !0xfff | 0x1000, bits & !0x1fff, bits & !0x7fff | 0x8000]
                .into_iter()
                .flat_map(|bits| [bits.wrapping_sub(1) & 0x7fff_ffff, bits, bits + 1])
                .map(f32::from_bits)
        })
    }

    #[test]
    fn every_short_float_survives_the_round_trip() {
        for bits in 0..=u16::MAX {
            let (bf16, f16) = (bf16_to_f32(bits), f16_to_f32(bits));
            if bf16.is_nan() {
                assert!(bf16_to_f32(f32_to_bf16(bf16)).is_nan());
            } else {
                assert_eq!(f32_to_bf16(bf16), bits);
            }
            if f16.is_nan() {
                assert!(f16_to_f32(f32_to_f16(f16)).is_nan());
            } else {
                assert_eq!(f32_to_f16(f16), bits);
            }
        }
    }

    #[test]
    fn f16_means_what_ieee_says() {
        for bits in 0..0x7c00_u16 {
            let (exponent, fraction) = (i32::from(bits >> 10), f64::from(bits & 0x3ff));
            let expected = match exponent {
                0 => fraction * 2.0_f64.powi(-24),
                _ => (1024.0 + fraction) * 2.0_f64.powi(exponent - 25),
            };
            assert_eq!(f64::from(f16_to_f32(bits)), expected, "{bits:#x}");
            assert_eq!(f64::from(f16_to_f32(bits | 0x8000)), -expected, "{bits:#x}");
        }
        assert_eq!(f16_to_f32(0x7c00), f32::INFINITY);
        assert_eq!(f16_to_f32(0xfc00), f32::NEG_INFINITY);
        assert!(f16_to_f32(0x7c01).is_nan());
    }

    #[test]
    fn narrowing_finds_the_nearest_and_ties_to_even() {
        for value in samples().step_by(if cfg!(target_arch = "aarch64") { 97 } else { 1 }) {
            if value.is_nan() {
                assert!(bf16_to_f32(f32_to_bf16(value)).is_nan());
                assert!(f16_to_f32(f32_to_f16(value)).is_nan());
                continue;
            }
            // Infinity stands where the next number would be, as IEEE rounding has it.
            let bf16 = nearest(value.into(), 0x7f80, |bits| match bits {
                0x7f80 => 2.0_f64.powi(128),
                _ => bf16_to_f32(bits).into(),
            });
            let f16 = nearest(value.into(), 0x7c00, |bits| match bits {
                0x7c00 => 65536.0,
                _ => f16_to_f32(bits).into(),
            });
            assert_eq!(f32_to_bf16(value), bf16, "{value:e}");
            assert_eq!(f32_to_f16(value), f16, "{value:e}");
            assert_eq!(f32_to_bf16(-value), bf16 | 0x8000, "{value:e}");
            assert_eq!(f32_to_f16(-value), f16 | 0x8000, "{value:e}");
        }
    }

    #[test]
    fn subnormals_are_kept() {
        assert_eq!(f32_to_bf16(f32::from_bits(0x0070_0000)), 0x0070);
        assert_eq!(f32_to_f16(2.0_f32.powi(-24)), 1);
    }

    #[test]
    fn slices_are_encoded_value_by_value() {
        let values = [1.0, -0.1, f32::MAX, 1e-30];
        let mut out = [0; 4];
        encode_bf16(&values, &mut out);
        assert_eq!(out, values.map(f32_to_bf16));
        encode_f16(&values, &mut out);
        assert_eq!(out, values.map(f32_to_f16));
    }
}
