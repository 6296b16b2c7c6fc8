//! The gated DeltaNet block of a layer: projections, convolution, delta rule, gated norm.
//!
//! Tokens pass through the recurrence one by one, also those of a prompt, so that no bit depends on how a prompt
//! is cut into steps. Heads run in parallel; a head keeps its state in the caches while its tokens pass. Drafts run on
//! copies of the states, and pass through the recurrence again when they are kept.

use std::ops::Range;

use wf_core::{DeltaNet, ValueHeadOrder};
use wf_kernels::{DeltaInputs, FloatRows, TernaryColumns, Upcoming, math};

use crate::codes::{Residual, norm_rows};
use crate::compute::Compute;
use crate::delta_scratch::DeltaScratch;
use crate::phases::Phase;
use crate::scratch::Scratch;
use crate::segment::{Row, Segment};
use crate::states::{Drafts, LayerStates};
use crate::weights;

/// Added to the square of the length of a query or key.
const LENGTH_EPS: f32 = 1e-6;

/// Rows of gates that are multiplied in one job.
const GATE_ROWS: usize = 16;

pub(crate) struct DeltaNetBlock<'a> {
    pub(crate) recipe: &'a DeltaNet,
    pub(crate) weights: &'a weights::DeltaNet,
    /// True if the output projection sees value heads in the order of checkpoints, whatever order they have here.
    pub(crate) groups: bool,
    /// Copies of the projections by column.
    pub(crate) columns: [&'a [TernaryColumns]; 2],
    /// Matrices that are read after the block.
    pub(crate) next: Upcoming<'a>,
    /// Factor of what the block adds to the hidden states.
    pub(crate) residual_scale: Option<f32>,
}

