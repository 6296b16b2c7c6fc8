//! Instruction sets: their detection, and the code that only they have.
//!
//! To add one, write its lanes in a file of this folder and register it below.

mod memory;
mod peak;
mod scalar;
mod stream;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use crate::Kernel;
pub(crate) use memory::{Lines, Plain, ZeroLines, numbers, numbers_mut};
pub use memory::{limit_malloc_arenas, prefer_huge_pages};
pub use peak::{DotInstruction, dot_instructions};
#[cfg(test)]
pub(crate) use scalar::Scalar;
pub use stream::{ReadBuffer, ReadMode};

/// Defines [`Isa`] from a list of instruction sets: documentation, name on the command line, the
/// targets that can have it, and the function that detects its kernel.
macro_rules! instruction_sets {
    ($($(#[$doc:meta])* $isa:ident = $name:literal if $target:meta => $detect:path;)*) => {
        /// Instruction sets that have kernels; those of one CPU in ascending order of speed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Isa {
            $($(#[$doc])* $isa,)*
        }

        impl Isa {
            /// Every instruction set, available on this CPU or not.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$isa),*];

            /// Returns the name used on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$isa => $name,)*
                }
            }

            /// Returns the kernel for this instruction set, if this CPU has it.
            pub(crate) fn detect(self) -> Option<&'static dyn Kernel> {
                match self {
                    $(#[cfg($target)] Self::$isa => $detect(),)*
                    _ => None,
                }
            }
        }
    };
}

instruction_sets! {
    /// Plain Rust: the reference for all others.
    Scalar = "scalar" if all() => scalar::detect;
    /// Baseline ARMv8.0.
    Neon = "neon" if target_arch = "aarch64" => neon::detect;
    /// NEON with the byte dot products of ARMv8.2.
    NeonDotprod = "dotprod" if target_arch = "aarch64" => neon::detect_dotprod;
    /// NEON with the byte dot products and the int8 matrix products of ARMv8.6.
    NeonI8mm = "i8mm" if target_arch = "aarch64" => neon::detect_i8mm;
    /// AVX2 with FMA and F16C.
    Avx2 = "avx2" if target_arch = "x86_64" => avx2::detect;
    /// AVX-512 F, BW, VL and DQ.
    Avx512 = "avx512" if target_arch = "x86_64" => avx512::detect;
    /// AVX2 with FMA, F16C and AVX-VNNI.
    AvxVnni = "avxvnni" if target_arch = "x86_64" => avx2::detect_vnni;
    /// AVX-512 F, BW, VL, DQ and VNNI.
    Avx512Vnni = "avx512vnni" if target_arch = "x86_64" => avx512::detect_vnni;
    /// AVX-512 with VNNI, and AMX int8 tiles for products of many tokens.
    Amx = "amx" if all(target_arch = "x86_64", target_os = "linux") => amx::detect;
}

/// See [`crate::unavailable_reason`].
pub(crate) fn unavailable_reason(isa: Isa) -> Option<&'static str> {
    match isa {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Isa::Amx => amx::Amx::detect().err(),
        #[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
        Isa::Amx => Some("AMX tiles are used on Linux only"),
        _ => None,
    }
}

/// Returns `true` if floats round to nearest and subnormals are kept on this thread. Foreign code can
/// change both for a thread, and new threads inherit it.
pub(crate) fn float_environment_is_default() -> bool {
    if cfg!(miri) {
        // Miri follows the default rules and cannot read the register.
        return true;
    }
    #[cfg(target_arch = "x86_64")]
    return x86_64::float_environment_is_default();
    #[cfg(target_arch = "aarch64")]
    return aarch64::float_environment_is_default();
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return true;
}

/// Implements [`Kernel`] for a type.
///
/// - `plain`: each method is the generic function over [`IntLanes`](crate::int_lanes::IntLanes).
/// - `compiled "features"`: the same, compiled for the instruction set. The attribute cannot be
///   generic, so only a macro can write this once.
/// - `delegated field`: each method calls that of the kernel in a field. The type implements
///   [`Kernel`] itself.
macro_rules! implement_kernel {
    ($cpu:ty, $isa:expr, $($how:tt)+) => {
        impl $crate::Kernel for $cpu {
            fn isa(&self) -> $crate::Isa {
                $isa
            }

            fn reads_layout(&self, layout: $crate::Layout) -> bool {
                match layout {
                    $crate::Layout::QuadLines => true,
                    $crate::Layout::FiveTrits => {
                        $crate::int_lanes::IntLanes::decodes_five_trits(*self)
                    }
                }
            }
        }

        $crate::arch::implement_operations!($cpu, $($how)+);
        $crate::arch::implement_sums!($cpu, $($how)+);
    };
}

