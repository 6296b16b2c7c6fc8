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

#[cfg(test)]
mod tests {
    use wf_core::{Attention, DeltaNet, Experts, Head, Layer, Norm, SharedExpert, ValueHeadOrder};

    use super::*;

    /// Counts the weights of a network of these layers, with 100 tokens and hidden states of 10.
    fn count_of(layers: Vec<Layer>, tied: bool) -> u64 {
        let head = Head { tied, ..Head::default() };
        count(&Network { vocab_len: 100, hidden_len: 10, layers, head, ..Network::default() })
    }

    #[test]
    fn every_matrix_counts_once() {
        let (table, dense) = (1000, Dense { ffn_len: 20, ..Dense::default() });
        assert_eq!((count_of(vec![], true), count_of(vec![], false)), (table, 2 * table));

        let attention = Attention { heads: 4, kv_heads: 2, head_dim: 3, ..Attention::default() };
        let plain = Layer::new(attention, dense);
        // Rows of query, output, key and value; gate, up and down.
        let plain_count = 10 * (12 + 12 + 6 + 6) + 3 * 10 * 20;
        assert_eq!(count_of(vec![plain; 3], true), table + 3 * plain_count);
        let gated = Layer::new(Attention { gated: true, ..attention }, dense);
        assert_eq!(count_of(vec![gated], true), table + plain_count + 10 * 12);

        let recurrent = DeltaNet {
            key_heads: 1,
            value_heads: 2,
            key_dim: 3,
            value_dim: 5,
            conv_len: 4,
            order: ValueHeadOrder::Grouped,
            norm: Norm::default(),
            head_norm: Norm::default(),
        };
        let recurrent = Layer { mixer: Mixer::DeltaNet(recurrent), ..plain };
        // Rows of queries, keys, values, gate, output, beta and alpha.
        let rows = 3 + 3 + 10 + 10 + 10 + 2 + 2;
        assert_eq!(count_of(vec![recurrent], true), table + 10 * rows + 3 * 10 * 20);
    }

    #[test]
    fn every_expert_and_its_row_of_the_router_count() {
        let expert = Dense { ffn_len: 8, ..Dense::default() };
        let experts = Experts { experts: 5, active: 2, renormalize: true, expert, shared: None };
        let layer = |experts| Layer { ffn: Ffn::Experts(experts), ..Layer::default() };
        let routed = 1000 + 5 * (3 * 10 * 8 + 10);
        assert_eq!(count_of(vec![layer(experts)], true), routed);
        let shared = Some(SharedExpert { ffn_len: 4, gated: true });
        let with_shared = layer(Experts { shared, ..experts });
        assert_eq!(count_of(vec![with_shared], true), routed + 3 * 10 * 4);
    }
}
