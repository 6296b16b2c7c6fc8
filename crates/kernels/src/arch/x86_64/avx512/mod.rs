//! AVX-512 F, BW, VL and DQ: sixteen lanes are one register, and so is a line.

mod five_trits;
mod lanes;
mod madd;
mod sparse;
mod vnni;

use std::arch::x86_64::*;

use crate::Isa;

/// Proof that this CPU has AVX2, FMA, F16C, AVX-512 F, BW, VL and DQ, and the way to add up products
/// of bytes that `Dot` names; only `detect` makes one.
#[derive(Clone, Copy)]
pub(super) struct Avx512<Dot = Vnni>(Dot);

/// In 16 bits, as all of these CPUs can.
#[derive(Clone, Copy)]
pub(super) struct Madd(());

/// In 32 bits, with VNNI.
#[derive(Clone, Copy)]
pub(super) struct Vnni {
    /// Whether there is VBMI as well, which is good for one layout.
    vbmi: bool,
}

impl Avx512<Madd> {
    pub(super) fn detect() -> Option<&'static Self> {
        has_avx512().then_some(&Self(Madd(())))
    }
}

impl Avx512<Vnni> {
    pub(super) fn detect() -> Option<&'static Self> {
        let has_all = has_avx512() && is_x86_feature_detected!("avx512vnni");
        let vbmi = is_x86_feature_detected!("avx512vbmi");
        let (with, without) = (&Self(Vnni { vbmi: true }), &Self(Vnni { vbmi: false }));
        has_all.then_some(if vbmi { with } else { without })
    }
}

fn has_avx512() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
}

crate::arch::implement_kernel!(
    Avx512<Madd>,
    Isa::Avx512,
    "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq"
);
crate::arch::implement_kernel!(
    Avx512<Vnni>,
    Isa::Avx512Vnni,
    "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"
);

/// Four activations, for all rows.
#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast(quad: [i8; 4]) -> __m512i {
    _mm512_set1_epi32(i32::from_le_bytes(quad.map(i8::cast_unsigned)))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(lanes: __m512i) -> [i32; 16] {
    let mut out = [0; 16];
    // SAFETY: 64 writable bytes; the store needs no alignment.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), lanes) };
    out
}