impl DeltaNetBlock<'_> {
    /// Adds the block's output to the hidden states of the rows in `s`, and moves the states of their segments
    /// on.
    pub(crate) fn run(
        &self,
        cx: &Compute,
        states: &mut LayerStates,
        batch: &[Segment<'_>],
        s: &mut Scratch,
    ) {
        let &Self { recipe, weights: w, columns: [input_columns, output_columns], .. } = self;
        let rows = s.rows.len();
        let (hidden_len, channels) = (w.norm.weight.len(), recipe.channels());
        let value_len = recipe.value_len();
        let hidden = &mut s.hidden[..rows * hidden_len];
        let normed = &mut s.normed[..rows * hidden_len];
        let d = &mut s.delta_net;
        let inputs = &mut d.inputs[..rows * channels];
        let mixed = &mut d.mixed[..rows * channels];
        let gates = &mut d.gates[..rows * 2 * recipe.value_heads];
        let mut output_gate = &mut d.output_gate[..rows * value_len];
        let mut heads = &mut d.heads[..rows * value_len];

        norm_rows(cx, hidden, &w.norm, normed);
        s.attn_in.quantize(cx, normed, hidden_len);
        s.clock.lap(Phase::Norms);
        if !s.attn_in.skips(output_columns) {
            cx.pool.announce(Upcoming::InTurn([w.output.packed(), &[], &[]]));
        }
        let products = [(&w.qkv, &mut *inputs), (&w.gate, &mut *output_gate)];
        s.products.multiply_skipping(cx, products, &s.attn_in, input_columns);
        self.multiply_gates(cx, normed, gates);
        s.clock.lap(Phase::QueryKeyValue);

        let taps = Taps { recipe, history: &states.history, inputs };
        let (mixed_rows, gate_rows) =
            ((&mut *mixed, channels), (&mut *gates, 2 * recipe.value_heads));
        cx.pool.row_pairs(mixed_rows, gate_rows, |row, mixed, gates| {
            let Row { segment, position, .. } = s.rows[row];
            let Segment { start, state, .. } = batch[segment];
            self.convolve(cx, &taps, Tap { row, position, start, state }, mixed);
            self.open_gates(gates);
        });
        keep_inputs(recipe, states, batch, inputs, gates);
        s.clock.lap(Phase::Rotary);

        let (slots, slices, state_len) = (&d.slots[..], &d.slices[..], recipe.state_len());
        let own = (&mut states.heads[..], state_len, slots);
        let out = (&mut *heads, value_len, slices);
        cx.pool.rows_and_slices(own, out, recipe.value_heads, |n, head, state, mut out| {
            let inputs = self.head_inputs(head, slices[n].clone(), mixed, gates);
            cx.kernel.delta_rule(&inputs, state, &mut out);
        });
        let (slots, slices, states) = (&d.draft_slots, &d.draft_slices[..], &states.heads);
        let copies = &mut d.draft_states[..slots.len() * state_len];
        let copies = (copies, state_len, &d.copies[..slots.len()]);
        let out = (&mut *heads, value_len, slices);
        cx.pool.rows_and_slices(copies, out, recipe.value_heads, |n, head, state, mut out| {
            let first = slots[n] * state_len + head * state.len();
            state.copy_from_slice(&states[first..first + state.len()]);
            let inputs = self.head_inputs(head, slices[n].clone(), mixed, gates);
            cx.kernel.delta_rule(&inputs, state, &mut out);
        });
        s.clock.lap(Phase::Attention);

        // The values of the mixed rows are no longer needed: the normed heads take their place.
        let gate_rows = (&mut *output_gate, value_len);
        cx.pool.row_pairs(gate_rows, (mixed, channels), |row, gate, mixed| {
            let heads = heads[row * value_len..][..value_len].chunks_exact(recipe.value_dim);
            let normed = mixed[2 * recipe.key_len()..].chunks_exact_mut(recipe.value_dim);
            let gates = gate.chunks_exact_mut(recipe.value_dim);
            for ((head, normed), gate) in heads.zip(normed).zip(gates) {
                cx.kernel.rms_norm(head, w.head_norm.as_rms(), normed);
                cx.kernel.silu_mul(gate, normed);
            }
        });
        if self.groups && recipe.order == ValueHeadOrder::Tiled {
            self.group_heads(cx, output_gate, heads);
            std::mem::swap(&mut output_gate, &mut heads);
        }
        s.attn_out.quantize(cx, output_gate, value_len);
        s.clock.lap(Phase::Norms);
        cx.pool.announce(self.next);
        let delta = &mut s.delta[..rows * hidden_len];
        let out = Residual { delta, normed, hidden, scale: self.residual_scale };
        s.products.multiply_norm_add(cx, &w.output, None, (&s.attn_out, output_columns), out);
        s.clock.lap(Phase::Output);
    }

    /// Moves a state on by the drafts of the last step that are kept.
    pub(crate) fn replay(
        &self,
        cx: &Compute,
        states: &mut LayerStates,
        drafts: &Drafts,
        s: &mut DeltaScratch,
    ) {
        let recipe = self.recipe;
        let &Drafts { slot, start, ref rows } = drafts;
        let LayerStates { heads, history, draft_inputs, draft_gates } = states;
        let (channels, gate_len) = (recipe.channels(), 2 * recipe.value_heads);
        let inputs = &draft_inputs[rows.start * channels..rows.end * channels];
        let gates = &draft_gates[rows.start * gate_len..rows.end * gate_len];
        let mixed = &mut s.mixed[..rows.len() * channels];
        let taps = Taps { recipe, history, inputs };
        cx.pool.rows(&mut *mixed, channels, |row, mixed| {
            self.convolve(cx, &taps, Tap { row, position: start + row, start, state: slot }, mixed);
        });
        keep_history(recipe, history, (slot, start), inputs);
        // Nobody asks for the outputs again.
        let out = &mut s.heads[..rows.len() * recipe.value_len()];
        let all = 0..rows.len();
        let states = (&mut heads[..], recipe.state_len(), &[slot][..]);
        let out = (out, recipe.value_len(), std::slice::from_ref(&all));
        cx.pool.rows_and_slices(states, out, recipe.value_heads, |_, head, state, mut out| {
            let inputs = self.head_inputs(head, all.clone(), mixed, gates);
            cx.kernel.delta_rule(&inputs, state, &mut out);
        });
    }

    /// Sets `grouped` to the rows of `tiled` with the value heads of each key head side by side.
    fn group_heads(&self, cx: &Compute, tiled: &[f32], grouped: &mut [f32]) {
        let &DeltaNet { key_heads, value_heads, value_dim, .. } = self.recipe;
        cx.pool.rows(grouped, value_heads * value_dim, |row, grouped| {
            let tiled = &tiled[row * grouped.len()..][..grouped.len()];
            for (head, values) in grouped.chunks_exact_mut(value_dim).enumerate() {
                let from = ValueHeadOrder::Grouped.head_before(head, key_heads, value_heads);
                values.copy_from_slice(&tiled[from * value_dim..][..value_dim]);
            }
        });
    }

    /// Multiplies the normed rows by the floats of the gates.
    fn multiply_gates(&self, cx: &Compute, normed: &[f32], gates: &mut [f32]) {
        let (w, len) = (self.weights, self.weights.norm.weight.len());
        cx.pool.strips(gates, 2 * self.recipe.value_heads, GATE_ROWS, |strip, mut gates| {
            let rows = &w.gates[strip * GATE_ROWS * len..][..gates.width() * len];
            cx.kernel.dots_many(FloatRows::F32(rows), normed, &mut gates);
        });
    }

    /// Turns the products of a row into the strengths of updates and the decays of its heads.
    fn open_gates(&self, gates: &mut [f32]) {
        let (strengths, decays) = gates.split_at_mut(self.recipe.value_heads);
        for strength in strengths {
            *strength = (1.0 / (1.0 + math::exp(-f64::from(*strength)))) as f32;
        }
        let factors = self.weights.decay.iter().zip(&self.weights.bias);
        for (decay, (factor, bias)) in decays.iter_mut().zip(factors) {
            let softplus = softplus(f64::from(*decay + bias));
            *decay = math::exp(f64::from(*factor) * softplus) as f32;
        }
    }

    /// Convolves a row, and gives its queries and keys the length that the recurrence expects.
    fn convolve(&self, cx: &Compute, taps: &Taps<'_>, at: Tap, mixed: &mut [f32]) {
        let &DeltaNet { key_dim, conv_len, .. } = self.recipe;
        let mut inputs = [&[][..]; DeltaNet::MAX_CONV_LEN];
        let seen = taps.of(at, &mut inputs);
        let weights = &self.weights.conv[(conv_len - seen.len()) * mixed.len()..];
        cx.kernel.convolve(seen, weights, mixed);
        let key_len = self.recipe.key_len();
        let heads = mixed[..2 * key_len].chunks_exact_mut(key_dim);
        for (index, head) in heads.enumerate() {
            let mut square = [0.0];
            cx.kernel.dots(FloatRows::F32(head), head, &mut square);
            let mut factor = 1.0 / (square[0] + LENGTH_EPS).sqrt();
            if index < self.recipe.key_heads {
                factor /= (key_dim as f32).sqrt();
            }
            head.iter_mut().for_each(|value| *value *= factor);
        }
    }

    /// Returns the inputs of the delta rule of one head for the rows of a segment.
    fn head_inputs<'r>(
        &self,
        head: usize,
        rows: Range<usize>,
        mixed: &'r [f32],
        gates: &'r [f32],
    ) -> DeltaInputs<'r> {
        let recipe = self.recipe;
        let (row_len, key_len) = (recipe.channels(), recipe.key_len());
        let key = recipe.key_head_of(head) * recipe.key_dim;
        let gate_len = 2 * recipe.value_heads;
        DeltaInputs {
            rows: &mixed[rows.start * row_len..rows.end * row_len],
            row_len,
            key_dim: recipe.key_dim,
            columns: [key, key_len + key, 2 * key_len + head * recipe.value_dim],
            gates: &gates[rows.start * gate_len..rows.end * gate_len],
            heads: recipe.value_heads,
            head,
        }
    }
}

