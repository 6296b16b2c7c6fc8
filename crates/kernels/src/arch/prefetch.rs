//! Hints to the caches.

/// Starts to fetch the line at `address` into the level-two cache. Any address will do: one that is not
/// mapped is ignored. Does nothing on CPUs other than x86-64.
#[inline(always)]
pub(crate) fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint, which does not access memory as far as the program can see.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::without_provenance(address)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
