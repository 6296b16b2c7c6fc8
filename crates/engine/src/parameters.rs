//! Number of parameters of a network, as the names of models count them.

use wf_core::{Dense, Ffn, Mixer, Network};

/// Returns the number of weights of all matrices. Norms have too few to matter.
pub(crate) fn count(network: &Network) -> u64 {
    let hidden = network.hidden_len as u64;
    let dense = |dense: &Dense| 3 * hidden * dense.ffn_len as u64;
    let layers = network.layers.iter().map(|layer| {
        let rows = match &layer.mixer {
            Mixer::Attention(a) => a.query_rows() + a.query_len() + 2 * a.kv_len(),
            Mixer::DeltaNet(d) => d.channels() + 2 * d.value_len() + 2 * d.value_heads,
        };
        let mixer = hidden * rows as u64;
        let ffn = match &layer.ffn {
            Ffn::Dense(ffn) => dense(ffn),
            Ffn::Experts(ffn) => {
                let shared = 3 * hidden * layer.ffn.shared_len() as u64;
                ffn.experts as u64 * (dense(&ffn.expert) + hidden) + shared
            }
        };
        mixer + ffn
    });
    let tables = if network.head.tied { 1 } else { 2 };
    tables * network.vocab_len as u64 * hidden + layers.sum::<u64>()
}
