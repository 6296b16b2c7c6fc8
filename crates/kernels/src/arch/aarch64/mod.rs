//! Kernels for 64-bit Arm.

mod neon;
mod peak;

use std::arch::asm;

use crate::Kernel;
use neon::Neon;
pub(super) use peak::dot_instructions;

/// The kernels this CPU has, or `None` in their place, the best last.
pub(super) fn kernels() -> [Option<&'static dyn Kernel>; 3] {
    [
        Some(Neon::always()),
        Neon::<neon::Dotprod>::detect().map(|kernel| kernel as _),
        Neon::<neon::I8mm>::detect().map(|kernel| kernel as _),
    ]
}

/// The system call: advice about the pages from `start`, which is aligned to them, to `start + len`.
/// What the system answers does not matter.
#[cfg(target_os = "linux")]
pub(super) fn madvise(start: usize, len: usize, advice: usize) {
    const MADVISE: usize = 233;
    // SAFETY: advice changes nothing a program can see of its memory, and a system call changes no
    // registers but these.
    unsafe {
        asm!(
            "svc 0",
            in("x8") MADVISE,
            inlateout("x0") start => _,
            in("x1") len,
            in("x2") advice,
            options(nostack)
        );
    }
}

/// FPCR: rounding mode (bits 22 and 23), flush to zero (24, and 19 for f16), and the bits 0 and 1,
/// which flush inputs and change how tiny results are found on CPUs that have them.
pub(super) fn float_environment_is_default() -> bool {
    const ROUNDING_AND_FLUSHING: u64 = 0b11 << 22 | 1 << 24 | 1 << 19 | 0b11;
    let fpcr: u64;
    // SAFETY: only reads a register that user programs may read.
    unsafe { asm!("mrs {}, fpcr", out(reg) fpcr, options(nomem, nostack, preserves_flags)) };
    fpcr & ROUNDING_AND_FLUSHING == 0
}
