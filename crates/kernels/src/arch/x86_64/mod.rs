//! Kernels for x86-64.

mod avx2;
mod avx512;

use std::arch::asm;
use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

use crate::Kernel;

/// AVX2 with FMA and F16C, if this CPU has them.
pub(super) fn avx2() -> Option<&'static dyn Kernel> {
    avx2::Avx2::detect().map(|kernel| kernel as _)
}

/// AVX-512 with VNNI, if this CPU has it.
pub(super) fn avx512vnni() -> Option<&'static dyn Kernel> {
    avx512::Avx512::detect().map(|kernel| kernel as _)
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
