//! The shapes of published ternary models, which determine their speed.

use clap::ValueEnum;
use wf_core::{
    Activation, ActivationCodes, Attention, DeltaNet, Dense, Experts, Ffn, Head, Layer, Mixer,
    Network, Norm, Rope, ValueHeadOrder,
};
use wf_formats::{ModelInfo, ScaleUnit};

/// A published model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// bitnet_b1_58-large
    #[value(name = "bitnet-700m")]
    Bitnet700m,
    /// BitNet b1.58 2B4T
    #[value(name = "bitnet-2b")]
    Bitnet2b,
    /// bitnet_b1_58-3B
    #[value(name = "bitnet-3b")]
    Bitnet3b,
    /// The 7B of the BitNet b1.58 paper
    #[value(name = "bitnet-7b")]
    Bitnet7b,
    /// Llama3-8B-1.58
    #[value(name = "llama3-8b")]
    Llama3Of8b,
    /// Falcon3-1B-Instruct-1.58bit
    #[value(name = "falcon3-1b")]
    Falcon3Of1b,
    /// Falcon3-3B-Instruct-1.58bit
    #[value(name = "falcon3-3b")]
    Falcon3Of3b,
    /// Falcon3-7B-Instruct-1.58bit
    #[value(name = "falcon3-7b")]
    Falcon3Of7b,
    /// Falcon3-10B-Instruct-1.58bit
    #[value(name = "falcon3-10b")]
    Falcon3Of10b,
    /// Ternary-Bonsai-1.7B
    #[value(name = "bonsai-1.7b")]
    BonsaiOf2b,
    /// Ternary-Bonsai-4B
    #[value(name = "bonsai-4b")]
    BonsaiOf4b,
    /// Ternary-Bonsai-8B
    #[value(name = "bonsai-8b")]
    BonsaiOf8b,
    /// Qwen3-30B-A3B, with 8 of 128 experts for a token
    #[value(name = "qwen3-moe-30b")]
    Qwen3MoeOf30b,
    /// Maple 20B-A1B, with 8 of 256 experts for a token
    #[value(name = "maple-20b")]
    MapleOf20b,
    /// Qwen3.5-9B, a hybrid of recurrent and attention layers
    #[value(name = "qwen35-9b")]
    Qwen35Of9b,
    /// Bonsai 27B, the same
    #[value(name = "qwen35-27b")]
    Qwen35Of27b,
}

/// Period of the layers with attention in hybrids.
const HYBRID_PERIOD: usize = 4;

/// Window of Maple, and the period of its layers without one.
const MAPLE_WINDOW: usize = 512;
const MAPLE_PERIOD: usize = 4;

impl Shape {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().expect("no shape is hidden").get_name().to_owned()
    }

    /// Returns the sizes: vocabulary, hidden, feed-forward (of an expert), layers, heads, K/V heads, head dimension and
    /// context.
    #[rustfmt::skip]
    fn sizes(self) -> [usize; 8] {
        match self {
            Self::Bitnet700m   => [  32_002, 1_536,  4_096,   24,   16,      16,      96,  2_048],
            Self::Bitnet2b     => [ 128_256, 2_560,  6_912,   30,   20,       5,     128,  4_096],
            Self::Bitnet3b     => [  32_002, 3_200,  8_640,   26,   32,      32,     100,  2_048],
            Self::Bitnet7b     => [  32_002, 4_096, 11_008,   32,   32,      32,     128,  2_048],
            Self::Llama3Of8b   => [ 128_256, 4_096, 14_336,   32,   32,       8,     128,  8_192],
            Self::Falcon3Of1b  => [ 131_072, 2_048,  8_192,   18,    8,       4,     256,  8_192],
            Self::Falcon3Of3b  => [ 131_072, 3_072,  9_216,   22,   12,       4,     256, 32_768],
            Self::Falcon3Of7b  => [ 131_072, 3_072, 23_040,   28,   12,       4,     256, 32_768],
            Self::Falcon3Of10b => [ 131_072, 3_072, 23_040,   40,   12,       4,     256, 32_768],
            Self::BonsaiOf2b   => [ 151_936, 2_048,  6_144,   28,   16,       8,     128, 32_768],
            Self::BonsaiOf4b   => [ 151_936, 2_560,  9_728,   36,   32,       8,     128, 32_768],
            Self::BonsaiOf8b   => [ 151_936, 4_096, 12_288,   36,   32,       8,     128, 65_536],
            Self::Qwen3MoeOf30b => [ 151_936, 2_048,   768,   48,   32,       4,     128, 40_960],
            Self::MapleOf20b   => [ 151_936, 2_048,    512,   24,   16,       4,     128, 131_072],
            Self::Qwen35Of9b   => [ 248_320, 4_096, 12_288,   32,   16,       4,     256, 262_144],
            Self::Qwen35Of27b  => [ 248_320, 5_120, 17_408,   64,   24,       4,     256, 262_144],
        }
    }

    /// Returns the recipe of the network.
    pub(crate) fn network(self) -> Network {
        let [vocab_len, hidden_len, ffn_len, layers, heads, kv_heads, head_dim, _] = self.sizes();
        let bitnet = self.is_bitnet();
        let sub_norm = bitnet.then(Norm::default);
        let rope = Some(Rope { theta: 500_000.0, ..Rope::default() });
        let qk_norm = (self.is_bonsai() || self.experts().is_some()).then(Norm::default);
        let attention = Attention {
            heads,
            kv_heads,
            head_dim,
            rope,
            qk_norm,
            sub_norm,
            ..Attention::default()
        };
        let activation = if self == Self::Bitnet2b { Activation::Relu2 } else { Activation::Silu };
        let dense = Dense { ffn_len, activation, sub_norm, ..Dense::default() };
        let mut layer = Layer::new(attention, dense);
        if let Some((experts, active)) = self.experts() {
            let (renormalize, shared) = (true, None);
            let mixture = Experts { experts, active, renormalize, expert: dense, shared };
            layer.ffn = Ffn::Experts(mixture);
        }
        let mut layers = vec![layer; layers];
        if let Some(value_heads) = self.value_heads() {
            layers
                .iter_mut()
                .zip(1..)
                .for_each(|(layer, number)| of_hybrid(layer, number, value_heads));
        }
        if self == Self::MapleOf20b {
            layers.iter_mut().zip(1..).for_each(|(layer, number)| of_maple(layer, number));
        }
        Network {
            vocab_len,
            hidden_len,
            layers,
            head: Head {
                tied: bitnet || matches!(self, Self::BonsaiOf2b | Self::BonsaiOf4b),
                ..Head::default()
            },
            activations: match self.is_bonsai() || self.experts().is_some() {
                true => ActivationCodes::Int16,
                false => ActivationCodes::Int8,
            },
            ..Network::default()
        }
    }

    /// Returns the number of experts of a layer and of those that run for a token.
    fn experts(self) -> Option<(usize, usize)> {
        match self {
            Self::Qwen3MoeOf30b => Some((128, 8)),
            Self::MapleOf20b => Some((256, 8)),
            _ => None,
        }
    }

    /// Returns the number of value heads of the recurrent layers of a hybrid.
    fn value_heads(self) -> Option<usize> {
        match self {
            Self::Qwen35Of9b => Some(32),
            Self::Qwen35Of27b => Some(48),
            _ => None,
        }
    }

    /// Returns the weights that share a scale. Where groups do, tables are ternary, too.
    pub(crate) fn scale_unit(self) -> ScaleUnit {
        match self {
            Self::MapleOf20b => ScaleUnit::Row,
            _ if self.is_bonsai() || self.experts().is_some() => ScaleUnit::Group(128),
            _ => ScaleUnit::Tensor,
        }
    }

    /// Returns the name and context length of the model.
    pub(crate) fn info(self) -> ModelInfo {
        ModelInfo {
            architecture: "synthetic".to_owned(),
            name: Some(self.name()),
            context_len: self.sizes()[7],
            ..ModelInfo::default()
        }
    }

    /// Returns `true` for models trained with ternary weights only, in groups of 128, tables included.
    fn is_bonsai(self) -> bool {
        matches!(self, Self::BonsaiOf2b | Self::BonsaiOf4b | Self::BonsaiOf8b)
            || self.value_heads().is_some()
    }

    /// Returns `true` for models trained as BitNet, with sub-norms and a tied head.
    fn is_bitnet(self) -> bool {
        matches!(self, Self::Bitnet700m | Self::Bitnet2b | Self::Bitnet3b | Self::Bitnet7b)
    }
}

