//! The gated feed-forward half of a layer: squared ReLU or SiLU, in f32 throughout.
//!
//! relu(gate)² · up reaches 1e8 in real models, so nothing here may become f16.

use wf_formats::{Activation, ModelConfig};

use crate::compute::Compute;
use crate::linear::{add, multiply, norm, quantize};
use crate::parts::Part;
use crate::scratch::Scratch;
use crate::weights::Mlp;

/// `hidden += down(sub_norm(activation(gate(n)) · up(n)))` with `n = norm(hidden)`.
pub(crate) fn mlp(cx: &Compute, config: &ModelConfig, w: &Mlp, rows: usize, s: &mut Scratch) {
    let (hidden_len, ffn_len, eps) = (config.hidden_len, config.ffn_len, config.norm_eps);
    let hidden = &mut s.hidden[..rows * hidden_len];
    let normed = &mut s.normed[..rows * hidden_len];
    let gate = &mut s.gate[..rows * ffn_len];
    let up = &mut s.up[..rows * ffn_len];

    norm(cx, hidden, &w.norm, eps, normed);
    quantize(cx, normed, hidden_len, &mut s.ffn_in);
    s.clock.lap(Part::Norms);
    multiply(cx, &w.gate, &s.ffn_in, gate);
    multiply(cx, &w.up, &s.ffn_in, up);
    s.clock.lap(Part::GateUp);

    let activate = match config.activation {
        Activation::Relu2 => wf_kernels::Kernel::relu2_mul,
        Activation::Silu => wf_kernels::Kernel::silu_mul,
    };
    cx.pool.rows(gate, ffn_len, |row, gate| {
        activate(cx.kernel, gate, &up[row * ffn_len..][..ffn_len]);
    });
    s.clock.lap(Part::Activation);

    let mut neurons = &*gate;
    if let Some(weight) = &w.sub_norm {
        // `up` has been used: its room takes the normed neurons.
        norm(cx, gate, weight, eps, up);
        neurons = up;
    }
    quantize(cx, neurons, ffn_len, &mut s.ffn_mid);
    s.clock.lap(Part::Norms);
    let delta = &mut s.delta[..rows * hidden_len];
    multiply(cx, &w.down, &s.ffn_mid, delta);
    s.clock.lap(Part::Down);
    add(cx, hidden, delta, hidden_len);
}
