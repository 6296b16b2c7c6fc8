//! A kernel with a planted error, which the checks must find.

use std::ops::Range;

use wf_kernels::{
    AttendScratch, AttentionKernel, CodeRows, DeltaInputs, FloatKernel, FloatRows, Int8Matrix, Isa,
    Kernel, KvHead, Layout, NibbleMatrix, NoiseKey, NonZeros, QuantRow, Queries, RmsNorm,
    RotaryPairs, RowBounds, ScoreBounds, Strip, TableKernel, TernaryColumns, TernaryKernel,
    TernaryMatrix, TernaryRows, VectorBounds,
};

use crate::exact::scalar;
/// The operations of a kernel, each of which can be wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Quantize,
    NormAndQuantize,
    Multiply,
    Int8Dots,
    NibbleDots,
    BoundScores,
    PerturbBounds,
    Dots,
    DotsMany,
    CodeDots,
    RmsNorm,
    Rotate,
    Relu2Mul,
    SiluMul,
    GeluMul,
    SigmoidMul,
    Convolve,
    DeltaRule,
    Hadamard,
    Add,
    Softmax,
    AttendChunk,
    JoinChunks,
    BoundPages,
}

/// The scalar kernel with a small error in one operation, on one length only: the last result of a
/// row of 67 is one float too far from zero.
pub(crate) struct Planted(pub(crate) Op);

impl Planted {
    fn spoil(&self, op: Op, len: usize, results: &mut [f32]) {
        if self.0 == op
            && len == 67
            && let Some(last) = results.last_mut()
        {
            *last = f32::from_bits(last.to_bits() ^ 1);
        }
    }
}

impl Kernel for Planted {
    fn isa(&self) -> Isa {
        Isa::Scalar
    }

    fn reads_layout(&self, layout: Layout) -> bool {
        scalar().reads_layout(layout)
    }
}

impl TernaryKernel for Planted {
    fn quantize(&self, x: &[f32], codes: &mut [i8], sums: &mut [i32]) -> f32 {
        let scale = scalar().quantize(x, codes, sums);
        if self.0 == Op::Quantize && x.len() == 67 {
            codes[66] = codes[66].wrapping_add(1);
        }
        scale
    }

    fn norm_and_quantize(
        &self,
        x: &[f32],
        norm: RmsNorm<'_>,
        codes: &mut [i8],
        sums: &mut [i32],
    ) -> f32 {
        let scale = scalar().norm_and_quantize(x, norm, codes, sums);
        if self.0 == Op::NormAndQuantize && x.len() == 67 {
            codes[66] = codes[66].wrapping_add(1);
        }
        scale
    }

    fn multiply(&self, w: &TernaryMatrix, strip: usize, xs: &[QuantRow], y: &mut Strip<'_, f32>) {
        scalar().multiply(w, strip, xs, y);
        self.spoil(Op::Multiply, w.cols(), y.row(xs.len() - 1));
    }

    fn relu2_neurons(
        &self,
        _: &TernaryMatrix,
        _: &TernaryRows,
        _: &QuantRow,
        _: usize,
        _: &mut [f32],
    ) -> usize {
        unreachable!("checked against the dense product, in sparse.rs")
    }

    fn open_neurons(
        &self,
        _: &TernaryRows,
        _: &QuantRow,
        _: usize,
        _: bool,
        _: &mut [f32],
    ) -> usize {
        unreachable!("checked against the dense product, in sparse.rs")
    }

    fn sum_columns(
        &self,
        _: &TernaryColumns,
        _: &NonZeros,
        _: Range<usize>,
        _: &mut [i32],
        _: &mut [i32],
    ) {
        unreachable!("checked against the dense product, in sparse.rs")
    }

    fn find_non_zeros(&self, _: &QuantRow, _: &mut NonZeros) {
        unreachable!("checked against the dense product, in sparse.rs")
    }

    fn add_columns_of_each(
        &self,
        _: &TernaryColumns,
        _: usize,
        _: &[NonZeros],
        _: &mut Strip<'_, f32>,
    ) {
        unreachable!("checked against the dense product, in sparse.rs")
    }

    fn multiply_columns(&self, _: &TernaryColumns, _: usize, _: &NonZeros, _: &mut [f32]) {
        unreachable!("checked against the dense product, in sparse.rs")
    }
}

impl TableKernel for Planted {
    fn int8_dots(&self, w: &Int8Matrix, strip: usize, xs: &[QuantRow], y: &mut Strip<'_, i32>) {
        scalar().int8_dots(w, strip, xs, y);
        if self.0 == Op::Int8Dots && w.cols() == 67 {
            y.row(xs.len() - 1)[0] += 1;
        }
    }

    fn nibble_dots(&self, w: &NibbleMatrix, strip: usize, xs: &[QuantRow], y: &mut Strip<'_, i32>) {
        scalar().nibble_dots(w, strip, xs, y);
        if self.0 == Op::NibbleDots && w.cols() == 67 {
            y.row(xs.len() - 1)[0] += 1;
        }
    }

