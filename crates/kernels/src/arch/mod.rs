//! Instruction sets: their detection, and the code that only they have.
//!
//! To add one, write its lanes in a file of this folder and register it below.

pub(crate) mod environment;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod lookup;
mod memory;
mod peak;
mod prefetch;
mod scalar;
mod stream;

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
pub(crate) use prefetch::prefetch;
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

/// Implements [`Kernel`] for a type.
///
/// - `plain`: each method is the generic function over [`IntLanes`](crate::int_lanes::IntLanes).
/// - `compiled "features"`: the same, compiled for the instruction set. The attribute cannot be
///   generic, so only a macro can write this once.
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

            fn lookup_kernel(&self) -> Option<&'static dyn $crate::LookupKernel> {
                $crate::int_lanes::IntLanes::lookup_kernel(*self)
            }
        }

        $crate::arch::implement_operations!($cpu, $($how)+);
        $crate::arch::implement_sums!($cpu, $($how)+);
    };
}

/// Implements the four traits that make up a [`Kernel`], as [`implement_kernel`] does, or with
/// `delegated field` by calling the same methods of the kernel in a field.
macro_rules! implement_operations {
    ($cpu:ty, $($how:tt)+) => {
        const _: () = {
            use $crate::arch::implement_methods;
            use $crate::*;
            operations::operations! { implement_methods! { $cpu, [], [$($how)+] } }
        };
    };
}

/// Implements [`IntSums`](crate::sums::IntSums); see [`implement_kernel`].
macro_rules! implement_sums {
    ($cpu:ty, $($how:tt)+) => {
        const _: () = {
            use $crate::QuantRow;
            use $crate::arch::implement_methods;
            use $crate::int_lanes::*;
            use $crate::line::{Line, STRIP};
            use $crate::sums::{IntSums, int_sums};
            int_sums! { implement_methods! { $cpu, [#[inline]], [$($how)+] } }
        };
    };
}

/// Implements a list of traits for `$cpu`, with all methods in the way `$how`. Sums are `inline` because each
/// has several callers; operations are not, because they are called through `dyn`.
macro_rules! implement_methods {
    ({ $cpu:ty, $inline:tt, $how:tt } $($(#[$_:meta])* trait $trait:ident $(: $super:ident)? {
        $($(#[$__:meta])*
        fn $name:ident $([$($generics:tt)*][$($names:tt)*])? ($($arg:ident: $type:ty),* $(,)?)
            $(-> $result:ty)? = $body:expr;)*
    })*) => {
        $(impl $trait for $cpu {
            $($crate::arch::method! { $inline $how $cpu;
                $name[$($($generics)*)?][$($($names)*)?]($($arg: $type),*) $(-> $result)? = $body
            })*
        })*
    };
}

/// Implements one method.
macro_rules! method {
    ([$($inline:tt)*] [plain] $cpu:ty; $name:ident[$($generics:tt)*][$($names:tt)*]($($arg:ident: $type:ty),*)
        $(-> $result:ty)? = $body:expr) => {
        $($inline)*
        fn $name<$($generics)*>(&self, $($arg: $type),*) $(-> $result)? {
            $body(*self, $($arg),*)
        }
    };
    ([$($inline:tt)*] [compiled $features:literal] $cpu:ty;
        $name:ident[$($generics:tt)*][$($names:tt)*]($($arg:ident: $type:ty),*)
        $(-> $result:ty)? = $body:expr) => {
        #[inline(always)]
        fn $name<$($generics)*>(&self, $($arg: $type),*) $(-> $result)? {
            $($inline)*
            #[target_feature(enable = $features)]
            fn compiled<$($generics)*>(cpu: $cpu, $($arg: $type),*) $(-> $result)? {
                $body(cpu, $($arg),*)
            }
            // SAFETY: `self` exists, so the CPU has the features.
            unsafe { compiled::<$($names)*>(*self, $($arg),*) }
        }
    };
    ([] [delegated $field:ident] $cpu:ty; $name:ident[][]($($arg:ident: $type:ty),*)
        $(-> $result:ty)? = $body:expr) => {
        fn $name(&self, $($arg: $type),*) $(-> $result)? {
            self.$field.$name($($arg),*)
        }
    };
}

/// Defines methods of lanes: each becomes part of the one function around it that is compiled for the
/// instruction set.
macro_rules! inlined {
    ($($(#[$attribute:meta])*
    $vis:vis fn $name:ident $(<const $param:ident: usize>)? ($($args:tt)*) $(-> $result:ty)? $body:block)*) => {
        $($(#[$attribute])*
        #[inline(always)]
        $vis fn $name $(<const $param: usize>)? ($($args)*) $(-> $result)? {
            // SAFETY: lanes, and the values that create them, exist only if the CPU has their instruction
            // set; pointers are to arrays of the size of the access, which needs no alignment.
            #[allow(unused_unsafe, reason = "some methods only call others")]
            unsafe {
                $body
            }
        })*
    };
}

use {implement_kernel, implement_methods, implement_operations, implement_sums, inlined, method};
