//! The list of instruction sets, how each is detected, and the bridge from [`Kernel`] to the code
//! written once for all of them.

mod memory;
mod peak;
mod scalar;
mod stream;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use crate::{Isa, Kernel};
pub(crate) use memory::{Lines, Plain, ZeroLines, numbers, numbers_mut};
pub use memory::{prefer_huge_pages, share_memory_places};
pub use peak::{DotInstruction, dot_instructions};
pub(crate) use scalar::Scalar;
pub use stream::{ReadBuffer, Reading};

/// The kernels this CPU can run, the best last.
pub(crate) fn supported() -> impl Iterator<Item = &'static dyn Kernel> {
    let scalar: &'static dyn Kernel = &Scalar;
    #[cfg(target_arch = "x86_64")]
    let others = x86_64::kernels();
    #[cfg(target_arch = "aarch64")]
    let others = aarch64::kernels();
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let others: [Option<&'static dyn Kernel>; 0] = [];
    [Some(scalar)].into_iter().chain(others).flatten()
}

/// See [`crate::why_missing`].
pub(crate) fn why_missing(isa: Isa) -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let why_no_amx = x86_64::amx().err();
    #[cfg(not(target_arch = "x86_64"))]
    let why_no_amx = None;
    why_no_amx.filter(|_| isa == Isa::Amx)
}

/// Whether floats round to nearest and subnormals are kept, on this thread. Foreign code can change
/// both for a whole thread, and new threads inherit it.
pub(crate) fn float_environment_is_default() -> bool {
    if cfg!(miri) {
        // Miri computes by the rules and cannot read the register.
        return true;
    }
    #[cfg(target_arch = "x86_64")]
    return x86_64::float_environment_is_default();
    #[cfg(target_arch = "aarch64")]
    return aarch64::float_environment_is_default();
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return true;
}