/// Implements [`IntSums`](crate::int_lanes::IntSums); see [`implement_kernel`].
macro_rules! implement_sums {
    ($cpu:ty, $($how:tt)+) => {
        const _: () = {
            use $crate::QuantRow;
            use $crate::arch::sums_method;
            use $crate::int_lanes::{
                COLUMN_LINE_ROWS, CodeWidth, ColumnLines, IntLanes, ValuePages, WeightPair,
            };
            use $crate::line::{Line, STRIP};
            use $crate::sums;

            impl $crate::int_lanes::IntSums for $cpu {
                const UNSHIFTED: bool = <$cpu as IntLanes>::UNSHIFTED;

                sums_method! { [$($how)+] $cpu; sums::line_sums;
                    line_sums[const T: usize][T](lines: &[Line], tokens: [&[i8]; T])
                    -> [[i32; STRIP]; T] }
                #[inline(always)]
                fn decodes_five_trits(self) -> bool {
                    IntLanes::decodes_five_trits(self)
                }

                sums_method! { [$($how)+] $cpu; <$cpu as IntLanes>::five_trit_sums;
                    five_trit_sums[const T: usize][T](lines: &[Line], tokens: [&[i8]; T])
                    -> [[i32; STRIP]; T] }
                sums_method! { [$($how)+] $cpu; sums::code_sums::<$cpu, W, T>;
                    code_sums[W: CodeWidth, const T: usize][W, T](lines: &[Line], xs: [&QuantRow; T])
                    -> [[i32; STRIP]; T] }
                sums_method! { [$($how)+] $cpu; sums::value_sums;
                    value_sums[V: ValuePages, const T: usize, const B: usize][V, T, B](
                        values: &V,
                        first: usize,
                        weights: [&[WeightPair]; T]
                    ) -> [[[i32; 16]; B]; T] }
                sums_method! { [$($how)+] $cpu; sums::row_sums;
                    row_sums[const R: usize][R](rows: [&[Line]; R], codes: &[i8]) -> [i32; R] }
                sums_method! { [$($how)+] $cpu; <$cpu as IntLanes>::add_columns;
                    add_columns[][](
                        lines: ColumnLines<'_>,
                        columns: &[[u32; 4]],
                        codes: &[[i8; 4]],
                        sums: &mut [i32; COLUMN_LINE_ROWS]
                    ) -> () }
            }
        };
    };
}

/// Implements one method of [`implement_sums`]. The functions are not part of their callers, of which
/// there are several.
macro_rules! sums_method {
    ([plain] $cpu:ty; $body:expr;
        $name:ident[$($generics:tt)*][$($names:tt)*]($($arg:ident: $type:ty),*) -> $result:ty) => {
        #[inline]
        fn $name<$($generics)*>(self, $($arg: $type),*) -> $result {
            $body(self, $($arg),*)
        }
    };
    ([compiled $features:literal] $cpu:ty; $body:expr;
        $name:ident[$($generics:tt)*][$($names:tt)*]($($arg:ident: $type:ty),*) -> $result:ty) => {
        #[inline(always)]
        fn $name<$($generics)*>(self, $($arg: $type),*) -> $result {
            #[inline]
            #[target_feature(enable = $features)]
            fn compiled<$($generics)*>(cpu: $cpu, $($arg: $type),*) -> $result {
                $body(cpu, $($arg),*)
            }
            // SAFETY: `self` exists, so the CPU has the features.
            unsafe { compiled::<$($names)*>(self, $($arg),*) }
        }
    };
}

