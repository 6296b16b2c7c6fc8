//! Kernels for x86-64.

#[cfg(target_os = "linux")]
mod amx;
mod avx2;
mod avx512;
mod peak;
mod stream;

use std::arch::asm;
use std::arch::x86_64::*;

use crate::Kernel;
use crate::line::Line;
use avx2::Avx2;
use avx512::Avx512;
pub(super) use peak::dot_instructions;
pub(super) use stream::fold;

/// The kernels this CPU has, or `None` in their place, the best last.
pub(super) fn kernels() -> [Option<&'static dyn Kernel>; 5] {
    [
        Avx2::<avx2::Madd>::detect().map(|kernel| kernel as _),
        Avx512::<avx512::Madd>::detect().map(|kernel| kernel as _),
        Avx2::<avx2::Vnni>::detect().map(|kernel| kernel as _),
        Avx512::<avx512::Vnni>::detect().map(|kernel| kernel as _),
        amx().ok(),
    ]
}

/// AVX-512 with VNNI and AMX tiles; or a sentence that says why not.
pub(super) fn amx() -> Result<&'static dyn Kernel, &'static str> {
    #[cfg(target_os = "linux")]
    return amx::Amx::detect().map(|kernel| kernel as _);
    #[cfg(not(target_os = "linux"))]
    return Err("AMX tiles are used on Linux only");
}

/// Eight lanes added up as [`F32x16::sum`](crate::lanes::F32x16::sum) does: 4 + 4, 2 + 2, 1 + 1.
///
/// # Safety
///
/// The CPU has AVX.
#[inline(always)]
unsafe fn sum_of_eight(lanes: __m256) -> f32 {
    // SAFETY: the caller says that the CPU has AVX.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }
}

/// Bytes in a cache line.
const CACHE_LINE: usize = 64;

/// Brings `ahead` into the second level cache: the first has no room for what is not read at once.
#[inline(always)]
fn prefetch<T>(ahead: &[T]) {
    let start = ahead.as_ptr().cast::<i8>();
    for offset in (0..size_of_val(ahead)).step_by(CACHE_LINE) {
        // SAFETY: the address is within the slice, and a prefetch reads nothing into the program.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(start.add(offset)) };
    }
}

/// How far ahead a stream of lines is asked for. Nearer came too late, farther gave nothing.
const BYTES_AHEAD: usize = 8 << 10;

/// Asks for a line to come, which may be of another strip or of none. CPUs do so by themselves while
/// lines follow each other, but they do not see past the results that end a strip.
#[inline(always)]
pub(super) fn prefetch_after(line: &Line) {
    let ahead = line.0.as_ptr().wrapping_add(BYTES_AHEAD);
    // SAFETY: a prefetch reads nothing into the program, and any address will do.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(ahead.cast()) };
}

/// The system call: advice about the pages from `start`, which is aligned to them, to `start + len`.
/// What the system answers does not matter.
#[cfg(target_os = "linux")]
pub(super) fn madvise(start: usize, len: usize, advice: usize) {
    const MADVISE: isize = 28;
    // SAFETY: advice changes nothing a program can see of its memory, and a system call changes no
    // registers but these.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") MADVISE => _,
            in("rdi") start,
            in("rsi") len,
            in("rdx") advice,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
}

/// MXCSR: rounding control (bits 13 and 14), flush to zero (15), denormals are zero (6).
pub(super) fn float_environment_is_default() -> bool {
    const ROUNDING_AND_FLUSHING: u32 = 0b11 << 13 | 1 << 15 | 1 << 6;
    let mut mxcsr = 0_u32;
    // SAFETY: stores 32 bits to a local of that size; SSE is part of x86-64.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags)) };
    mxcsr & ROUNDING_AND_FLUSHING == 0
}
