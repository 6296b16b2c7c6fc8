//! Checks that a network is one that kernels can run.

use std::fmt;

use super::{Attention, DeltaNet, Layer, Mixer, Network, Norm};
use crate::Rope;

impl Network {
    /// Checks that every size is one that kernels can run.
    pub fn check(&self) -> Result<(), InvalidNetwork> {
        check_size("vocabulary size", self.vocab_len, Self::MAX_ROWS)?;
        check_size("hidden size", self.hidden_len, Self::MAX_WIDTH)?;
        check_size("number of layers", self.layers.len(), Self::MAX_LAYERS)?;
        check_norm(self.norm)?;
        check_factor("embedding scale", self.embedding.scale)?;
        check_factor("residual scale", self.residual_scale)?;
        check_factor("logit scale", self.head.divisor)?;
        self.hadamard.iter().try_for_each(|hadamard| hadamard.check(self))?;
        if let Some(mtp) = &self.mtp {
            mtp.check(self)?;
            self.check_layer(&mtp.layer)
                .map_err(|e| InvalidNetwork { key: format!("prediction head: {}", e.key), ..e })?;
            [mtp.embedding_norm, mtp.hidden_norm, mtp.norm].into_iter().try_for_each(check_norm)?;
        }
        let uniform = self.uniform_layer().is_some();
        for (index, layer) in self.layers.iter().enumerate() {
            self.check_layer(layer).map_err(|error| match uniform {
                true => error,
                false => InvalidNetwork { key: format!("layer {index}: {}", error.key), ..error },
            })?;
            if uniform {
                break;
            }
        }
        Ok(())
    }

    fn check_layer(&self, layer: &Layer) -> Result<(), InvalidNetwork> {
        match &layer.mixer {
            Mixer::Attention(attention) => self.check_attention(attention)?,
            Mixer::DeltaNet(delta_net) => check_delta_net(delta_net)?,
        }
        if let Some(experts) = layer.ffn.experts() {
            check_size("number of experts", experts.experts, Self::MAX_EXPERTS)?;
            check_size("number of active experts", experts.active, experts.experts)?;
            if let Some(shared) = experts.shared {
                check_size("size of the shared expert", shared.ffn_len, Self::MAX_WIDTH)?;
            }
        }
        let dense = layer.ffn.block();
        check_size("feed-forward size", dense.ffn_len, Self::MAX_WIDTH)?;
        check_factor("limit of gates", dense.limit)?;
        let optional = [dense.input_norm, dense.sub_norm, dense.output_norm].into_iter().flatten();
        [dense.norm].into_iter().chain(optional).try_for_each(check_norm)
    }

    fn check_attention(&self, a: &Attention) -> Result<(), InvalidNetwork> {
        check_size("number of heads", a.heads, Self::MAX_WIDTH)?;
        check_size("number of key/value heads", a.kv_heads, Self::MAX_WIDTH)?;
        check_size("head size", a.head_dim, Self::MAX_WIDTH)?;
        if !a.heads.is_multiple_of(a.kv_heads) {
            let problem = format!("{}, must divide the {} query heads", a.kv_heads, a.heads);
            return Err(InvalidNetwork::new("number of key/value heads", problem));
        }
        check_factor("attention scale", a.score_scale)?;
        if let Some(rope) = a.rope {
            check_rotation(&rope, a.head_dim)?;
        }
        if a.query_len() > Self::MAX_WIDTH {
            let (heads, head_dim, max) = (a.heads, a.head_dim, Self::MAX_WIDTH);
            let problem = format!("{heads} heads of {head_dim}, must not exceed {max} in all");
            return Err(InvalidNetwork::new("number of heads", problem));
        }
        let first = self.attentions().next().unwrap_or(a);
        if (a.kv_heads, a.head_dim) != (first.kv_heads, first.head_dim) {
            let at = self.layers.iter().position(|layer| layer.attention().is_some());
            let problem = format!(
                "{} of {}, must equal those of layer {} ({} of {})",
                a.kv_heads,
                a.head_dim,
                at.unwrap_or(0),
                first.kv_heads,
                first.head_dim
            );
            return Err(InvalidNetwork::new("key/value heads", problem));
        }
        if a.window == Some(0) {
            return Err(InvalidNetwork::new(
                "attention window",
                "0, must be at least 1".to_owned(),
            ));
        }
        if let Some(rope) = a.rope {
            let checked = rope.check(&self.rope_divisors, rope.dims.unwrap_or(a.head_dim));
            checked.map_err(|(key, problem)| InvalidNetwork::new(key, problem))?;
        }
        let optional = [a.input_norm, a.qk_norm, a.sub_norm, a.output_norm].into_iter().flatten();
        [a.norm].into_iter().chain(optional).try_for_each(check_norm)
    }
}

