//! Code that all x86-64 kernels share.

use std::arch::x86_64::*;

use crate::line::Line;

/// `vpmaddubsw`, which every AVX2 CPU has: pairs of products in 16 bits.
#[derive(Clone, Copy)]
pub(super) struct Madd;

/// `vpdpbusd` of VNNI: four products in 32 bits.
#[derive(Clone, Copy)]
pub(super) struct Vnni;

/// Largest sum of code magnitudes in a lane of [`Madd`]: two products of at most 128 times a code fit into
/// 16 bits.
pub(super) const MADD_CAPACITY: usize = 128;

/// The products of unsigned codes and signed activations in registers `R`.
///
/// # Safety
///
/// Callers have proof that the CPU has the instruction.
pub(super) trait Dot<R>: Copy {
    /// True with 32-bit sums, to which weights add with their bias of 128.
    const VNNI: bool;

    unsafe fn dot(sums: R, codes: R, activations: R) -> R;

    /// As [`dot`](Self::dot), for signed weights, or biased ones with [`VNNI`](Self::VNNI).
    unsafe fn dot_signed(sums: R, weights: R, activations: R) -> R;
}

/// Returns four activations as one number to broadcast.
#[inline(always)]
pub(super) fn quad_as_i32(quad: [i8; 4]) -> i32 {
    i32::from_le_bytes(quad.map(i8::cast_unsigned))
}

/// Returns two weights as one number to broadcast.
#[inline(always)]
pub(super) fn pair_as_i32([even, odd]: [i16; 2]) -> i32 {
    i32::from(odd) << 16 | i32::from(even.cast_unsigned())
}

/// Adds up eight lanes as [`F32x16::sum`](crate::lanes::F32x16::sum) does: 4 + 4, 2 + 2, 1 + 1.
///
/// # Safety
///
/// The CPU has AVX.
#[inline(always)]
pub(super) unsafe fn sum_of_eight(lanes: __m256) -> f32 {
    // SAFETY: the caller guarantees AVX.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }
}

/// Bytes in a cache line.
const CACHE_LINE: usize = 64;

/// Prefetches a slice into the second-level cache. The first level is too small for data that is not
/// read at once.
#[inline(always)]
pub(super) fn prefetch<T>(ahead: &[T]) {
    let start = ahead.as_ptr().cast::<i8>();
    for offset in (0..size_of_val(ahead)).step_by(CACHE_LINE) {
        // SAFETY: the address is within the slice, and a prefetch has no visible effect.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(start.add(offset)) };
    }
}

/// Distance of prefetching in a stream of lines. Less was too late, more gained nothing.
const BYTES_AHEAD: usize = 8 << 10;

/// Prefetches a line after `line`, which may be of another strip or past the end. Hardware prefetching
/// follows a stream of lines, but stops at the results that end a strip.
#[inline(always)]
pub(super) fn prefetch_after(line: &Line) {
    let ahead = line.0.as_ptr().wrapping_add(BYTES_AHEAD);
    // SAFETY: a prefetch has no visible effect at any address.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(ahead.cast()) };
}
