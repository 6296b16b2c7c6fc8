//! The gated feed-forward half of a layer: squared ReLU, SiLU or GELU, in f32 throughout.
//!
//! relu(gate)² · up reaches 1e8 in real models, so nothing here may become f16.

use wf_formats::{Activation, ModelConfig};
use wf_kernels::{Kernel, multiply_each, multiply_gated};

use crate::codes::{maybe_norm_and_quantize, multiply_norm_add, norm_and_quantize, norm_rows};
use crate::compute::Compute;
use crate::parts::Part;
use crate::scratch::Scratch;
use crate::sparse::{SparseLayer, SparseStep};
use crate::weights::Mlp;

/// `hidden += down(sub_norm(activation(gate(n)) · up(n)))` with `n = norm(hidden)`. Some families
/// norm `n` once more for each of gate and up, or what is added.
pub(crate) fn mlp(
    cx: &Compute,
    config: &ModelConfig,
    w: &Mlp,
    (sparse, step): (&mut SparseLayer, &mut SparseStep),
    rows: usize,
    s: &mut Scratch,
) {
    let (hidden_len, ffn_len, eps) = (config.hidden_len, config.ffn_len, config.norm_eps);
    let hidden = &mut s.hidden[..rows * hidden_len];
    let normed = &mut s.normed[..rows * hidden_len];
    let gate = &mut s.gate[..rows * ffn_len];
    let up = &mut s.up[..rows * ffn_len];

    let delta = &mut s.delta[..rows * hidden_len];
    let activate = match config.activation {
        Activation::Relu2 => Kernel::relu2_mul,
        Activation::Silu => Kernel::silu_mul,
        Activation::GeluTanh => Kernel::gelu_mul,
    };
    if let Some(norms) = &w.extra.inputs {
        norm_rows(cx, hidden, (&w.norm, eps), normed);
        let products = [(&w.gate, &mut *gate), (&w.up, &mut *up)];
        for ((matrix, y), norm) in products.into_iter().zip(norms) {
            norm_and_quantize(cx, normed, (norm, eps), delta, &mut s.ffn_in);
            multiply_each(cx.kernel, &cx.pool, [(matrix, y)], &s.ffn_in);
        }
        cx.pool.rows(gate, ffn_len, |row, gate| {
            activate(cx.kernel, gate, &up[row * ffn_len..][..ffn_len]);
        });
    } else {
        norm_and_quantize(cx, hidden, (&w.norm, eps), normed, &mut s.ffn_in);
        s.clock.lap(Part::Norms);
        if !sparse.neurons(cx, step, &w.gate, &s.ffn_in, gate) {
            let (matrices, outputs) = ((&w.gate, &w.up), (&mut *gate, &mut *up));
            multiply_gated(cx.kernel, &cx.pool, matrices, &s.ffn_in, outputs, |gate, up| {
                step.look_at(gate);
                activate(cx.kernel, gate, up);
            });
        }
    }
    s.clock.lap(Part::GateUp);

    // `up` has been used: its room takes the normed neurons.
    let sub_norm = (w.sub_norm.as_deref(), eps);
    maybe_norm_and_quantize(cx, gate, sub_norm, up, &mut s.ffn_mid, ffn_len);
    s.clock.lap(Part::Norms);
    if !sparse.down(cx, step, &s.ffn_mid, delta, hidden) {
        let down = (&w.down, w.extra.output.as_deref());
        multiply_norm_add(cx, down, &s.ffn_mid, eps, (delta, normed, hidden));
    }
    s.clock.lap(Part::Down);
}
