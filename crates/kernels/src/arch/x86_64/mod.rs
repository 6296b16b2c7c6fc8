//! Kernels for x86-64.

mod avx2;
mod avx512;

use std::arch::asm;

use crate::Kernel;

/// AVX2 with FMA and F16C, if this CPU has them.
pub(super) fn avx2() -> Option<&'static dyn Kernel> {
    avx2::Avx2::detect().map(|kernel| kernel as _)
}

/// AVX-512 with VNNI, if this CPU has it.
pub(super) fn avx512vnni() -> Option<&'static dyn Kernel> {
    avx512::Avx512::detect().map(|kernel| kernel as _)
}

/// MXCSR: rounding control (bits 13 and 14), flush to zero (15), denormals are zero (6).
pub(super) fn float_environment_is_default() -> bool {
    const ROUNDING_AND_FLUSHING: u32 = 0b11 << 13 | 1 << 15 | 1 << 6;
    let mut mxcsr = 0_u32;
    // SAFETY: stores 32 bits to a local of that size; SSE is part of x86-64.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags)) };
    mxcsr & ROUNDING_AND_FLUSHING == 0
}