fn check_delta_net(d: &DeltaNet) -> Result<(), InvalidNetwork> {
    check_size("number of linear key heads", d.key_heads, Network::MAX_WIDTH)?;
    check_size("number of linear value heads", d.value_heads, Network::MAX_WIDTH)?;
    check_size("linear key head size", d.key_dim, Network::MAX_WIDTH)?;
    check_size("linear value head size", d.value_dim, Network::MAX_WIDTH)?;
    check_size("length of the convolution", d.conv_len, DeltaNet::MAX_CONV_LEN)?;
    if !d.value_heads.is_multiple_of(d.key_heads) {
        let problem =
            format!("{}, must be a multiple of the {} key heads", d.value_heads, d.key_heads);
        return Err(InvalidNetwork::new("number of linear value heads", problem));
    }
    let max = Network::MAX_WIDTH;
    if d.channels() > max {
        let problem = format!(
            "{} key heads of {} and {} value heads of {}, must not exceed {max} channels in all",
            d.key_heads, d.key_dim, d.value_heads, d.value_dim
        );
        return Err(InvalidNetwork::new("linear heads", problem));
    }
    [d.norm, d.head_norm].into_iter().try_for_each(check_norm)
}

fn check_size(key: &str, value: usize, max: usize) -> Result<(), InvalidNetwork> {
    if (1..=max).contains(&value) {
        return Ok(());
    }
    Err(InvalidNetwork::new(key, format!("{value}, must be between 1 and {max}")))
}

/// Checks that a rotation has whole pairs inside a head.
fn check_rotation(rope: &Rope, head_dim: usize) -> Result<(), InvalidNetwork> {
    match rope.dims {
        None if head_dim.is_multiple_of(2) => Ok(()),
        None => {
            let problem = format!("{head_dim}, must be even for a rotary embedding");
            Err(InvalidNetwork::new("head size", problem))
        }
        Some(dims) if dims.is_multiple_of(2) && (2..=head_dim).contains(&dims) => Ok(()),
        Some(dims) => {
            let problem = format!("{dims}, must be even and from 2 to {head_dim}");
            Err(InvalidNetwork::new("rotated dimensions", problem))
        }
    }
}

fn check_factor(key: &str, factor: Option<f32>) -> Result<(), InvalidNetwork> {
    match factor {
        Some(factor) if !(factor.is_finite() && factor > 0.0) => {
            Err(InvalidNetwork::new(key, format!("{factor}, must be a positive number")))
        }
        _ => Ok(()),
    }
}

fn check_norm(norm: Norm) -> Result<(), InvalidNetwork> {
    if norm.eps > 0.0 && norm.eps < 1.0 {
        return Ok(());
    }
    Err(InvalidNetwork::new("norm epsilon", format!("{}, must be between 0 and 1", norm.eps)))
}

/// Error for a network that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidNetwork {
    /// Setting that is wrong.
    pub key: String,
    /// Value found and values allowed.
    pub problem: String,
}

impl InvalidNetwork {
    pub(super) fn new(key: &str, problem: String) -> Self {
        Self { key: key.to_owned(), problem }
    }
}

impl fmt::Display for InvalidNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

impl std::error::Error for InvalidNetwork {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::network;
    use crate::{Experts, Ffn, Mixer, Mtp, SharedExpert, ValueHeadOrder};

