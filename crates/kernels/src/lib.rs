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

#[expect(unsafe_code, reason = "vector loads and stores, and calls of code for a detected CPU")]
mod arch;
mod attend;
mod bounds;
mod code_matrix;
mod codes;
mod cpus;
mod first_error;
mod float;
pub mod fp8;
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

pub use arch::{
    DotInstruction, Isa, ReadBuffer, ReadMode, dot_instructions, limit_malloc_arenas,
    prefer_huge_pages,
};
pub use attend::{AttendScratch, CHUNK, Queries, attend, clear_parts, finish_parts, part_len};
pub use bounds::{RowBounds, ScoreBounds, VectorBounds};
pub use codes::CodeRows;
pub use cpus::{CpuList, CpuListError, pin_thread, pinned_pool, with_pinned_thread};
pub use first_error::FirstError;
pub use int8::{Int8Matrix, int8_products};
pub use isa::UnknownIsa;
pub use kv::{KvHead, KvShape, KvSlot, KvStore, PAGE_LEN};
pub use layout::Layout;
pub use nibble::NibbleMatrix;
pub use pool::{Pool, Strip};
pub use product::{multiply, multiply_add, multiply_each, multiply_gated};
pub use quant::{QuantBatch, QuantRow};
pub use rotary::RotaryTable;
pub use sparse::{NonZeros, TernaryColumns, TernaryRows, multiply_add_columns, relu2_neurons};
pub use ternary::TernaryMatrix;
pub use tiles::TileKernel;
pub use wf_core::{KvDtype, RotaryPairs, Scales, UnknownKvDtype};

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
}

/// Products of ternary matrices and int8 activations.
pub trait TernaryKernel {
    /// Quantizes one row of activations to int8: with `s = 127 / max(absmax, 1e-5)`, a code is `x * s`
    /// rounded half to even and clamped to -128..=127.
    ///
    /// `codes.len()` is a multiple of 64 and at least `x.len()`; codes beyond `x` become zero.
    /// `sums[i]` becomes the sum of the `i`-th 64 codes. Returns `1 / s`, the factor that turns codes
    /// back into values. A NaN in `x` makes the factor NaN, so it propagates.
    fn quantize(&self, x: &[f32], codes: &mut [i8], sums: &mut [i32]) -> f32;

    /// Multiplies the sixteen output rows `16 * strip ..` of `w` by every row of `xs`. `y.row(t)`
    /// receives the (at most sixteen) outputs of token `t`. [`multiply`] does whole matrices.
    fn multiply(&self, w: &TernaryMatrix, strip: usize, xs: &[QuantRow], y: &mut Strip<'_, f32>);

    /// Computes the neurons `relu(gate · x)² * (up · x)` of the strips of `gate` from `first_strip` on,
    /// at most 128 neurons, with the bits of [`multiply`](Self::multiply) and
    /// [`relu2_mul`](FloatKernel::relu2_mul). Reads only the rows of `up` whose gate is positive, and
    /// returns the number of gates that are not. [`relu2_neurons`] does whole matrices.
    fn relu2_neurons(
        &self,
        gate: &TernaryMatrix,
        up: &TernaryRows,
        x: &QuantRow,
        first_strip: usize,
        neurons: &mut [f32],
    ) -> usize;

    /// Multiplies the rows from `256 * first_line` on of `w` by `x`, with the bits of
    /// [`multiply`](Self::multiply), reading only the columns of `x`. [`multiply_add_columns`] does
    /// whole matrices.
    fn multiply_columns(&self, w: &TernaryColumns, first_line: usize, x: &NonZeros, y: &mut [f32]);
}

/// Dot products with the rows of large tables, such as the output head.
pub trait TableKernel {
    /// Computes the exact dot products of the rows `16 * strip ..` of `w` with every row of `xs`.
    /// `y.row(t)` receives the (at most sixteen) products of token `t`. [`int8_products`] does whole
    /// matrices.
    fn int8_dots(&self, w: &Int8Matrix, strip: usize, xs: &[QuantRow], y: &mut Strip<'_, i32>);

    /// As [`int8_dots`](Self::int8_dots), for codes of four bits.
    fn nibble_dots(&self, w: &NibbleMatrix, strip: usize, xs: &[QuantRow], y: &mut Strip<'_, i32>);

    /// Bounds the scores of sixteen rows from their dot products with the coarse and the fine codes
    /// of a vector: a score is estimated as `coarse * x.coarse + fine * x.fine + x.offset`, times the
    /// row's scale, with an error of at most
    /// `error * x.per_error + norm * x.per_norm + x.base_error`.
    fn bound_scores(
        &self,
        sums: [&[i32; 16]; 2],
        rows: &RowBounds,
        x: &VectorBounds,
        out: &mut ScoreBounds,
    );

    /// Computes `y[r] = rows[r] · x` for `y.len()` rows of `x.len()` elements.
    fn dots(&self, rows: FloatRows<'_>, x: &[f32], y: &mut [f32]);

    /// Computes `y.row(t)[r] = rows[r] · xs[t]`, with the bits of [`dots`](Self::dots), for
    /// `y.rows()` vectors that follow each other in `xs`. Reads the rows from memory only once.
    fn dots_many(&self, rows: FloatRows<'_>, xs: &[f32], y: &mut Strip<'_, f32>);

    /// As [`dots_many`](Self::dots_many), with the same bits, for rows of codes.
    fn code_dots(&self, rows: CodeRows<'_>, xs: &[f32], y: &mut Strip<'_, f32>);
}

/// Operations on rows of floats.
pub trait FloatKernel {
    /// `out = x / sqrt(mean(x²) + eps) * weight`.
    fn rms_norm(&self, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]);

    /// Rotates each pair of `head` by its angle. `cos` and `sin` have half the length of `head`.
    fn rotate(&self, head: &mut [f32], cos: &[f32], sin: &[f32], pairs: RotaryPairs);

    /// `gate = relu(gate)² * up`. A gate that is not positive gives +0 for any `up`, even an infinite
    /// one, so that `up` need not be computed. A NaN stays NaN.
    fn relu2_mul(&self, gate: &mut [f32], up: &[f32]);

    /// `gate = gate / (1 + exp(-gate)) * up`.
    fn silu_mul(&self, gate: &mut [f32], up: &[f32]);

    /// `gate = gate / 2 * (1 + tanh(√(2/π) * (gate + 0.044715 * gate³))) * up`.
    fn gelu_mul(&self, gate: &mut [f32], up: &[f32]);

    /// `x += y`.
    fn add(&self, x: &mut [f32], y: &[f32]);

    /// `x = exp(x - max(x)) / sum(exp(x - max(x)))`.
    fn softmax(&self, x: &mut [f32]);
}

/// Attention over chunks of positions.
pub trait AttentionKernel {
    /// Computes the parts of the query heads of `q` for the visible positions of one chunk,
    /// [`part_len`] floats for each head. Heads do not change each other's bits; together, they read
    /// keys and values from memory only once. `scratch` has been [prepared] for `q`.
    ///
    /// [prepared]: AttendScratch::prepare
    fn attend_chunk(
        &self,
        q: &Queries<'_>,
        kv: &KvHead<'_>,
        chunk: usize,
        scratch: &mut AttendScratch,
        parts: &mut [f32],
    );

    /// Merges into each part of `parts` the part of a later chunk of the same head in `next`.
    /// [`attend`] does all chunks.
    fn join_chunks(&self, part_len: usize, parts: &mut [f32], next: &[f32]);
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
