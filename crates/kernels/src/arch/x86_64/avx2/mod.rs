//! AVX2 with FMA and F16C: sixteen lanes are two registers, and so is a line.

mod lanes;
mod madd;
pub(super) mod sparse;
pub(super) mod values;
mod vnni;

use std::arch::x86_64::*;

use crate::Isa;

/// Proof that this CPU has AVX2, FMA, F16C, and the way to add up products of bytes that `Dot`
/// names; only `detect` makes one.
#[derive(Clone, Copy)]
pub(super) struct Avx2<Dot = Madd>(Dot);

/// In 16 bits, as all of these CPUs can.
#[derive(Clone, Copy)]
pub(super) struct Madd(());

/// In 32 bits, with AVX-VNNI.
#[derive(Clone, Copy)]
pub(super) struct Vnni(());

impl Avx2<Madd> {
    pub(super) fn detect() -> Option<&'static Self> {
        has_avx2().then_some(&Self(Madd(())))
    }
}

impl Avx2<Vnni> {
    pub(super) fn detect() -> Option<&'static Self> {
        let has_all = has_avx2() && is_x86_feature_detected!("avxvnni");
        has_all.then_some(&Self(Vnni(())))
    }
}

fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
}

crate::arch::implement_kernel!(Avx2<Madd>, Isa::Avx2, "avx2,fma,f16c");
crate::arch::implement_kernel!(Avx2<Vnni>, Isa::AvxVnni, "avx2,fma,f16c,avxvnni");

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store(low: __m256i, high: __m256i) -> [i32; 16] {
    let mut out = [0_i32; 16];
    for (lanes, out) in [low, high].into_iter().zip(out.as_chunks_mut::<8>().0) {
        // SAFETY: 32 writable bytes; the store needs no alignment.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), lanes) };
    }
    out
}
