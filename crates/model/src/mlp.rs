//! The gated feed-forward block of a layer, in f32 throughout: the neurons of squared ReLU reach 1e8
//! in real models, which f16 does not hold.

use wf_core::{Activation, Dense};
use wf_kernels::{TernaryColumns, Upcoming};

use crate::codes::{Residual, norm_rows};
use crate::compute::Compute;
use crate::phases::Phase;
use crate::scratch::Scratch;
use crate::sparse::{SparseLayer, SparseStep};
use crate::weights::Mlp;

pub(crate) struct MlpBlock<'a> {
    pub(crate) recipe: &'a Dense,
    pub(crate) weights: &'a Mlp,
    pub(crate) sparse: &'a mut SparseLayer,
    pub(crate) step: &'a mut SparseStep,
    /// Copies of the projections by column.
    pub(crate) columns: [&'a [TernaryColumns]; 2],
    /// Matrices that are read after the block.
    pub(crate) next: Upcoming<'a>,
    /// Factor of what the block adds to the hidden states.
    pub(crate) residual_scale: Option<f32>,
}

impl MlpBlock<'_> {
    /// Adds the block's output to the hidden states of the rows in `s`.
    pub(crate) fn run(self, cx: &Compute, s: &mut Scratch) {
        let Self { recipe, weights: w, sparse, step, columns, next, residual_scale: scale } = self;
        let [input_columns, down_columns] = columns;
        let (rows, hidden_len, ffn_len) = (s.rows.len(), w.norm.weight.len(), w.down.cols());
        let hidden = &mut s.hidden[..rows * hidden_len];
        let normed = &mut s.normed[..rows * hidden_len];
        let delta = &mut s.delta[..rows * hidden_len];
        let gate = &mut s.gate[..rows * ffn_len];
        let up = &mut s.up[..rows * ffn_len];

        if let Some(norms) = &w.input_norms {
            norm_rows(cx, hidden, &w.norm, normed);
            let products = [(&w.gate, &mut *gate), (&w.up, &mut *up)];
            for ((matrix, y), norm) in products.into_iter().zip(norms) {
                s.ffn_in.norm_and_quantize(cx, normed, norm);
                s.products.multiply_each(cx, [(matrix, y)], &s.ffn_in);
            }
            cx.pool.row_pairs((&mut *gate, ffn_len), (up, ffn_len), |_, gate, up| {
                activate(cx, recipe, gate, up);
            });
        } else {
            s.ffn_in.norm_and_quantize(cx, hidden, &w.norm);
            s.clock.lap(Phase::Norms);
            if !s.ffn_in.skips(down_columns) {
                cx.pool.announce(Upcoming::InTurn([w.down.packed(), &[], &[]]));
            }
            if s.ffn_in.skips(input_columns) {
                let products = [(&w.gate, &mut *gate), (&w.up, &mut *up)];
                s.products.multiply_skipping(cx, products, &s.ffn_in, input_columns);
                step.count_closed(gate);
                activate(cx, recipe, gate, up);
            } else if !sparse.neurons(cx, step, w, (&s.ffn_in, &mut *gate), &mut s.products) {
                let matrices = (&w.gate, &w.up);
                s.products.multiply_gated(cx, matrices, &s.ffn_in, gate, |gate, up| {
                    step.count_closed(gate);
                    activate(cx, recipe, gate, up);
                });
            }
        }
        s.clock.lap(Phase::GateUp);

        s.ffn_mid.maybe_norm_and_quantize(cx, gate, w.sub_norm.as_ref(), ffn_len);
        s.clock.lap(Phase::Norms);
        cx.pool.announce(next);
        if scale.is_some() || !sparse.down(cx, step, s.ffn_mid.batch(), delta, hidden) {
            let out = Residual { delta, normed, hidden, scale };
            let codes = (&s.ffn_mid, down_columns);
            s.products.multiply_norm_add(cx, &w.down, w.output_norm.as_ref(), codes, out);
        }
        s.clock.lap(Phase::Down);
    }
}

/// `gate = activation(gate) * up`, element by element, both limited first if the recipe says so.
pub(crate) fn activate(cx: &Compute, recipe: &Dense, gate: &mut [f32], up: &mut [f32]) {
    if let Some(limit) = recipe.limit {
        // Written so that a NaN stays one.
        gate.iter_mut().for_each(|gate| *gate = if *gate > limit { limit } else { *gate });
        up.iter_mut().for_each(|up| *up = up.clamp(-limit, limit));
    }
    match recipe.activation {
        Activation::Relu2 => cx.kernel.relu2_mul(gate, up),
        Activation::Silu => cx.kernel.silu_mul(gate, up),
        Activation::GeluTanh => cx.kernel.gelu_mul(gate, up),
    }
}
