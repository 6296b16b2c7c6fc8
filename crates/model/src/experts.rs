//! The mixture of experts of a layer.
//!
//! The tokens of a step are grouped by expert, so that a step reads each expert once, and those that no
//! token is routed to not at all. A token adds its experts in the order of their indices, whatever the
//! other tokens of the step are.

use crate::codes::{add_rows, norm_rows};
use crate::compute::Compute;
use crate::mlp::activate;
use crate::phases::Phase;
use crate::scratch::Scratch;
use crate::weights::{Expert, Experts};

pub(crate) struct ExpertsBlock<'a> {
    pub(crate) recipe: &'a wf_core::Experts,
    pub(crate) weights: &'a Experts,
    /// Factor of what the block adds to the hidden states.
    pub(crate) residual_scale: Option<f32>,
}

impl ExpertsBlock<'_> {
    /// Adds the block's output to the hidden states of the rows in `s`.
    pub(crate) fn run(self, cx: &Compute, s: &mut Scratch) {
        let Self { recipe, weights: w, residual_scale } = self;
        let hidden_len = w.norm.weight.len();
        let len = s.rows.len() * hidden_len;
        norm_rows(cx, &s.hidden[..len], &w.norm, &mut s.normed[..len]);
        s.ffn_in.maybe_norm_and_quantize(cx, &s.normed[..len], None, hidden_len);
        s.routes.route(cx, recipe, &w.router, &s.normed[..len]);
        s.clock.lap(Phase::Norms);

        // The normed rows are no longer needed: their codes are.
        s.normed[..len].fill(0.0);
        for (index, expert) in w.experts.iter().enumerate() {
            add_expert(cx, s, recipe, (index, expert));
        }
        let (mixed, hidden) = (&mut s.normed[..len], &mut s.hidden[..len]);
        let delta = &mut s.delta[..len];
        let sum = match &w.output_norm {
            None => mixed,
            Some(norm) => {
                norm_rows(cx, mixed, norm, delta);
                delta
            }
        };
        add_rows(cx, hidden, sum, hidden_len, residual_scale);
        s.clock.lap(Phase::Down);
    }
}

/// Runs an expert for the rows that are routed to it, and adds its share to their sums in `s.normed`.
fn add_expert(
    cx: &Compute,
    s: &mut Scratch,
    recipe: &wf_core::Experts,
    (index, expert): (usize, &Expert),
) {
    let (rows, shares) = s.routes.members(index);
    if rows.is_empty() {
        return;
    }
    let (ffn_len, hidden_len) = (recipe.expert.ffn_len, expert.down.rows());
    let neurons = &mut s.gate[..rows.len() * ffn_len];
    let delta = &mut s.delta[..rows.len() * hidden_len];
    let codes = match s.rows.len() {
        1 => &s.ffn_in,
        _ => {
            s.expert_in.gather(cx, &s.ffn_in, rows);
            &s.expert_in
        }
    };
    let outputs = (&mut *neurons, &mut s.up[..rows.len() * ffn_len]);
    let matrices = (&expert.gate, &expert.up);
    s.products.multiply_gated(cx, matrices, codes, outputs, |gate, up| {
        activate(cx, &recipe.expert, gate, up);
    });
    s.clock.lap(Phase::GateUp);
    s.ffn_mid.maybe_norm_and_quantize(cx, neurons, None, ffn_len);
    s.products.multiply_each(cx, [(&expert.down, &mut *delta)], &s.ffn_mid);
    let outputs = rows.iter().zip(shares).zip(delta.chunks_exact(hidden_len));
    for ((&row, &share), output) in outputs {
        let sum = &mut s.normed[row * hidden_len..][..hidden_len];
        sum.iter_mut().zip(output).for_each(|(sum, value)| *sum += share * value);
    }
    s.clock.lap(Phase::Down);
}
