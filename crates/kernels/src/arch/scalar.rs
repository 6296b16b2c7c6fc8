//! Plain Rust: the reference for all other kernels, and the kernel of CPUs without any of them.

use super::inlined;
use crate::half::{bf16_to_f32, f16_to_f32};
use crate::int_lanes::{ColumnQuads, ColumnSums, IntLanes, Interleave, QuadBlock};
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

    inlined! {
        fn splat(self, value: f32) -> Array { Array([value; 16]) }
        fn load(self, values: &[f32; 16]) -> Array { Array(*values) }
        fn load_i32(self, values: &[i32; 16]) -> Array { Array(values.map(|value| value as f32)) }
        fn load_bf16(self, values: &[u16; 16]) -> Array { Array(values.map(bf16_to_f32)) }
        fn load_bf16_pairs(self, pairs: &[[u16; 2]; 16]) -> [Array; 2] {
            [0, 1].map(|i| Array(pairs.map(|pair| bf16_to_f32(pair[i]))))
        }
        fn load_f16(self, values: &[u16; 16]) -> Array { Array(values.map(f16_to_f32)) }
    }
}

impl F32x16 for Array {
    inlined! {
        fn store(self, out: &mut [f32; 16]) { *out = self.0 }
        fn add(self, other: Self) -> Self { self.zip(other, |a, b| a + b) }
        fn sub(self, other: Self) -> Self { self.zip(other, |a, b| a - b) }
        fn mul(self, other: Self) -> Self { self.zip(other, |a, b| a * b) }
        fn div(self, other: Self) -> Self { self.zip(other, |a, b| a / b) }
        fn max(self, other: Self) -> Self { self.zip(other, |a, b| if a > b { a } else { b }) }
        fn min(self, other: Self) -> Self { self.zip(other, |a, b| if a < b { a } else { b }) }

        fn mul_add(self, factor: Self, addend: Self) -> Self {
            Self(std::array::from_fn(|i| self.0[i].mul_add(factor.0[i], addend.0[i])))
        }

        fn max_abs(self, other: Self) -> Self {
            self.zip(other, |a, b| f32::from_bits(a.abs().to_bits().max(b.abs().to_bits())))
        }

        fn round(self) -> Self { Self(self.0.map(f32::round_ties_even)) }

        fn exp2_of_integer(self) -> Self {
            let exponent = |n: f32| (n as i32).wrapping_add(127).wrapping_shl(23);
            Self(self.0.map(|n| f32::from_bits(exponent(n) as u32)))
        }

        fn store_i8(self, out: &mut [i8; 16]) { *out = self.0.map(|x| x as i8) }
    }
}

/// The bytes of a line, or the products of such bytes.
type Words = [i16; 64];

/// Widens numbers of eight bits. A loop, because the closure of a `map` may remain a call.
#[inline(always)]
fn widened<T: Copy + Into<i16>, const N: usize>(values: &[T; N]) -> [i16; N] {
    let mut words = [0; N];
    for (word, value) in words.iter_mut().zip(values) {
        *word = (*value).into();
    }
    words
}

/// Every operation works element by element on 16 or 32 bits, which compilers turn into the vector
/// instructions that every CPU has; a loop that adds neighbours takes up to twenty times as long. The
/// four sums of a row are added when stored.
impl IntLanes for Scalar {
    type Bytes = Words;
    type Narrow = Words;
    type Sums = [i32; 64];
    type Quads<'a> = &'a QuadBlock;
    type Pairs = [i8; 32];
    type Columns = [i32; 32];

    /// One product of at most 128 times a code in each element.
    const CAPACITY: usize = 256;

    inlined! {
        fn load_bytes(self, line: &[u8; 64], _pass: usize) -> Words { widened(line) }

        fn load_activations(self, activations: &[i8; 64], _pass: usize) -> Words {
            widened(activations)
        }

        fn field(self, mut bytes: Words, shift: usize, mask: u8) -> Words {
            for byte in &mut bytes {
                *byte = *byte >> shift & i16::from(mask);
            }
            bytes
        }

        fn signed(self, mut bytes: Words) -> Words {
            for byte in &mut bytes {
                *byte -= i16::from(BIAS);
            }
            bytes
        }

        fn quads(self, activations: &QuadBlock) -> &QuadBlock { activations }

        fn zero(self) -> Words { [0; 64] }

        fn dot(self, mut sums: Words, codes: Words, activations: Words) -> Words {
            for i in 0..64 {
                sums[i] += codes[i] * activations[i];
            }
            sums
        }

        fn dot_quad<const QUAD: usize>(
            self, sums: Words, codes: Words, quads: &QuadBlock,
        ) -> Words {
            self.dot(sums, codes, self.broadcast(quads[QUAD]))
        }

        fn splat_sums(self, value: i32) -> [i32; 64] { self.load_sums(&[value; STRIP]) }

        fn widen(self, mut sums: [i32; 64], narrow: Words, _shift: usize) -> [i32; 64] {
            for i in 0..64 {
                sums[i] += i32::from(narrow[i]);
            }
            sums
        }

        fn store_sums(self, sums: [i32; 64], out: &mut [i32; STRIP], _pass: usize) {
            for (out, [a, b, c, d]) in out.iter_mut().zip(sums.as_chunks().0) {
                *out = a + b + c + d;
            }
        }

        fn total(self, sums: [i32; 64]) -> i32 { sums.iter().sum() }

        fn load_pairs(self, values: &[i8; 32]) -> [i8; 32] { *values }

        fn zero_columns(self) -> [i32; 32] { [0; 32] }

        fn dot_pairs(self, mut sums: [i32; 32], pairs: [i8; 32], weights: [i16; 2]) -> [i32; 32] {
            for i in 0..32 {
                sums[i] += i32::from(pairs[i]) * i32::from(weights[i % 2]);
            }
            sums
        }

        fn store_columns(self, sums: [i32; 32], out: &mut [i32; 16]) {
            for (out, [even, odd]) in out.iter_mut().zip(sums.as_chunks().0) {
                *out = even + odd;
            }
        }

        fn accumulate_columns(self, quads: ColumnQuads<'_>, sums: &mut ColumnSums) {
            add_columns(self, quads, sums);
        }
    }
}

impl Interleave for Scalar {
    inlined! {
        fn interleave(self, columns: [Words; 4]) -> [Words; 4] {
            let byte = |k: usize, i: usize| columns[i % 4][16 * (i / 16) + 4 * k + i % 16 / 4];
            std::array::from_fn(|k| std::array::from_fn(|i| byte(k, i)))
        }

        fn broadcast(self, quad: [i8; 4]) -> Words {
            let mut words = [0; 64];
            words.as_chunks_mut().0.fill(quad.map(i16::from));
            words
        }

        fn load_sums(self, sums: &[i32; STRIP]) -> [i32; 64] {
            let mut first_of_four = [0; 64];
            for (four, sum) in first_of_four.as_chunks_mut::<4>().0.iter_mut().zip(sums) {
                four[0] = *sum;
            }
            first_of_four
        }
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
