//! AVX2 with FMA and F16C: sixteen lanes are two registers, and so is a line.

mod float;
mod int;
mod lookup;

use std::marker::PhantomData;

use super::x86_64::{Madd, Vnni};
use crate::{Isa, Kernel, LookupKernel};

/// Proof that this CPU has AVX2, FMA and F16C, and the byte dot product that `Dot` names: `vpmaddubsw` or
/// AVX-VNNI.
///
/// Only detection creates one.
#[derive(Clone, Copy)]
pub(super) struct Avx2<Dot>(PhantomData<Dot>);

super::implement_kernel!(Avx2<Madd>, Isa::Avx2, compiled "avx2,fma,f16c");
super::implement_kernel!(Avx2<Vnni>, Isa::AvxVnni, compiled "avx2,fma,f16c,avxvnni");

pub(super) fn detect() -> Option<&'static dyn Kernel> {
    has_avx2().then_some(&Avx2::<Madd>(PhantomData))
}

pub(super) fn detect_vnni() -> Option<&'static dyn Kernel> {
    (has_avx2() && is_x86_feature_detected!("avxvnni")).then_some(&Avx2::<Vnni>(PhantomData))
}

/// Returns the kernel for lookups, if this CPU can run it.
pub(super) fn lookup_kernel() -> Option<&'static dyn LookupKernel> {
    has_avx2().then_some(&Avx2::<Madd>(PhantomData))
}

fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
}
