//! The family by whose names and keys other programs know a network.

use wf_core::{
    Activation, ActivationCodes, Attention, Dense, Experts, LayerKinds, Network, Rope, RopeScaling,
    RotaryPairs,
};

use crate::encoding::{Project, TernaryEncoding};

/// A family that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrittenFamily {
    BitNet,
    Llama,
    MiniCpm,
    Qwen3,
    Qwen3Moe,
    Qwen2Moe,
    Qwen35,
    Maple,
    Gemma3,
}

impl WrittenFamily {
    /// Returns the family of a network whose layers are of one or two kinds.
    pub(super) fn of(network: &Network) -> Self {
        let (attention, dense) = blocks(network);
        let norms = [attention.qk_norm, attention.input_norm, attention.output_norm];
        if network.is_recurrent() {
            Self::Qwen35
        } else if network.residual_scale.is_some() || network.head.divisor.is_some() {
            Self::MiniCpm
        } else if experts(network).is_some() {
            let of_maple = kinds(network).sliding.is_some() || dense.limit.is_some();
            match attention.qk_norm {
                _ if of_maple => Self::Maple,
                Some(_) => Self::Qwen3Moe,
                None => Self::Qwen2Moe,
            }
        } else if network.embedding.scale.is_some() {
            Self::Gemma3
        } else if norms.iter().any(Option::is_some) {
            Self::Qwen3
        } else if attention.sub_norm.is_none() && dense.activation == Activation::Silu {
            Self::Llama
        } else {
            Self::BitNet
        }
    }

