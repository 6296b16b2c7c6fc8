//! Arithmetic on slices for the instruction set of this CPU, and the thread pool that runs it.
//!
//! This crate has no notion of models, files or tokens. It guarantees that **every [`Kernel`] returns
//! exactly the bits of the scalar one**:
//!
//! - Trits times int8 codes are summed in integers, which is exact in any order. The algorithms are
//!   written once, over `int_lanes.rs`, and compiled for each instruction set.
//! - Float sums run in sixteen lanes (element `i` goes to lane `i % 16`) with fused multiply-add and
//!   are folded in a fixed tree. They are written once as well, over `lanes.rs`.
//! - `exp`, `sin` and the like are built from operations that IEEE 754 defines to the last bit.
//! - Work is split by output, never along a sum, so the number of threads does not matter.
//!
//! Shapes are checked with `assert!`: a mismatch is a bug of the caller.

#![deny(unsafe_code)]

mod ahead;
#[expect(unsafe_code, reason = "vector loads and stores, and calls of code for a detected CPU")]
mod arch;
mod attend;
mod batch;
mod bounds;
mod code_matrix;
mod codes;
mod cpus;
mod delta;
mod first_error;
mod float;
pub mod fp8;
mod hadamard;
pub mod half;
mod int8;
mod int_lanes;
mod isa;
mod kv;
mod lanes;
mod layout;
mod line;
pub mod math;
mod nibble;
mod noise;
mod operations;
mod placement;
#[expect(unsafe_code, reason = "lends stack data to threads and splits slices between jobs")]
mod pool;
mod product;
mod quant;
mod rotary;
mod share;
mod sparse;
mod sums;
mod ternary;
mod tiles;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod trial;
mod zeroing;

use std::ops::Range;

pub use arch::{
    DotInstruction, Isa, ReadBuffer, ReadMode, dot_instructions, limit_malloc_arenas,
    prefer_huge_pages,
};
pub use attend::{
    AttendScratch, CHUNK, Queries, attend, attend_in_turn, attend_parts, clear_parts, finish_parts,
    part_len, split_len,
};
pub use batch::QuantBatch;
pub use bounds::{RowBounds, ScoreBounds, VectorBounds};
pub use codes::CodeRows;
pub use cpus::{CpuList, CpuListError};
pub use delta::DeltaInputs;
pub use first_error::FirstError;
pub use float::RmsNorm;
pub use int8::{Int8Matrix, int8_pair_dots, int8_products};
pub use isa::UnknownIsa;
pub use kv::{KvHead, KvRows, KvShape, KvSlot, KvStore, PAGE_LEN, PAGE_VERSION};
pub use layout::Layout;
pub use nibble::{NibbleMatrix, nibble_pair_dots};
pub use noise::NoiseKey;
pub use operations::{AttentionKernel, FloatKernel, TableKernel, TernaryKernel};
pub use placement::Placement;
pub use pool::{Pool, Strip, Upcoming};
pub use product::{
    ProductScratch, Relu2Counts, Relu2Matrices, multiply, multiply_add, multiply_each,
    multiply_gated, multiply_gated_slices, multiply_relu2, multiply_slices, slice_alignment,
};
pub use quant::QuantRow;
pub use rotary::{RotaryTable, far_rotation, rotary_frequencies, rotary_powers};
pub use sparse::{
    ColumnScratch, NonZeros, TernaryColumns, TernaryRows, multiply_add_columns,
    multiply_add_columns_of_each, multiply_columns_each, relu2_neurons,
};
pub use ternary::TernaryMatrix;
pub use tiles::PAIR;
pub use wf_core::{KvDtype, RotaryPairs, Scales, UnknownKvDtype};
pub use zeroing::Zeroing;

/// Arithmetic for one instruction set.
///
/// Every implementation returns exactly the bits of the scalar one, except for the payload of a NaN.
/// Implementors are structs that only detection creates: holding one proves that the CPU has the
/// instruction set.
pub trait Kernel:
    TernaryKernel + TableKernel + FloatKernel + AttentionKernel + Send + Sync
{
    /// Returns the instruction set.
    fn isa(&self) -> Isa;

    /// Returns `true` if this kernel is faster here than those of the instruction sets before it in
    /// [`Isa`]. Where that varies between machines, it is measured once, which takes milliseconds.
    fn is_recommended(&self) -> bool {
        true
    }

    /// Returns `true` if this kernel reads matrices in `layout` directly. Otherwise it rewrites them
    /// as quad lines each time it reads them, which is correct but slow.
    fn reads_layout(&self, layout: Layout) -> bool;

    /// Returns the unit that [`multiply`] uses instead for products of many tokens, if the CPU has one.
    fn tile_kernel(&self) -> Option<&dyn TileKernel> {
        None
    }

    /// Returns the kernel that [`multiply`] uses instead for products of many tokens and rows, if lookups are
    /// faster than multiplications.
    fn lookup_kernel(&self) -> Option<&'static dyn LookupKernel> {
        None
    }
}