/// Implements [`Kernel`] for a `Simd + LineSums + Int8Sums + SparseSums` type: each method is the generic function, compiled
/// for one instruction set. The attribute cannot be generic, so only a macro can say this once.
macro_rules! implement_kernel {
    ($cpu:ty, $isa:expr $(, $features:literal)?) => {
        impl $crate::Kernel for $cpu {
            fn isa(&self) -> $crate::Isa {
                $isa
            }
            fn is_made_for(&self, layout: $crate::Layout) -> bool {
                match layout {
                    $crate::Layout::QuadLines => true,
                    $crate::Layout::FiveTrits => {
                        $crate::product::LineSums::decodes_five_trits(*self)
                    }
                }
            }
            $crate::arch::method! { $cpu $(, $features)?;
                quantize(x: &[f32], codes: &mut [i8], sums: &mut [i32]) -> f32;
                $crate::quant::quantize }
            $crate::arch::method! { $cpu $(, $features)?;
                multiply(
                    w: &$crate::TernaryMatrix,
                    strip: usize,
                    xs: &[$crate::QuantRow],
                    y: &mut $crate::Strip<'_, f32>
                ) -> ();
                $crate::product::multiply_strip }
            $crate::arch::method! { $cpu $(, $features)?;
                relu2_neurons(
                    gate: &$crate::TernaryMatrix,
                    up: &$crate::TernaryRows,
                    x: &$crate::QuantRow,
                    first_strip: usize,
                    neurons: &mut [f32]
                ) -> usize;
                $crate::sparse::sparse_neurons }
            $crate::arch::method! { $cpu $(, $features)?;
                multiply_columns(
                    w: &$crate::TernaryColumns,
                    first_line: usize,
                    x: &$crate::NonZeros,
                    y: &mut [f32]
                ) -> ();
                $crate::sparse::sparse_columns }
            $crate::arch::method! { $cpu $(, $features)?;
                int8_dots(
                    w: &$crate::Int8Matrix,
                    strip: usize,
                    xs: &[$crate::QuantRow],
                    y: &mut $crate::Strip<'_, i32>
                ) -> ();
                $crate::int8::int8_dots }
            $crate::arch::method! { $cpu $(, $features)?;
                nibble_dots(
                    w: &$crate::NibbleMatrix,
                    strip: usize,
                    xs: &[$crate::QuantRow],
                    y: &mut $crate::Strip<'_, i32>
                ) -> ();
                $crate::nibble::nibble_dots }
            $crate::arch::method! { $cpu $(, $features)?;
                bound_scores(
                    sums: [&[i32; 16]; 2],
                    rows: &$crate::RowBounds,
                    x: &$crate::VectorBounds,
                    out: &mut $crate::ScoreBounds
                ) -> ();
                $crate::bounds::bound_scores }
            $crate::arch::method! { $cpu $(, $features)?;
                dots(rows: $crate::FloatRows<'_>, x: &[f32], y: &mut [f32]) -> ();
                $crate::float::dots }
            $crate::arch::method! { $cpu $(, $features)?;
                dots_many(
                    rows: $crate::FloatRows<'_>,
                    xs: &[f32],
                    y: &mut $crate::Strip<'_, f32>
                ) -> ();
                $crate::float::dots_many }
            $crate::arch::method! { $cpu $(, $features)?;
                code_dots(
                    rows: $crate::CodeRows<'_>,
                    xs: &[f32],
                    y: &mut $crate::Strip<'_, f32>
                ) -> ();
                $crate::codes::code_dots }
            $crate::arch::method! { $cpu $(, $features)?;
                rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) -> ();
                $crate::float::rms_norm }
            $crate::arch::method! { $cpu $(, $features)?;
                rotate(
                    head: &mut [f32],
                    cos: &[f32],
                    sin: &[f32],
                    pairs: $crate::RotaryPairs
                ) -> ();
                $crate::float::rotate }
            $crate::arch::method! { $cpu $(, $features)?;
                relu2_mul(gate: &mut [f32], up: &[f32]) -> ();
                $crate::float::relu2_mul }
            $crate::arch::method! { $cpu $(, $features)?;
                silu_mul(gate: &mut [f32], up: &[f32]) -> ();
                $crate::float::silu_mul }
            $crate::arch::method! { $cpu $(, $features)?;
                gelu_mul(gate: &mut [f32], up: &[f32]) -> ();
                $crate::float::gelu_mul }
            $crate::arch::method! { $cpu $(, $features)?;
                add(x: &mut [f32], y: &[f32]) -> ();
                $crate::float::add }
            $crate::arch::method! { $cpu $(, $features)?;
                softmax(x: &mut [f32]) -> ();
                $crate::float::softmax }
            $crate::arch::method! { $cpu $(, $features)?;
                attend_chunk(
                    q: &$crate::Queries<'_>,
                    kv: &$crate::KvHead<'_>,
                    chunk: usize,
                    scratch: &mut $crate::AttendScratch,
                    parts: &mut [f32]
                ) -> ();
                $crate::attend::attend_chunk }
            $crate::arch::method! { $cpu $(, $features)?;
                join_chunks(part_len: usize, parts: &mut [f32], next: &[f32]) -> ();
                $crate::attend::join_chunks }
        }
    };
}

/// One method of [`Kernel`]; without features, for what every CPU of the target has.
macro_rules! method {
    ($cpu:ty; $name:ident($($arg:ident: $type:ty),*) -> $result:ty; $body:path) => {
        fn $name(&self, $($arg: $type),*) -> $result {
            $body(*self, $($arg),*)
        }
    };
    ($cpu:ty, $features:literal; $name:ident($($arg:ident: $type:ty),*) -> $result:ty; $body:path) => {
        fn $name(&self, $($arg: $type),*) -> $result {
            #[target_feature(enable = $features)]
            fn compiled(cpu: $cpu, $($arg: $type),*) -> $result {
                $body(cpu, $($arg),*)
            }
            // SAFETY: `self` exists, so the CPU has the features.
            unsafe { compiled(*self, $($arg),*) }
        }
    };
}

use {implement_kernel, method};
