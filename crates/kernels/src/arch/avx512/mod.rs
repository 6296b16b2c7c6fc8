//! AVX-512 F, BW, VL and DQ: sixteen lanes are one register, and so is a line.

mod five_trits;
mod float;
mod int;

use std::arch::x86_64::{__m512i, _mm512_set1_epi32};

use crate::{Isa, Kernel};

/// Proof that this CPU has AVX2, FMA, F16C, AVX-512 F, BW, VL and DQ, and the byte dot product that
/// `Dot` names.
///
/// Only detection creates one.
#[derive(Clone, Copy)]
pub(super) struct Avx512<Dot = Vnni>(Dot);

/// `vpmaddubsw`, which every such CPU has: pairs of products in 16 bits.
#[derive(Clone, Copy)]
pub(super) struct Madd(());

/// `vpdpbusd` of VNNI: four products in 32 bits.
#[derive(Clone, Copy)]
pub(super) struct Vnni {
    /// True if the CPU has VBMI, which decodes five trits per byte.
    vbmi: bool,
}

super::implement_kernel!(
    Avx512<Madd>,
    Isa::Avx512,
    compiled "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq"
);
super::implement_kernel!(
    Avx512<Vnni>,
    Isa::Avx512Vnni,
    compiled "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"
);

pub(super) fn detect() -> Option<&'static dyn Kernel> {
    has_avx512().then_some(&Avx512(Madd(())))
}

pub(super) fn detect_vnni() -> Option<&'static dyn Kernel> {
    Avx512::with_vnni().map(|kernel| kernel as _)
}

impl Avx512<Vnni> {
    pub(super) fn with_vnni() -> Option<&'static Self> {
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

/// Runs an intrinsic of these instruction sets.
macro_rules! on_cpu {
    ($call:expr) => {{
        // SAFETY: an `Avx512` exists, or lanes that only an `Avx512` creates, so the CPU has AVX-512 and
        // the dot product named; pointers are to arrays of the size of the access, which needs no
        // alignment.
        unsafe { $call }
    }};
}
use on_cpu;

/// Returns four activations for every row.
#[inline(always)]
fn broadcast(quad: [i8; 4]) -> __m512i {
    on_cpu!(_mm512_set1_epi32(i32::from_le_bytes(quad.map(i8::cast_unsigned))))
}
