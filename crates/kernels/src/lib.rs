//! Arithmetic on slices, in the best version this CPU can run, and the thread pool that shares it out.
//!
//! This crate knows numbers and shapes; it knows nothing of models, files or tokens. Its promise is
//! that **every [`Kernel`] returns exactly the bits the scalar one returns**:
//!
//! - Trits times int8 codes add up in integers, which is exact in any order.
//! - Float sums run in sixteen lanes (element `i` goes to lane `i % 16`), fused multiply-add, and are
//!   folded in a fixed tree. The code is written once, over `lanes.rs`, and compiled for each CPU.
//! - `exp`, `sin` and the rest are our own, from operations IEEE 754 fixes to the last bit.
//! - Work is split by output, never along a sum, so the number of threads cannot matter.
//!
//! Shapes are checked with `assert!`: a mismatch is a bug of the caller, not an error to report.

#![deny(unsafe_code)]

#[expect(unsafe_code, reason = "vector loads and stores, and calls into code for a detected CPU")]
mod arch;
mod attend;
mod bounds;
mod code_matrix;
mod codes;
mod first_error;
mod float;
pub mod fp8;
pub mod half;
mod int8;
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
mod ternary;
mod tiles;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod trial;

pub use arch::{
    DotInstruction, ReadBuffer, Reading, dot_instructions, prefer_huge_pages, share_memory_places,
};
pub use attend::{AttendScratch, CHUNK, Queries, attend, clear, finish, part_len};
pub use bounds::{RowBounds, ScoreBounds, VectorBounds};
pub use codes::CodeRows;
pub use first_error::FirstError;
pub use int8::{Int8Matrix, int8_products};
pub use isa::{Isa, UnknownIsa};
pub use kv::{KvDtype, KvHead, KvShape, KvStore, PAGE_LEN, UnknownKvDtype};
pub use layout::Layout;
pub use nibble::NibbleMatrix;
pub use pool::{Pool, Strip};
pub use product::{multiply, multiply_add, multiply_each, multiply_gated};
pub use quant::{QuantBatch, QuantRow};
pub use rotary::RotaryTable;
pub use sparse::{NonZeros, TernaryColumns, TernaryRows, multiply_add_columns, relu2_neurons};
pub use ternary::{Scales, TernaryMatrix};
pub use tiles::TileKernel;

/// Arithmetic for one instruction set. Every implementation returns exactly the bits of the scalar
/// one (the payload of a NaN excepted).
///
/// Implementors are empty structs that only detection can make: holding one proves the CPU has it.
pub trait Kernel: Send + Sync {
    /// Which instruction set this is.
    fn isa(&self) -> Isa;

    /// Whether this CPU gains by it over the instruction sets before it in [`Isa`]. Where that is not
    /// sure, it is measured: once, for some milliseconds.
    fn pays(&self) -> bool {
        true
    }

    /// Whether there is code for matrices in `layout`. Without, they are rewritten as quad lines each
    /// time they are read, which is correct but not fast.
    fn is_made_for(&self, layout: Layout) -> bool;

    /// Turns one row of activations into int8 codes: with `s = 127 / max(absmax, 1e-5)`, a code is
    /// `x * s` rounded half to even and clamped to -128..=127.
    ///
    /// `codes.len()` is a multiple of 64 and at least `x.len()`; what is left over becomes zero.
    /// `sums[i]` becomes the sum of the `i`-th 64 codes. Returns `1 / s`, the factor that turns codes
    /// back into values. A NaN in `x` makes the factor NaN, so it is not lost on the way.
    fn quantize(&self, x: &[f32], codes: &mut [i8], sums: &mut [i32]) -> f32;

