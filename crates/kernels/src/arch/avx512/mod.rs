//! AVX-512 F, BW, VL and DQ: sixteen lanes are one register, and so is a line.

mod five_trits;
mod float;
mod int;

use std::marker::PhantomData;

use super::x86_64::{Madd, Vnni};
use crate::{Isa, Kernel};

/// Proof that this CPU has POPCNT, AVX2, FMA, F16C, AVX-512 F, BW, VL and DQ, and the byte dot product that
/// `Dot` names: `vpmaddubsw` or VNNI.
///
/// Only detection creates one.
#[derive(Clone, Copy)]
pub(super) struct Avx512<Dot = Vnni> {
    dot: PhantomData<Dot>,
    /// True if the CPU has VNNI and VBMI, which decodes five trits per byte.
    vbmi: bool,
}

super::implement_kernel!(
    Avx512<Madd>,
    Isa::Avx512,
    compiled "popcnt,avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq"
);
super::implement_kernel!(
    Avx512<Vnni>,
    Isa::Avx512Vnni,
    compiled "popcnt,avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"
);

pub(super) fn detect() -> Option<&'static dyn Kernel> {
    has_avx512().then_some(&Avx512::<Madd> { dot: PhantomData, vbmi: false })
}

pub(super) fn detect_vnni() -> Option<&'static dyn Kernel> {
    Avx512::with_vnni().map(|kernel| kernel as _)
}

impl Avx512<Vnni> {
    pub(super) fn with_vnni() -> Option<&'static Self> {
        let has_all = has_avx512() && is_x86_feature_detected!("avx512vnni");
        let with = &Self { dot: PhantomData, vbmi: true };
        let without = &Self { dot: PhantomData, vbmi: false };
        has_all.then_some(if is_x86_feature_detected!("avx512vbmi") { with } else { without })
    }
}

fn has_avx512() -> bool {
    is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
}