/// A part of a [`Kernel`] that multiplies by table lookups, with the same bits as
/// [`TernaryKernel::multiply`].
///
/// The sums of a few columns and many tokens are computed for all combinations of trits, and each row of
/// a matrix selects its own.
pub trait LookupKernel: Send + Sync {
    /// Returns the number of tokens from which on lookups are faster, and the number of rows.
    fn min_shape(&self) -> (usize, usize);

    /// Returns the maximum number of tokens and of rows in a job.
    fn max_shape(&self) -> (usize, usize);

    /// Multiplies some strips of `w`, in quad lines and without scales per group, by every row of `xs`.
    /// `y.row(t)` receives the outputs of token `t`. [`multiply`] does whole matrices.
    ///
    /// # Panics
    ///
    /// Panics if the shapes do not match or exceed [`max_shape`](Self::max_shape), or if `w` has another
    /// layout or scales per group.
    fn multiply_strips(
        &self,
        w: &TernaryMatrix,
        strips: Range<usize>,
        xs: &[QuantRow],
        y: &mut Strip<'_, f32>,
    );
}

/// The part of a [`Kernel`] that multiplies tiles, with the same bits as
/// [`TernaryKernel::multiply`].
pub trait TileKernel: Send + Sync {
    /// Returns the number of tokens from which on tiles are faster.
    fn min_tokens(&self) -> usize;

    /// Multiplies the output rows `32 * pair ..` of `w` by the rows `tokens` of `xs`, the first of which is
    /// a multiple of sixteen. `y.row(t)` receives the (at most 32) outputs of the `t`-th of them.
    /// [`multiply`] does whole matrices.
    ///
    /// # Panics
    ///
    /// Panics if the shapes do not match, or if `xs` was quantized for a kernel without tiles.
    fn multiply_pair(
        &self,
        w: &TernaryMatrix,
        pair: usize,
        xs: &QuantBatch,
        tokens: Range<usize>,
        y: &mut Strip<'_, f32>,
    );

    /// Computes the exact dot products of the rows `32 * pair ..` of `w` with every row of `xs`. `y.row(t)`
    /// receives the (at most 32) dot products of token `t`. [`int8_pair_dots`] does
    /// the same with every kernel.
    ///
    /// # Panics
    ///
    /// Panics if the shapes do not match, or if `xs` was quantized for a kernel without tiles.
    fn int8_dots(&self, w: &Int8Matrix, pair: usize, xs: &QuantBatch, y: &mut Strip<'_, i32>);

    /// As [`int8_dots`](Self::int8_dots), for codes of four bits.
    fn nibble_dots(&self, w: &NibbleMatrix, pair: usize, xs: &QuantBatch, y: &mut Strip<'_, i32>);

    /// Returns `true` if tiles multiply numbers in bf16.
    fn multiplies_bf16(&self) -> bool;

    /// Does what [`AttentionKernel::attend_chunk`] does, with the same bits, for keys and values in bf16.
    /// [`attend_parts`] does so for every type.
    ///
    /// # Panics
    ///
    /// Panics if the shapes do not match, if keys and values have another type, or if tiles do not multiply
    /// bf16.
    fn attend_chunk(
        &self,
        q: &Queries<'_>,
        kv: &KvHead<'_>,
        chunk: usize,
        scratch: &mut AttendScratch,
        parts: &mut [f32],
    );
}

/// Returns the kernels this CPU can run, in ascending order of speed.
pub fn supported() -> impl Iterator<Item = &'static dyn Kernel> {
    Isa::ALL.into_iter().filter_map(Isa::detect)
}

/// Returns the fastest kernel this CPU can run.
pub fn best() -> &'static dyn Kernel {
    supported().filter(|kernel| kernel.is_recommended()).last().expect("scalar always runs")
}

/// Returns the kernel for `isa`, or `None` if this CPU does not have it.
pub fn kernel(isa: Isa) -> Option<&'static dyn Kernel> {
    isa.detect()
}

/// Returns the reason why there is no [`kernel`] for `isa`, if it is another than that this CPU does
/// not have the instruction set.
pub fn unavailable_reason(isa: Isa) -> Option<&'static str> {
    arch::unavailable_reason(isa)
}

/// Rows of floats in one of their storage types: embedding rows, the output head.
#[derive(Clone, Copy, Debug)]
pub enum FloatRows<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// The upper half of single precision; see [`half`].
    Bf16(&'a [u16]),
    /// IEEE half precision; see [`half`].
    F16(&'a [u16]),
}
