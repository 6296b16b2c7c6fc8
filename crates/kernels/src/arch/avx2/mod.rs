//! AVX2 with FMA and F16C: sixteen lanes are two registers, and so is a line.

mod float;
mod int;

use crate::{Isa, Kernel};

/// Proof that this CPU has AVX2, FMA and F16C, and the byte dot product that `Dot` names.
///
/// Only detection creates one.
#[derive(Clone, Copy)]
pub(super) struct Avx2<Dot>(Dot);

/// `vpmaddubsw`, which every AVX2 CPU has: pairs of products in 16 bits.
#[derive(Clone, Copy)]
pub(super) struct Madd(());

/// `vpdpbusd` of AVX-VNNI: four products in 32 bits.
#[derive(Clone, Copy)]
pub(super) struct Vnni(());

super::implement_kernel!(Avx2<Madd>, Isa::Avx2, compiled "avx2,fma,f16c");
super::implement_kernel!(Avx2<Vnni>, Isa::AvxVnni, compiled "avx2,fma,f16c,avxvnni");

pub(super) fn detect() -> Option<&'static dyn Kernel> {
    has_avx2().then_some(&Avx2(Madd(())))
}

pub(super) fn detect_vnni() -> Option<&'static dyn Kernel> {
    (has_avx2() && is_x86_feature_detected!("avxvnni")).then_some(&Avx2(Vnni(())))
}

fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
}

/// Runs an intrinsic of these instruction sets.
macro_rules! on_cpu {
    ($call:expr) => {{
        // SAFETY: an `Avx2` exists, or lanes that only an `Avx2` creates, so the CPU has AVX2, FMA and
        // F16C; pointers are to arrays of the size of the access, which needs no alignment.
        unsafe { $call }
    }};
}
use on_cpu;
