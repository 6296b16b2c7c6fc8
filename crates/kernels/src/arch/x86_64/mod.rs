//! Code that all x86-64 kernels share.

mod peak;
mod stream;

use std::arch::asm;
use std::arch::x86_64::*;

use crate::line::Line;
pub(super) use peak::dot_instructions;
pub(super) use stream::fold;

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

/// MXCSR: rounding control (bits 13 and 14), flush to zero (15), denormals are zero (6).
pub(super) fn float_environment_is_default() -> bool {
    const ROUNDING_AND_FLUSHING: u32 = 0b11 << 13 | 1 << 15 | 1 << 6;
    let mut mxcsr = 0_u32;
    // SAFETY: stores 32 bits to a local of that size; SSE is part of x86-64.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags)) };
    mxcsr & ROUNDING_AND_FLUSHING == 0
}
