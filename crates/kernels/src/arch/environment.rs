//! The floating-point environment of a thread.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::arch::asm;

/// Returns `true` if floats round to nearest and subnormals are kept on this thread. Foreign code can
/// change both for a thread, and new threads inherit it.
pub(crate) fn float_environment_is_default() -> bool {
    // Miri follows the default rules and cannot read the register.
    cfg!(miri) || register_is_default()
}

/// MXCSR: rounding control (bits 13 and 14), flush to zero (15), denormals are zero (6).
#[cfg(target_arch = "x86_64")]
fn register_is_default() -> bool {
    const ROUNDING_AND_FLUSHING: u32 = 0b11 << 13 | 1 << 15 | 1 << 6;
    let mut mxcsr = 0_u32;
    // SAFETY: stores 32 bits to a local of that size; SSE is part of x86-64.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags)) };
    mxcsr & ROUNDING_AND_FLUSHING == 0
}

/// FPCR: rounding mode (bits 22 and 23), flush to zero (24, and 19 for f16), and the bits 0 and 1,
/// which flush inputs and change how tiny results are found on CPUs that have them.
#[cfg(target_arch = "aarch64")]
fn register_is_default() -> bool {
    const ROUNDING_AND_FLUSHING: u64 = 0b11 << 22 | 1 << 24 | 1 << 19 | 0b11;
    let fpcr: u64;
    // SAFETY: only reads a register that user programs may read.
    unsafe { asm!("mrs {}, fpcr", out(reg) fpcr, options(nomem, nostack, preserves_flags)) };
    fpcr & ROUNDING_AND_FLUSHING == 0
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn register_is_default() -> bool {
    true
}