    /// The sixteen output rows `16 * strip ..` of `w` times every row of `xs`, into `y`, whose
    /// `row(t)` holds the (at most sixteen) outputs of token `t`. [`multiply`] does whole matrices.
    fn multiply(&self, w: &TernaryMatrix, strip: usize, xs: &[QuantRow], y: &mut Strip<'_, f32>);

    /// What [`multiply`] uses instead for products of many tokens, where the CPU has a unit for them.
    fn tile_kernel(&self) -> Option<&dyn TileKernel> {
        None
    }

    /// The neurons `relu(gate · x)² * (up · x)` of the strips of `gate` from `first_strip` on, with the
    /// bits of [`multiply`](Self::multiply) and [`relu2_mul`](Self::relu2_mul), reading only the rows
    /// of `up` whose gate is positive. Returns how many gates are not. At most 128 neurons;
    /// [`relu2_neurons`] does all.
    fn relu2_neurons(
        &self,
        gate: &TernaryMatrix,
        up: &TernaryRows,
        x: &QuantRow,
        first_strip: usize,
        neurons: &mut [f32],
    ) -> usize;

    /// The results of the rows from `256 * first_line` on of `w` times `x`, with the bits of
    /// [`multiply`](Self::multiply), reading only the columns of `x`.
    /// [`multiply_add_columns`] does all.
    fn multiply_columns(&self, w: &TernaryColumns, first_line: usize, x: &NonZeros, y: &mut [f32]);

    /// The exact dot products of the rows `16 * strip ..` of `w` with every row of `xs`, into `y`,
    /// whose `row(t)` holds those (at most sixteen) of token `t`. [`int8_products`] does whole
    /// matrices.
    fn int8_dots(&self, w: &Int8Matrix, strip: usize, xs: &[QuantRow], y: &mut Strip<'_, i32>);

    /// As [`int8_dots`](Self::int8_dots), for codes of four bits.
    fn nibble_dots(&self, w: &NibbleMatrix, strip: usize, xs: &[QuantRow], y: &mut Strip<'_, i32>);

    /// What is known of the scores of sixteen rows by their dot products with the coarse and the fine
    /// codes of a vector: the score should be `coarse * x.coarse + fine * x.fine + x.offset`, times
    /// the row's scale, and is off by at most `error * x.per_error + norm * x.per_norm + x.least`.
    fn bound_scores(
        &self,
        sums: [&[i32; 16]; 2],
        rows: &RowBounds,
        x: &VectorBounds,
        out: &mut ScoreBounds,
    );

    /// `y[r] = rows[r] · x`, where a row has `x.len()` elements and there are `y.len()` of them.
    fn dots(&self, rows: FloatRows<'_>, x: &[f32], y: &mut [f32]);

    /// As [`dots`](Self::dots), with the same bits, for as many vectors as `y` has rows, one after the
    /// other in `xs`: `y.row(t)[r] = rows[r] · xs[t]`. Reads the rows from memory only once.
    fn dots_many(&self, rows: FloatRows<'_>, xs: &[f32], y: &mut Strip<'_, f32>);

    /// As [`dots_many`](Self::dots_many), with the same bits, for rows of codes.
    fn code_dots(&self, rows: CodeRows<'_>, xs: &[f32], y: &mut Strip<'_, f32>);

    /// `out = x / sqrt(mean(x²) + eps) * weight`.
    fn rms_norm(&self, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]);

    /// Turns each pair of `head` by its angle. `cos` and `sin` have half the length of `head`.
    fn rotate(&self, head: &mut [f32], cos: &[f32], sin: &[f32], pairs: RotaryPairs);

    /// `gate = relu(gate)² * up`, where a gate that is not positive gives +0 whatever `up` is, also
    /// for an infinite one, so that nobody needs to know it. A NaN stays one.
    fn relu2_mul(&self, gate: &mut [f32], up: &[f32]);

    /// `gate = gate / (1 + exp(-gate)) * up`.
    fn silu_mul(&self, gate: &mut [f32], up: &[f32]);

    /// `gate = gate / 2 * (1 + tanh(√(2/π) * (gate + 0.044715 * gate³))) * up`.
    fn gelu_mul(&self, gate: &mut [f32], up: &[f32]);

    /// `x += y`.
    fn add(&self, x: &mut [f32], y: &[f32]);

    /// `x = exp(x - max(x)) / sum(exp(x - max(x)))`.
    fn softmax(&self, x: &mut [f32]);

    /// The parts that the query heads of `q` take of the positions of one chunk that they see: of
    /// each head [`part_len`] floats. Heads do not change each other's bits; together, they read
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

    /// Joins to each part of `parts` that of a later chunk, of the same head, in `next`. [`attend`]
    /// does all chunks.
    fn join_chunks(&self, part_len: usize, parts: &mut [f32], next: &[f32]);
}

/// The kernels this CPU can run: scalar first, the best last.
pub fn supported() -> impl Iterator<Item = &'static dyn Kernel> {
    arch::supported()
}

/// The best kernel this CPU can run.
pub fn best() -> &'static dyn Kernel {
    supported().filter(|kernel| kernel.pays()).last().expect("the scalar kernel always pays")
}

/// The kernel for `isa`, or `None` if this CPU does not have it.
pub fn kernel(isa: Isa) -> Option<&'static dyn Kernel> {
    supported().find(|kernel| kernel.isa() == isa)
}

/// Why there is no [`kernel`] for `isa` here, where there is more to say than that this CPU does not
/// have it: a whole sentence, without a full stop.
pub fn why_missing(isa: Isa) -> Option<&'static str> {
    arch::why_missing(isa)
}

/// Rows of floats as they are stored: embedding rows, the output head.
#[derive(Clone, Copy, Debug)]
pub enum FloatRows<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// The upper half of single precision; see [`half`].
    Bf16(&'a [u16]),
    /// IEEE half precision; see [`half`].
    F16(&'a [u16]),
}

/// Which elements of a head turn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotaryPairs {
    /// Element `i` with `i + len / 2`, as Transformers does it.
    Halves,
    /// Element `2i` with `2i + 1`, as permuted GGUF files want it.
    Adjacent,
}
