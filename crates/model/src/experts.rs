//! The mixture of experts of a layer.
//!
//! The tokens of a step are grouped by expert, so that a step reads each expert once, and those that no
//! token is routed to not at all. Experts run together, as many as there are places for their tokens: all of
//! them for a few tokens. A token adds its experts in the order of their indices, whatever the other tokens
//! of the step are, and the shared expert last.

use wf_kernels::{multiply_gated_slices, multiply_slices, slice_alignment};

use crate::codes::{add_rows, norm_rows};
use crate::compute::Compute;
use crate::mlp::activate;
use crate::phases::Phase;
use crate::scratch::Scratch;
use crate::weights::{Experts, SharedExpert};

/// Maximum number of places whose outputs one thread adds in less time than several threads take to start.
const MAX_PLACES_ALONE: usize = 16;

/// Columns of outputs that are added in one job.
const ADDED_COLUMNS: usize = 128;

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
        s.ffn_in.quantize(cx, &s.normed[..len], hidden_len);
        s.routes.route(cx, recipe, &w.router, &s.normed[..len]);
        if let Some(shared) = &w.shared {
            s.routes.weigh_shared(cx, shared.gate.as_deref(), &s.normed[..len], hidden_len);
        }
        s.clock.lap(Phase::Norms);

        // The normed rows are no longer needed: their codes are.
        s.normed[..len].fill(0.0);
        let rows_per_token = s.ffn_in.batch().rows_per_token();
        let max_rows = s.routes.max_members(recipe.experts) * rows_per_token;
        let alignment = slice_alignment(cx.kernel, max_rows).div_ceil(rows_per_token);
        let mut next = 0;
        while next < recipe.experts {
            next = s.routes.next_group(next..recipe.experts, alignment);
            self.add_group(cx, s, alignment > 1);
        }
        if let Some(shared) = &w.shared {
            self.add_shared(cx, s, shared);
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

    /// Runs the experts of the current group, and adds their shares to the sums of rows in `s.normed`.
    fn add_group(&self, cx: &Compute, s: &mut Scratch, tiled: bool) {
        let group = s.routes.group();
        let (kernel, pool, slices) = (cx.kernel, &*cx.pool, &group.slices[..]);
        let expert = |n: usize| &self.weights.experts[group.experts[n]];
        let (places, ffn_len) = (group.rows.len(), self.recipe.expert.ffn_len);
        let neurons = &mut s.gate[..places * ffn_len];
        s.expert_in.gather(cx, &s.ffn_in, (&group.rows, tiled));
        let matrices = |n: usize| (&expert(n).gate, &expert(n).up);
        let out = (&mut *neurons, &mut s.products.scratch);
        multiply_gated_slices(kernel, pool, slices, matrices, s.expert_in.batch(), out, |g, up| {
            activate(cx, &self.recipe.expert, g, up);
        });
        s.clock.lap(Phase::GateUp);

        s.ffn_mid.quantize(cx, neurons, ffn_len);
        let hidden_len = self.weights.norm.weight.len();
        let outputs = &mut s.delta[..places * hidden_len];
        let matrix = |n: usize| &expert(n).down;
        multiply_slices(kernel, pool, slices, matrix, s.ffn_mid.batch(), outputs);
        let sums = &mut s.normed[..s.rows.len() * hidden_len];
        let columns = if places <= MAX_PLACES_ALONE { hidden_len } else { ADDED_COLUMNS };
        pool.strips(sums, hidden_len, columns, |strip, mut sums| {
            for place in slices.iter().cloned().flatten() {
                let (sum, share) = (sums.row(group.rows[place]), group.shares[place]);
                let output = &outputs[place * hidden_len + strip * columns..][..sum.len()];
                sum.iter_mut().zip(output).for_each(|(sum, value)| *sum += share * value);
            }
        });
        s.clock.lap(Phase::Down);
    }

    /// Runs the shared expert on all rows, and adds its shares to the sums in `s.normed`.
    fn add_shared(&self, cx: &Compute, s: &mut Scratch, shared: &SharedExpert) {
        let (recipe, expert) = (&self.recipe.expert, &shared.expert);
        let (rows, hidden_len, ffn_len) = (s.rows.len(), expert.down.rows(), expert.gate.rows());
        let neurons = &mut s.gate[..rows * ffn_len];
        let matrices = (&expert.gate, &expert.up);
        s.products.multiply_gated(cx, matrices, &s.ffn_in, neurons, |gate, up| {
            activate(cx, recipe, gate, up);
        });
        s.clock.lap(Phase::GateUp);

        s.ffn_mid.quantize(cx, neurons, ffn_len);
        let outputs = &mut s.delta[..rows * hidden_len];
        s.products.multiply_each(cx, [(&expert.down, &mut *outputs)], &s.ffn_mid);
        let shares = s.routes.shared_shares();
        cx.pool.rows(&mut s.normed[..rows * hidden_len], hidden_len, |row, sum| {
            let output = &outputs[row * hidden_len..][..hidden_len];
            sum.iter_mut().zip(output).for_each(|(sum, value)| *sum += shares[row] * value);
        });
        s.clock.lap(Phase::Down);
    }
}
