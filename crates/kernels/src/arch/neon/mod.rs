//! NEON: sixteen lanes are four registers, and so is a line.

mod dotprod;
mod float;
mod i8mm;
mod int;
mod lookup;
mod widening;

use std::arch::is_aarch64_feature_detected;

use crate::{Isa, Kernel};

/// Proof that this CPU has the byte dot product that `Dot` names; every 64-bit Arm CPU has NEON.
///
/// Only detection creates one with more than NEON.
#[derive(Clone, Copy)]
pub(super) struct Neon<Dot>(Dot);

/// Products of bytes in 16 bits, which every CPU has.
#[derive(Clone, Copy)]
pub(super) struct Widening;

/// `sdot`: four products in 32 bits.
#[derive(Clone, Copy)]
pub(super) struct Dotprod(());

/// `sdot`, and `smmla` for several tokens: eight products in 32 bits, for two rows by two tokens.
#[derive(Clone, Copy)]
pub(super) struct I8mm(());

super::implement_kernel!(Neon<Widening>, Isa::Neon, plain);
super::implement_kernel!(Neon<Dotprod>, Isa::NeonDotprod, compiled "neon,dotprod");
super::implement_kernel!(Neon<I8mm>, Isa::NeonI8mm, compiled "neon,dotprod,i8mm");

pub(super) fn detect() -> Option<&'static dyn Kernel> {
    Some(&Neon(Widening))
}

pub(super) fn detect_dotprod() -> Option<&'static dyn Kernel> {
    is_aarch64_feature_detected!("dotprod").then_some(&Neon(Dotprod(())))
}

pub(super) fn detect_i8mm() -> Option<&'static dyn Kernel> {
    let has_both = is_aarch64_feature_detected!("dotprod") && is_aarch64_feature_detected!("i8mm");
    has_both.then_some(&Neon(I8mm(())))
}
