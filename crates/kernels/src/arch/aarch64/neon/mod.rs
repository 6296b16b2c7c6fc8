//! NEON: sixteen lanes are four registers, and so is a line.

mod dotprod;
mod i8mm;
mod lanes;
mod sparse;
mod values;
mod widening;

use std::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

use crate::Isa;

/// Every 64-bit Arm CPU has NEON; this is proof that it also has the way to add up products of bytes
/// that `Dot` names.
#[derive(Clone, Copy)]
pub(super) struct Neon<Dot = Widening>(Dot);

/// In 16 bits, as all of these CPUs can.
#[derive(Clone, Copy)]
pub(super) struct Widening;

/// In 32 bits, four products at once. Only `detect` makes one.
#[derive(Clone, Copy)]
pub(super) struct Dotprod(());

/// In 32 bits, for several tokens eight products at once, of two rows by two tokens. Only `detect`
/// makes one.
#[derive(Clone, Copy)]
pub(super) struct I8mm(());

impl Neon<Widening> {
    pub(super) fn always() -> &'static Self {
        &Self(Widening)
    }
}

impl Neon<Dotprod> {
    pub(super) fn detect() -> Option<&'static Self> {
        is_aarch64_feature_detected!("dotprod").then_some(&Self(Dotprod(())))
    }
}

impl Neon<I8mm> {
    pub(super) fn detect() -> Option<&'static Self> {
        let has_both =
            is_aarch64_feature_detected!("dotprod") && is_aarch64_feature_detected!("i8mm");
        has_both.then_some(&Self(I8mm(())))
    }
}

crate::arch::implement_kernel!(Neon<Widening>, Isa::Neon);
crate::arch::implement_kernel!(Neon<Dotprod>, Isa::NeonDotprod, "neon,dotprod");
crate::arch::implement_kernel!(Neon<I8mm>, Isa::NeonI8mm, "neon,dotprod,i8mm");

/// The codes of sixteen bytes of a quad line, field by field.
#[inline]
#[target_feature(enable = "neon")]
fn fields(bytes: &[u8; 16]) -> [int8x16_t; 4] {
    // SAFETY: reads an array of sixteen bytes.
    let packed = unsafe { vld1q_u8(bytes.as_ptr()) };
    let mask = vdupq_n_u8(3);
    [
        vreinterpretq_s8_u8(vandq_u8(packed, mask)),
        vreinterpretq_s8_u8(vandq_u8(vshrq_n_u8::<2>(packed), mask)),
        vreinterpretq_s8_u8(vandq_u8(vshrq_n_u8::<4>(packed), mask)),
        vreinterpretq_s8_u8(vshrq_n_u8::<6>(packed)),
    ]
}

/// Sixteen activations.
#[inline]
#[target_feature(enable = "neon")]
fn load(codes: &[i8; 16]) -> int8x16_t {
    // SAFETY: reads an array of sixteen bytes.
    unsafe { vld1q_s8(codes.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn store(lanes: int32x4_t) -> [i32; 4] {
    let mut out = [0; 4];
    // SAFETY: writes an array of four integers.
    unsafe { vst1q_s32(out.as_mut_ptr(), lanes) };
    out
}