/// Implements the four traits that make up a [`Kernel`]; see [`implement_kernel`].
macro_rules! implement_operations {
    ($cpu:ty, $($how:tt)+) => {
        const _: () = {
            use $crate::{
                AttendScratch, CodeRows, FloatRows, Int8Matrix, KvHead, NibbleMatrix, NonZeros,
                QuantRow, Queries, RotaryPairs, RowBounds, ScoreBounds, Strip, TernaryColumns,
                TernaryMatrix, TernaryRows, VectorBounds, arch::method,
            };

            impl $crate::TernaryKernel for $cpu {
                method! { [$($how)+] $cpu; $crate::quant::quantize;
                    quantize(x: &[f32], codes: &mut [i8], sums: &mut [i32]) -> f32 }
                method! { [$($how)+] $cpu; $crate::product::multiply_strip;
                    multiply(
                        w: &TernaryMatrix,
                        strip: usize,
                        xs: &[QuantRow],
                        y: &mut Strip<'_, f32>
                    ) -> () }
                method! { [$($how)+] $cpu; $crate::sparse::sparse_neurons;
                    relu2_neurons(
                        gate: &TernaryMatrix,
                        up: &TernaryRows,
                        x: &QuantRow,
                        first_strip: usize,
                        neurons: &mut [f32]
                    ) -> usize }
                method! { [$($how)+] $cpu; $crate::sparse::sparse_columns;
                    multiply_columns(
                        w: &TernaryColumns,
                        first_line: usize,
                        x: &NonZeros,
                        y: &mut [f32]
                    ) -> () }
            }

            impl $crate::TableKernel for $cpu {
                method! { [$($how)+] $cpu; $crate::int8::strip_dots;
                    int8_dots(
                        w: &Int8Matrix,
                        strip: usize,
                        xs: &[QuantRow],
                        y: &mut Strip<'_, i32>
                    ) -> () }
                method! { [$($how)+] $cpu; $crate::int8::strip_dots;
                    nibble_dots(
                        w: &NibbleMatrix,
                        strip: usize,
                        xs: &[QuantRow],
                        y: &mut Strip<'_, i32>
                    ) -> () }
                method! { [$($how)+] $cpu; $crate::bounds::bound_scores;
                    bound_scores(
                        sums: [&[i32; 16]; 2],
                        rows: &RowBounds,
                        x: &VectorBounds,
                        out: &mut ScoreBounds
                    ) -> () }
                method! { [$($how)+] $cpu; $crate::float::dots;
                    dots(rows: FloatRows<'_>, x: &[f32], y: &mut [f32]) -> () }
                method! { [$($how)+] $cpu; $crate::float::dots_many;
                    dots_many(rows: FloatRows<'_>, xs: &[f32], y: &mut Strip<'_, f32>) -> () }
                method! { [$($how)+] $cpu; $crate::codes::code_dots;
                    code_dots(rows: CodeRows<'_>, xs: &[f32], y: &mut Strip<'_, f32>) -> () }
            }

            impl $crate::FloatKernel for $cpu {
                method! { [$($how)+] $cpu; $crate::float::rms_norm;
                    rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) -> () }
                method! { [$($how)+] $cpu; $crate::float::rotate;
                    rotate(head: &mut [f32], cos: &[f32], sin: &[f32], pairs: RotaryPairs) -> () }
                method! { [$($how)+] $cpu; $crate::float::relu2_mul;
                    relu2_mul(gate: &mut [f32], up: &[f32]) -> () }
                method! { [$($how)+] $cpu; $crate::float::silu_mul;
                    silu_mul(gate: &mut [f32], up: &[f32]) -> () }
                method! { [$($how)+] $cpu; $crate::float::gelu_mul;
                    gelu_mul(gate: &mut [f32], up: &[f32]) -> () }
                method! { [$($how)+] $cpu; $crate::float::add;
                    add(x: &mut [f32], y: &[f32]) -> () }
                method! { [$($how)+] $cpu; $crate::float::softmax;
                    softmax(x: &mut [f32]) -> () }
            }

            impl $crate::AttentionKernel for $cpu {
                method! { [$($how)+] $cpu; $crate::attend::attend_chunk;
                    attend_chunk(
                        q: &Queries<'_>,
                        kv: &KvHead<'_>,
                        chunk: usize,
                        scratch: &mut AttendScratch,
                        parts: &mut [f32]
                    ) -> () }
                method! { [$($how)+] $cpu; $crate::attend::join_chunks;
                    join_chunks(part_len: usize, parts: &mut [f32], next: &[f32]) -> () }
            }
        };
    };
}

/// Implements one method in one of the ways of [`implement_kernel`].
macro_rules! method {
    ([plain] $cpu:ty; $body:path; $name:ident($($arg:ident: $type:ty),*) -> $result:ty) => {
        fn $name(&self, $($arg: $type),*) -> $result {
            $body(*self, $($arg),*)
        }
    };
    ([compiled $features:literal] $cpu:ty; $body:path;
        $name:ident($($arg:ident: $type:ty),*) -> $result:ty) => {
        fn $name(&self, $($arg: $type),*) -> $result {
            #[target_feature(enable = $features)]
            fn compiled(cpu: $cpu, $($arg: $type),*) -> $result {
                $body(cpu, $($arg),*)
            }
            // SAFETY: `self` exists, so the CPU has the features.
            unsafe { compiled(*self, $($arg),*) }
        }
    };
    ([delegated $field:ident] $cpu:ty; $body:path;
        $name:ident($($arg:ident: $type:ty),*) -> $result:ty) => {
        fn $name(&self, $($arg: $type),*) -> $result {
            self.$field.$name($($arg),*)
        }
    };
}

use {implement_kernel, implement_operations, method};
pub(crate) use {implement_sums, sums_method};