    fn bound_scores(
        &self,
        sums: [&[i32; 16]; 2],
        rows: &RowBounds,
        x: &VectorBounds,
        out: &mut ScoreBounds,
    ) {
        scalar().bound_scores(sums, rows, x, out);
        self.spoil(Op::BoundScores, 67, &mut out.upper);
    }

    fn perturb_bounds(&self, key: NoiseKey, first: u32, factor: f32, bounds: &mut ScoreBounds) {
        scalar().perturb_bounds(key, first, factor, bounds);
        self.spoil(Op::PerturbBounds, 67, &mut bounds.upper);
    }

    fn dots(&self, rows: FloatRows<'_>, x: &[f32], y: &mut [f32]) {
        scalar().dots(rows, x, y);
        self.spoil(Op::Dots, x.len(), y);
    }

    fn dots_many(&self, rows: FloatRows<'_>, xs: &[f32], y: &mut Strip<'_, f32>) {
        scalar().dots_many(rows, xs, y);
        self.spoil(Op::DotsMany, xs.len() / y.rows(), y.row(y.rows() - 1));
    }

    fn code_dots(&self, rows: CodeRows<'_>, xs: &[f32], y: &mut Strip<'_, f32>) {
        scalar().code_dots(rows, xs, y);
        if xs.len() / y.rows() == 64 {
            self.spoil(Op::CodeDots, 67, y.row(y.rows() - 1));
        }
    }
}

impl FloatKernel for Planted {
    fn rms_norm(&self, x: &[f32], norm: RmsNorm<'_>, out: &mut [f32]) {
        scalar().rms_norm(x, norm, out);
        self.spoil(Op::RmsNorm, x.len(), out);
    }

    fn rotate(&self, head: &mut [f32], cos: &[f32], sin: &[f32], pairs: RotaryPairs) {
        scalar().rotate(head, cos, sin, pairs);
        self.spoil(Op::Rotate, cos.len(), head);
    }

    fn relu2_mul(&self, gate: &mut [f32], up: &[f32]) {
        scalar().relu2_mul(gate, up);
        self.spoil(Op::Relu2Mul, up.len(), gate);
    }

    fn silu_mul(&self, gate: &mut [f32], up: &[f32]) {
        scalar().silu_mul(gate, up);
        self.spoil(Op::SiluMul, up.len(), gate);
    }

    fn gelu_mul(&self, gate: &mut [f32], up: &[f32]) {
        scalar().gelu_mul(gate, up);
        self.spoil(Op::GeluMul, up.len(), gate);
    }

    fn sigmoid_mul(&self, x: &mut [f32], gate: &[f32]) {
        scalar().sigmoid_mul(x, gate);
        self.spoil(Op::SigmoidMul, gate.len(), x);
    }

    fn convolve(&self, inputs: &[&[f32]], weights: &[f32], out: &mut [f32]) {
        scalar().convolve(inputs, weights, out);
        self.spoil(Op::Convolve, out.len(), out);
    }

    fn delta_rule(&self, inputs: &DeltaInputs<'_>, state: &mut [f32], out: &mut Strip<'_, f32>) {
        scalar().delta_rule(inputs, state, out);
        self.spoil(Op::DeltaRule, out.width(), state);
    }

    fn hadamard(&self, x: &[f32], signs: &[f32], scale: f32, out: &mut [f32]) {
        scalar().hadamard(x, signs, scale, out);
        // Blocks are powers of two: the error is in one of 64.
        self.spoil(Op::Hadamard, x.len() + 3, out);
    }

    fn add(&self, x: &mut [f32], y: &[f32]) {
        scalar().add(x, y);
        self.spoil(Op::Add, y.len(), x);
    }

    fn softmax(&self, x: &mut [f32]) {
        scalar().softmax(x);
        self.spoil(Op::Softmax, x.len(), x);
    }
}

impl AttentionKernel for Planted {
    fn attend_chunk(
        &self,
        q: &Queries<'_>,
        kv: &KvHead<'_>,
        chunk: usize,
        scratch: &mut AttendScratch,
        parts: &mut [f32],
    ) {
        scalar().attend_chunk(q, kv, chunk, scratch, parts);
        self.spoil(Op::AttendChunk, kv.head_dim(), parts);
    }

    fn join_chunks(&self, part_len: usize, parts: &mut [f32], next: &[f32]) {
        scalar().join_chunks(part_len, parts, next);
        self.spoil(Op::JoinChunks, part_len - 15, parts);
    }

    fn bound_pages(&self, queries: &[f32], kv: &KvHead<'_>, first_page: usize, out: &mut [f32]) {
        scalar().bound_pages(queries, kv, first_page, out);
        self.spoil(Op::BoundPages, kv.head_dim(), out);
    }
}
