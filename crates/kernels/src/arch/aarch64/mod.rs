//! Code that all 64-bit Arm kernels share.

mod peak;

use std::arch::asm;

pub(super) use peak::dot_instructions;

/// FPCR: rounding mode (bits 22 and 23), flush to zero (24, and 19 for f16), and the bits 0 and 1,
/// which flush inputs and change how tiny results are found on CPUs that have them.
pub(super) fn float_environment_is_default() -> bool {
    const ROUNDING_AND_FLUSHING: u64 = 0b11 << 22 | 1 << 24 | 1 << 19 | 0b11;
    let fpcr: u64;
    // SAFETY: only reads a register that user programs may read.
    unsafe { asm!("mrs {}, fpcr", out(reg) fpcr, options(nomem, nostack, preserves_flags)) };
    fpcr & ROUNDING_AND_FLUSHING == 0
}
