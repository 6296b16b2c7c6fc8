//! The definition of correct: plain Rust, no tricks, never optimised.

use crate::half::{bf16_to_f32, f16_to_f32};
use crate::int8::{BIAS, INT8_LINE_COLS, Int8Sums};
use crate::lanes::{F32x16, Simd};
use crate::layout::{five_trits, quad_lines};
use crate::line::{Line, STRIP};
use crate::product::LineSums;
use crate::sparse::SparseSums;
use crate::{Isa, QuantRow};

/// Every CPU has this.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

super::implement_kernel!(Scalar, Isa::Scalar);

/// Sixteen floats in an array.
#[derive(Clone, Copy)]
pub(crate) struct Array([f32; 16]);

impl Array {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl Simd for Scalar {
    type Lanes = Array;

    #[inline(always)]
    fn splat(self, value: f32) -> Array {
        Array([value; 16])
    }

    #[inline(always)]
    fn load(self, values: &[f32; 16]) -> Array {
        Array(*values)
    }

    #[inline(always)]
    fn load_i32(self, values: &[i32; 16]) -> Array {
        Array(values.map(|value| value as f32))
    }

    #[inline(always)]
    fn load_bf16(self, values: &[u16; 16]) -> Array {
        Array(values.map(bf16_to_f32))
    }

    #[inline(always)]
    fn load_f16(self, values: &[u16; 16]) -> Array {
        Array(values.map(f16_to_f32))
    }
}

impl F32x16 for Array {
    #[inline(always)]
    fn store(self, out: &mut [f32; 16]) {
        *out = self.0;
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].mul_add(factor.0[i], addend.0[i])))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn max_abs(self, other: Self) -> Self {
        self.zip(other, |a, b| f32::from_bits(a.abs().to_bits().max(b.abs().to_bits())))
    }

    #[inline(always)]
    fn round(self) -> Self {
        Self(self.0.map(f32::round_ties_even))
    }

    #[inline(always)]
    fn exp2_of_integer(self) -> Self {
        Self(self.0.map(|n| f32::from_bits((n as i32).wrapping_add(127).wrapping_shl(23) as u32)))
    }

    #[inline(always)]
    fn store_i8(self, out: &mut [i8; 16]) {
        *out = self.0.map(|x| x as i8);
    }
}

impl LineSums for Scalar {
    fn line_sums<const T: usize>(self, lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
        tokens.map(|activations| sums(lines, activations, quad_lines::codes))
    }

    fn five_trit_sums<const T: usize>(
        self,
        lines: &[Line],
        tokens: [&[i8]; T],
    ) -> [[i32; STRIP]; T] {
        tokens.map(|activations| sums(lines, activations, five_trits::codes))
    }
}

/// Sums over lines whose bytes hold the codes of `PARTS` columns, four apart.
fn sums<const PARTS: usize>(
    lines: &[Line],
    activations: &[i8],
    codes: impl Fn(u8) -> [u8; PARTS],
) -> [i32; STRIP] {
    let mut sums = [0; STRIP];
    for (line, activations) in lines.iter().zip(activations.chunks(4 * PARTS)) {
        for (row, sum) in sums.iter_mut().enumerate() {
            for (column, &activation) in activations.iter().enumerate() {
                let (part, byte) = (column / 4, column % 4);
                let code = codes(line.0[4 * row + byte])[part];
                *sum += i32::from(code) * i32::from(activation);
            }
        }
    }
    sums
}

impl Int8Sums for Scalar {
    fn int8_sums<const T: usize>(self, lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
        xs.map(|x| {
            let mut sums = [0; STRIP];
            for (line, codes) in lines.iter().zip(x.codes().as_chunks::<INT8_LINE_COLS>().0) {
                for (row, sum) in sums.iter_mut().enumerate() {
                    for (column, &code) in codes.iter().enumerate() {
                        let weight = (line.0[4 * row + column] ^ BIAS).cast_signed();
                        *sum += i32::from(weight) * i32::from(code);
                    }
                }
            }
            sums
        })
    }
}

/// As the trait defines them.
impl SparseSums for Scalar {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_do_what_their_definition_says() {
        crate::lanes::tests::check_lanes(Scalar);
    }
}