/// `ln(1 + e^x)`, which is `x` for large ones, as in `transformers`.
fn softplus(x: f64) -> f64 {
    if x > 20.0 { x } else { math::ln(1.0 + math::exp(x)) }
}

/// The inputs of convolutions: those of a step, and those that states keep from earlier ones.
struct Taps<'a> {
    recipe: &'a DeltaNet,
    /// See [`LayerStates::history`].
    history: &'a [f32],
    inputs: &'a [f32],
}

/// The place of a row.
#[derive(Clone, Copy)]
struct Tap {
    row: usize,
    position: usize,
    /// Position of the first row of its segment.
    start: usize,
    state: usize,
}

impl<'a> Taps<'a> {
    /// Returns the inputs that a row sees, oldest first: fewer at the start of a sequence.
    fn of<'t>(&self, at: Tap, taps: &'t mut [&'a [f32]]) -> &'t [&'a [f32]] {
        let (channels, conv_len) = (self.recipe.channels(), self.recipe.conv_len);
        let Tap { row, position, start, state } = at;
        let seen = conv_len.min(position + 1);
        for (tap, back) in taps.iter_mut().zip((0..seen).rev()) {
            let at = position - back;
            *tap = if at >= start {
                &self.inputs[(row - back) * channels..][..channels]
            } else {
                let place = state * (conv_len - 1) + at % (conv_len - 1);
                &self.history[place * channels..][..channels]
            };
        }
        &taps[..seen]
    }
}

/// Keeps the last inputs of each segment for the next step, and inputs and gates of all drafts.
fn keep_inputs(
    recipe: &DeltaNet,
    states: &mut LayerStates,
    batch: &[Segment<'_>],
    inputs: &[f32],
    gates: &[f32],
) {
    let (channels, gate_len) = (recipe.channels(), 2 * recipe.value_heads);
    let (mut first, mut drafts) = (0, 0);
    for segment in batch {
        let end = first + segment.tokens.len();
        let (certain, kept) = (first..end - segment.drafts, drafts..drafts + segment.drafts);
        let place = (segment.state, segment.start);
        let certain = certain.start * channels..certain.end * channels;
        keep_history(recipe, &mut states.history, place, &inputs[certain]);
        let rows = end - segment.drafts..end;
        states.draft_inputs[kept.start * channels..kept.end * channels]
            .copy_from_slice(&inputs[rows.start * channels..rows.end * channels]);
        states.draft_gates[kept.start * gate_len..kept.end * gate_len]
            .copy_from_slice(&gates[rows.start * gate_len..rows.end * gate_len]);
        (first, drafts) = (end, kept.end);
    }
}

/// Keeps the last inputs of a state, whose first one is that of position `start`.
fn keep_history(
    recipe: &DeltaNet,
    history: &mut [f32],
    (state, start): (usize, usize),
    inputs: &[f32],
) {
    let (channels, kept) = (recipe.channels(), recipe.conv_len - 1);
    let len = inputs.len() / channels;
    for at in len.saturating_sub(kept)..len {
        let place = state * kept + (start + at) % kept;
        history[place * channels..][..channels]
            .copy_from_slice(&inputs[at * channels..][..channels]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softplus_is_positive_and_ends_in_a_line() {
        assert!((softplus(0.0) - std::f64::consts::LN_2).abs() < 1e-15);
        assert!(softplus(-50.0) >= 0.0 && softplus(-50.0) < 1e-20);
        assert_eq!(softplus(30.0), 30.0);
        assert!((softplus(20.0) - 20.0).abs() < 1e-8);
    }
}