    fn problem(change: impl Fn(&mut Network)) -> String {
        let mut network = network();
        change(&mut network);
        network.check().err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn rejects_rows_too_long_for_exact_sums() {
        let ffn_len = |len| problem(|n| n.update_layers(|_, dense| dense.ffn_len = len));
        assert_eq!(ffn_len(1 << 17), "");
        let expected = "feed-forward size: 131073, must be between 1 and 131072";
        assert_eq!(ffn_len((1 << 17) + 1), expected);
        assert_ne!(problem(|n| n.hidden_len = 1 << 18), "");
        let wide = problem(|n| n.update_layers(|a, _| (a.heads, a.head_dim) = (1 << 12, 64)));
        assert!(wide.contains("4096 heads of 64, must not exceed 131072"), "{wide}");
    }

    #[test]
    fn rejects_layers_whose_kv_heads_differ() {
        let differ = problem(|n| {
            n.layers[1].attention_mut().unwrap().kv_heads = 2;
        });
        let expected = "layer 1: key/value heads: 2 of 4, must equal those of layer 0 (1 of 4)";
        assert_eq!(differ, expected);
    }

    #[test]
    fn rejects_experts_that_cannot_be_picked() {
        let experts = |experts, active| {
            problem(|n| {
                for layer in &mut n.layers {
                    let expert = *layer.ffn.block();
                    let (renormalize, shared) = (true, None);
                    layer.ffn =
                        Ffn::Experts(Experts { experts, active, renormalize, expert, shared });
                }
            })
        };
        assert_eq!(experts(8, 8), "");
        assert_eq!(experts(8, 9), "number of active experts: 9, must be between 1 and 8");
        assert_eq!(experts(8, 0), "number of active experts: 0, must be between 1 and 8");
        assert_eq!(experts(4097, 1), "number of experts: 4097, must be between 1 and 4096");
        let shared = problem(|n| {
            for layer in &mut n.layers {
                let (expert, shared) =
                    (*layer.ffn.block(), SharedExpert { ffn_len: 0, gated: false });
                let shared = Some(shared);
                let mixture = Experts { experts: 2, active: 1, renormalize: true, expert, shared };
                layer.ffn = Ffn::Experts(mixture);
            }
        });
        assert_eq!(shared, "size of the shared expert: 0, must be between 1 and 131072");
    }

    #[test]
    fn rejects_sizes_of_zero() {
        assert_eq!(
            problem(|n| n.layers.clear()),
            "number of layers: 0, must be between 1 and 16384"
        );
        assert_ne!(problem(|n| n.update_layers(|a, _| a.kv_heads = 0)), "");
        assert_ne!(problem(|n| n.update_layers(|a, _| a.window = Some(0))), "");
    }

    #[test]
    fn rejects_factors_that_are_not_positive_numbers() {
        for bad in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let is = |key: &str| format!("{key}: {bad}, must be a positive number");
            assert_eq!(problem(|n| n.embedding.scale = Some(bad)), is("embedding scale"));
            assert_eq!(problem(|n| n.residual_scale = Some(bad)), is("residual scale"));
            assert_eq!(problem(|n| n.head.divisor = Some(bad)), is("logit scale"));
            let limit = problem(|n| n.update_layers(|_, dense| dense.limit = Some(bad)));
            assert!(limit.ends_with(&is("limit of gates")), "{limit}");
            let scale = problem(|n| n.update_layers(|a, _| a.score_scale = Some(bad)));
            assert!(scale.ends_with(&is("attention scale")), "{scale}");
        }
    }

    #[test]
    fn rejects_rotations_that_do_not_fit_a_head() {
        let rotated = |dims| {
            let rope = Some(Rope { dims: Some(dims), ..Rope::default() });
            problem(|n| n.update_layers(|a, _| a.rope = rope))
        };
        assert_eq!(rotated(2), "");
        for dims in [0, 1, 3, 6] {
            let expected = format!("rotated dimensions: {dims}, must be even and from 2 to 4");
            assert_eq!(rotated(dims), expected);
        }
    }

    fn delta_net() -> DeltaNet {
        DeltaNet {
            key_heads: 2,
            value_heads: 4,
            key_dim: 8,
            value_dim: 8,
            conv_len: 4,
            order: ValueHeadOrder::Grouped,
            norm: Norm::default(),
            head_norm: Norm::default(),
        }
    }

    fn delta_net_problem(change: impl Fn(&mut DeltaNet)) -> String {
        let mut delta_net = delta_net();
        change(&mut delta_net);
        problem(|n| n.layers[0].mixer = Mixer::DeltaNet(delta_net))
    }

    #[test]
    fn rejects_prediction_heads_that_cannot_run() {
        let of = |change: &dyn Fn(&mut Network)| {
            problem(|n| {
                let layer = n.layers[1];
                n.layers[0].mixer = Mixer::DeltaNet(delta_net());
                n.mtp = Some(Mtp { layer, ..Mtp::default() });
                change(n);
            })
        };
        assert_eq!(of(&|_| {}), "");
        let recurrent = of(&|n| n.mtp.as_mut().unwrap().layer = n.layers[0]);
        assert!(recurrent.contains("without attention"), "{recurrent}");
        let heads = of(&|n| {
            n.mtp.as_mut().unwrap().layer.attention_mut().unwrap().kv_heads = 2;
        });
        assert!(heads.starts_with("prediction head: key/value heads: 2 of 4"), "{heads}");
        let eps = of(&|n| n.mtp.as_mut().unwrap().norm.eps = 2.0);
        assert!(eps.contains("norm epsilon"), "{eps}");
        let plain = of(&|n| n.layers[0] = n.layers[1]);
        assert!(plain.contains("without recurrent layers"), "{plain}");
    }

    #[test]
    fn rejects_recurrent_mixers_that_cannot_run() {
        assert_eq!(delta_net_problem(|_| {}), "");
        assert_eq!(
            delta_net_problem(|d| d.value_heads = 5),
            "layer 0: number of linear value heads: 5, must be a multiple of the 2 key heads"
        );
        assert_eq!(
            delta_net_problem(|d| d.conv_len = 9),
            "layer 0: length of the convolution: 9, must be between 1 and 8"
        );
        assert_ne!(delta_net_problem(|d| d.conv_len = 0), "");
        assert_ne!(delta_net_problem(|d| d.key_dim = 0), "");
        assert_ne!(delta_net_problem(|d| d.value_dim = 1 << 17), "");
        assert_ne!(delta_net_problem(|d| d.head_norm.eps = f32::NAN), "");
    }
}
