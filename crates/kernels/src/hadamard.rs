//! The Walsh–Hadamard transform of a block.
//!
//! It consists of additions and subtractions of pairs in a fixed order, and one product for each element: plain
//! code has the same bits on every instruction set, and compilers find the lanes in it.

use crate::lanes::Simd;

#[inline(always)]
pub(crate) fn hadamard<S: Simd>(_: S, x: &[f32], signs: &[f32], scale: f32, out: &mut [f32]) {
    assert!(out.len().is_power_of_two(), "{} columns in a block, a power of two", out.len());
    assert_eq!((x.len(), signs.len()), (out.len(), out.len()), "x, signs and out of one length");
    for ((out, x), sign) in out.iter_mut().zip(x).zip(signs) {
        *out = x * sign;
    }
    let (chunks, short) = out.as_chunks_mut::<16>();
    for chunk in chunks {
        *chunk = pairs::<8>(pairs::<4>(pairs::<2>(pairs::<1>(*chunk))));
    }
    far_pairs(short, 1);
    far_pairs(out, 16);
    out.iter_mut().for_each(|out| *out *= scale);
}

/// Replaces elements that are `DISTANCE` apart by their sum and their difference.
#[inline(always)]
fn pairs<const DISTANCE: usize>(x: [f32; 16]) -> [f32; 16] {
    std::array::from_fn(|at| {
        let other = x[at ^ DISTANCE];
        if at & DISTANCE == 0 { x[at] + other } else { other - x[at] }
    })
}

/// The same for all distances from `distance` on.
#[inline(always)]
fn far_pairs(x: &mut [f32], mut distance: usize) {
    while distance < x.len() {
        for both in x.chunks_exact_mut(2 * distance) {
            let (first, second) = both.split_at_mut(distance);
            for (first, second) in first.iter_mut().zip(second) {
                (*first, *second) = (*first + *second, *first - *second);
            }
        }
        distance *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Scalar;

    /// Returns the transform by its definition, which is exact for small whole numbers.
    fn by_definition(x: &[f32], signs: &[f32]) -> Vec<f32> {
        let sign =
            |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        let row = |i| (0..x.len()).map(|j| sign(i, j) * signs[j] * x[j]).sum();
        (0..x.len()).map(row).collect()
    }

    #[test]
    fn a_block_is_multiplied_by_the_matrix_of_sylvester() {
        for len in [1, 2, 4, 8, 16, 32, 128, 1024] {
            let x: Vec<f32> = (0..len).map(|i| (i * 37 % 101) as f32 - 50.0).collect();
            let signs: Vec<f32> = (0..len).map(|i| [1.0, -1.0][i / 3 % 2]).collect();
            let mut out = vec![0.0; len];
            hadamard(Scalar, &x, &signs, 1.0, &mut out);
            assert_eq!(out, by_definition(&x, &signs), "{len}");
            let scale = 1.0 / len as f32;
            let mut back = vec![0.0; len];
            hadamard(Scalar, &out, &vec![1.0; len], scale, &mut back);
            let signed: Vec<f32> = x.iter().zip(&signs).map(|(x, sign)| x * sign).collect();
            assert_eq!(back, signed, "{len}: its own inverse");
        }
    }
}
