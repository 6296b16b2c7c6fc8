//! Plain Rust, never optimised by hand: the reference for all other kernels.

use crate::half::{bf16_to_f32, f16_to_f32};
use crate::int_lanes::{COLUMN_LINE_ROWS, ColumnLines, IntLanes, Interleave, QuadBlock};
use crate::int8::BIAS;
use crate::lanes::{F32x16, Simd};
use crate::line::STRIP;
use crate::sums::add_columns;
use crate::{Isa, Kernel};

/// The kernel that every CPU runs.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

super::implement_kernel!(Scalar, Isa::Scalar, plain);

#[expect(clippy::unnecessary_wraps, reason = "the signature of a detection")]
pub(super) fn detect() -> Option<&'static dyn Kernel> {
    Some(&Scalar)
}

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

impl IntLanes for Scalar {
    type Bytes = [u8; 64];
    type Narrow = [i32; STRIP];
    type Sums = [i32; STRIP];
    type Quads<'a> = &'a QuadBlock;
    type Pairs = [i8; 32];
    type Columns = [i32; 16];

    #[inline(always)]
    fn load_bytes(self, line: &[u8; 64], _pass: usize) -> [u8; 64] {
        *line
    }

    #[inline(always)]
    fn load_activations(self, activations: &[i8; 64], _pass: usize) -> [u8; 64] {
        activations.map(i8::cast_unsigned)
    }

    #[inline(always)]
    fn field(self, bytes: [u8; 64], shift: usize, mask: u8) -> [u8; 64] {
        bytes.map(|byte| byte >> shift & mask)
    }

    #[inline(always)]
    fn quads(self, activations: &QuadBlock) -> &QuadBlock {
        activations
    }

    #[inline(always)]
    fn zero(self) -> [i32; STRIP] {
        [0; STRIP]
    }

    #[inline(always)]
    fn dot(self, sums: [i32; STRIP], codes: [u8; 64], activations: [u8; 64]) -> [i32; STRIP] {
        std::array::from_fn(|row| {
            let products = (4 * row..4 * row + 4)
                .map(|i| i32::from(codes[i]) * i32::from(activations[i].cast_signed()));
            sums[row] + products.sum::<i32>()
        })
    }

    #[inline(always)]
    fn dot_quad<const QUAD: usize>(
        self,
        sums: [i32; STRIP],
        codes: [u8; 64],
        quads: &QuadBlock,
    ) -> [i32; STRIP] {
        self.dot(sums, codes, self.broadcast(quads[QUAD]))
    }

    #[inline(always)]
    fn dot_signed<const QUAD: usize>(
        self,
        sums: [i32; STRIP],
        weights: [u8; 64],
        quads: &QuadBlock,
    ) -> [i32; STRIP] {
        std::array::from_fn(|row| {
            let weights = weights[4 * row..4 * row + 4].iter();
            let products = weights.zip(quads[QUAD]).map(|(weight, activation)| {
                i32::from((weight ^ BIAS).cast_signed()) * i32::from(activation)
            });
            sums[row] + products.sum::<i32>()
        })
    }

    #[inline(always)]
    fn splat_sums(self, value: i32) -> [i32; STRIP] {
        [value; STRIP]
    }

    #[inline(always)]
    fn widen(self, sums: [i32; STRIP], narrow: [i32; STRIP], _shift: usize) -> [i32; STRIP] {
        std::array::from_fn(|row| sums[row] + narrow[row])
    }

    #[inline(always)]
    fn store_sums(self, sums: [i32; STRIP], out: &mut [i32; STRIP], _pass: usize) {
        *out = sums;
    }

    #[inline(always)]
    fn total(self, sums: [i32; STRIP]) -> i32 {
        sums.iter().sum()
    }

    #[inline(always)]
    fn load_pairs(self, values: &[i8; 32]) -> [i8; 32] {
        *values
    }

    #[inline(always)]
    fn zero_columns(self) -> [i32; 16] {
        [0; 16]
    }

    #[inline(always)]
    fn dot_pairs(self, sums: [i32; 16], pairs: [i8; 32], weights: [i16; 2]) -> [i32; 16] {
        let [even, odd] = weights.map(i32::from);
        std::array::from_fn(|column| {
            let [a, b] = [pairs[2 * column], pairs[2 * column + 1]].map(i32::from);
            sums[column] + even * a + odd * b
        })
    }

    #[inline(always)]
    fn store_columns(self, sums: [i32; 16], out: &mut [i32; 16]) {
        *out = sums;
    }

    #[inline(always)]
    fn add_columns(
        self,
        lines: ColumnLines<'_>,
        columns: &[[u32; 4]],
        codes: &[[i8; 4]],
        sums: &mut [i32; COLUMN_LINE_ROWS],
    ) {
        add_columns(self, lines, columns, codes, sums);
    }
}

impl Interleave for Scalar {
    #[inline(always)]
    fn interleave(self, columns: [[u8; 64]; 4]) -> [[u8; 64]; 4] {
        std::array::from_fn(|k| {
            std::array::from_fn(|i| columns[i % 4][16 * (i / 16) + 4 * k + i % 16 / 4])
        })
    }

    #[inline(always)]
    fn broadcast(self, quad: [i8; 4]) -> [u8; 64] {
        std::array::from_fn(|i| quad[i % 4].cast_unsigned())
    }

    #[inline(always)]
    fn load_sums(self, sums: &[i32; STRIP]) -> [i32; STRIP] {
        *sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_follow_their_definition() {
        crate::lanes::tests::check_lanes(Scalar);
    }

    #[test]
    fn sums_follow_their_definition() {
        crate::sums::tests::check_sums(Scalar);
    }
}