/// Gives a layer of a hybrid its mixer, by its number from 1 on.
fn of_hybrid(layer: &mut Layer, number: usize, value_heads: usize) {
    let Some(attention) = layer.attention_mut() else { return };
    attention.gated = true;
    attention.rope = attention.rope.map(|rope| Rope { dims: Some(64), ..rope });
    if !number.is_multiple_of(HYBRID_PERIOD) {
        layer.mixer = Mixer::DeltaNet(DeltaNet {
            key_heads: 16,
            value_heads,
            key_dim: 128,
            value_dim: 128,
            conv_len: 4,
            order: ValueHeadOrder::Tiled,
            norm: Norm::default(),
            head_norm: Norm::default(),
        });
    }
}

/// Gives a layer the window, the rotation and the limits of Maple, by its number from 1 on.
fn of_maple(layer: &mut Layer, number: usize) {
    let Some(attention) = layer.attention_mut() else { return };
    let sliding = !number.is_multiple_of(MAPLE_PERIOD);
    attention.window = sliding.then_some(MAPLE_WINDOW);
    attention.rope = sliding.then(|| Rope { dims: Some(64), ..Rope::default() });
    if let Ffn::Experts(experts) = &mut layer.ffn {
        experts.expert.limit = Some(7.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_as_many_trits_as_their_names_say() {
        for (shape, expected) in [
            (Shape::Bitnet700m, 679),
            (Shape::Bitnet2b, 2_084),
            (Shape::Bitnet3b, 3_221),
            (Shape::Bitnet7b, 6_476),
            (Shape::Llama3Of8b, 6_979),
            (Shape::Falcon3Of7b, 6_650),
            (Shape::BonsaiOf2b, 1_409),
            (Shape::BonsaiOf4b, 3_633),
            (Shape::BonsaiOf8b, 6_945),
            (Shape::Qwen3MoeOf30b, 29_896),
            (Shape::MapleOf20b, 19_579),
            (Shape::Qwen35Of9b, 6_912),
            (Shape::Qwen35Of27b, 24_326),
        ] {
            assert_eq!(shape.network().trits() / 1_000_000, expected, "{}", shape.name());
        }
    }

    #[test]
    fn heads_divide_the_hidden_state_and_share_keys_evenly() {
        for shape in Shape::value_variants() {
            let network = shape.network();
            assert_eq!(network.check(), Ok(()), "{}", shape.name());
            let query_len = network.attentions().next().unwrap().query_len();
            // Qwen3 may have more heads than fit the hidden state.
            let wide = [Shape::BonsaiOf4b, Shape::Qwen3MoeOf30b].contains(shape);
            let expected = match shape {
                Shape::Qwen35Of27b => 6_144,
                _ if wide => 4_096,
                _ => network.hidden_len,
            };
            assert_eq!(query_len, expected, "{}", shape.name());
        }
    }
}