    /// Returns what the keys of the family cannot describe of a network, if there is anything.
    pub(super) fn misfit(self, network: &Network) -> Option<&'static str> {
        let LayerKinds { full, sliding, .. } = kinds(network);
        let rope = |layer: Option<&wf_core::Layer>| layer.and_then(wf_core::Layer::rope);
        let (of_full, of_sliding) = (rope(full), rope(sliding));
        let (attention, dense) = blocks(network);
        let fits = match self {
            Self::Maple => full.is_none_or(|_| of_full.is_none()) && of_sliding.is_some(),
            Self::Gemma3 => match (of_full, of_sliding) {
                (Some(full), Some(sliding)) => {
                    sliding == Rope { theta: sliding.theta, scaling: RopeScaling::None, ..full }
                }
                (full, None) => sliding.is_none() && full.is_some(),
                (None, Some(_)) => false,
            },
            _ => sliding.is_none() && of_full.is_some(),
        };
        let gated = experts(network).and_then(|experts| experts.shared).is_none_or(|s| s.gated);
        if self == Self::Qwen2Moe && !gated {
            return Some("has a shared expert without a gate, which its keys do not describe");
        }
        if !fits {
            return Some("has windows or layers without rotation that its keys do not describe");
        }
        let plain = attention.score_scale.is_none() || self == Self::Gemma3;
        let whole = attention.rope.is_none_or(|rope| rope.dims.is_none())
            || matches!(self, Self::Maple | Self::Qwen35);
        let unlimited = dense.limit.is_none() || self == Self::Maple;
        (!(plain && whole && unlimited)).then_some("has operations that its keys do not describe")
    }

    /// Returns the architecture in GGUF files, and the rotary pairs that its readers expect.
    ///
    /// bitnet.cpp and ik_llama.cpp call the squared ReLU network `bitnet-b1.58`; llama.cpp has only
    /// `bitnet`.
    pub(super) fn gguf(
        self,
        network: &Network,
        trits: TernaryEncoding,
    ) -> (&'static str, RotaryPairs) {
        let of_llama_cpp = trits.is_of(Project::Llama) || trits.is_of(Project::Prism);
        let (attention, dense) = blocks(network);
        match self {
            Self::Llama => ("llama", RotaryPairs::Adjacent),
            Self::MiniCpm => ("minicpm", RotaryPairs::Adjacent),
            Self::Qwen3 => ("qwen3", RotaryPairs::Halves),
            Self::Qwen3Moe => ("qwen3moe", RotaryPairs::Halves),
            Self::Qwen2Moe => ("qwen2moe", RotaryPairs::Halves),
            Self::Qwen35 => ("qwen35", RotaryPairs::Halves),
            Self::Maple => ("maple", RotaryPairs::Halves),
            Self::Gemma3 => ("gemma3", RotaryPairs::Halves),
            Self::BitNet => match (attention.sub_norm.is_some(), dense.activation) {
                (true, Activation::Silu) => ("bitnet", RotaryPairs::Halves),
                (true, Activation::Relu2) if of_llama_cpp => ("bitnet", RotaryPairs::Halves),
                _ => ("bitnet-b1.58", RotaryPairs::Halves),
            },
        }
    }

    /// Returns `true` if llama.cpp divides the shares of active experts by their sum, for which it has no key.
    pub(super) fn renormalizes(self) -> bool {
        self != Self::Qwen2Moe
    }

    /// Returns the class that runs the network in `transformers` or in code of its publisher, and the name
    /// of its type.
    pub(super) fn class_and_type(self) -> (&'static str, &'static str) {
        match self {
            Self::BitNet => ("BitNetForCausalLM", "bitnet"),
            Self::Llama => ("LlamaForCausalLM", "llama"),
            Self::MiniCpm => ("MiniCPMForCausalLM", "minicpm"),
            Self::Qwen3 => ("Qwen3ForCausalLM", "qwen3"),
            Self::Qwen3Moe => ("Qwen3MoeForCausalLM", "qwen3_moe"),
            Self::Qwen2Moe => ("Qwen2MoeForCausalLM", "qwen2_moe"),
            Self::Qwen35 => ("Qwen3_5ForCausalLM", "qwen3_5_text"),
            Self::Maple => ("MapleForCausalLM", "maple"),
            Self::Gemma3 => ("Gemma3ForCausalLM", "gemma3_text"),
        }
    }

    /// Returns `true` if `transformers` and SGLBITNT have packed trits of this family.
    pub(super) fn has_packed_trits(self) -> bool {
        matches!(self, Self::BitNet | Self::Llama)
    }

    /// Returns `true` if a `config.json` describes the network.
    pub(super) fn has_config(self, network: &Network) -> bool {
        let (attention, _) = blocks(network);
        let Attention { input_norm, qk_norm, sub_norm, output_norm, .. } = attention;
        let outputs = output_norm.is_none() || self == Self::Gemma3;
        input_norm.is_none() && outputs && (qk_norm.is_none() || sub_norm.is_none())
    }

    /// Returns `true` if a file must name its codes of activations: they are not those that readers assume.
    pub(super) fn names_codes(self, network: &Network) -> bool {
        let norms_inputs = blocks(network).0.input_norm.is_some();
        let usual = match self {
            Self::BitNet | Self::Llama => true,
            Self::Gemma3 => norms_inputs,
            Self::MiniCpm
            | Self::Qwen3
            | Self::Qwen3Moe
            | Self::Qwen2Moe
            | Self::Qwen35
            | Self::Maple => false,
        };
        !usual || network.activations != ActivationCodes::Int8
    }
}

/// Returns the kinds of layers.
///
/// # Panics
///
/// If layers differ in more than windows and rotation, which [`Target::stage`](super::Target::stage) rejects.
pub(super) fn kinds(network: &Network) -> LayerKinds<'_> {
    network.layer_kinds().expect("layers of one or two kinds")
}

/// Returns the mixture of experts of every layer, if they have one.
pub(super) fn experts(network: &Network) -> Option<&Experts> {
    network.layers.first()?.ffn.experts()
}

/// Returns the blocks of a layer with attention that rotates; of a mixture of experts, the recipe of an expert.
pub(super) fn blocks(network: &Network) -> (&Attention, &Dense) {
    let layer = kinds(network).rotated().expect("a network has layers with attention");
    (layer.attention().expect("rotated layers have attention"), layer.ffn.block())
}
