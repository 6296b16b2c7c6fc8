//! The family by whose names and keys other programs know a network.

use wf_core::{Activation, ActivationCodes, Attention, Dense, Experts, Network, RotaryPairs};

use crate::encoding::{Project, TernaryEncoding};

/// A family that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrittenFamily {
    BitNet,
    Llama,
    MiniCpm,
    Qwen3,
    Qwen3Moe,
    Gemma3,
}

impl WrittenFamily {
    /// Returns the family of a network whose layers are all alike.
    pub(super) fn of(network: &Network) -> Self {
        let (attention, dense) = uniform_blocks(network);
        let norms = [attention.qk_norm, attention.input_norm, attention.output_norm];
        if network.residual_scale.is_some() || network.head.divisor.is_some() {
            Self::MiniCpm
        } else if experts(network).is_some() {
            Self::Qwen3Moe
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
        let (attention, dense) = uniform_blocks(network);
        match self {
            Self::Llama => ("llama", RotaryPairs::Adjacent),
            Self::MiniCpm => ("minicpm", RotaryPairs::Adjacent),
            Self::Qwen3 => ("qwen3", RotaryPairs::Halves),
            Self::Qwen3Moe => ("qwen3moe", RotaryPairs::Halves),
            Self::Gemma3 => ("gemma3", RotaryPairs::Halves),
            Self::BitNet => match (attention.sub_norm.is_some(), dense.activation) {
                (true, Activation::Silu) => ("bitnet", RotaryPairs::Halves),
                (true, Activation::Relu2) if of_llama_cpp => ("bitnet", RotaryPairs::Halves),
                _ => ("bitnet-b1.58", RotaryPairs::Halves),
            },
        }
    }

    /// Returns the class of `transformers` that runs the network, and the name of its type.
    pub(super) fn class_and_type(self) -> (&'static str, &'static str) {
        match self {
            Self::BitNet => ("BitNetForCausalLM", "bitnet"),
            Self::Llama => ("LlamaForCausalLM", "llama"),
            Self::MiniCpm => ("MiniCPMForCausalLM", "minicpm"),
            Self::Qwen3 => ("Qwen3ForCausalLM", "qwen3"),
            Self::Qwen3Moe => ("Qwen3MoeForCausalLM", "qwen3_moe"),
            Self::Gemma3 => ("Gemma3ForCausalLM", "gemma3_text"),
        }
    }

    /// Returns `true` if `transformers` and SGLBITNT have packed trits of this family.
    pub(super) fn has_packed_trits(self) -> bool {
        matches!(self, Self::BitNet | Self::Llama)
    }

    /// Returns `true` if a `config.json` describes the network.
    pub(super) fn has_config(self, network: &Network) -> bool {
        let (attention, _) = uniform_blocks(network);
        let norms = [attention.input_norm, attention.output_norm];
        let heads = attention.qk_norm.is_none() || attention.sub_norm.is_none();
        self != Self::Gemma3 && norms.iter().all(Option::is_none) && heads
    }

    /// Returns `true` if a file must name its codes of activations: they are not those that readers assume.
    pub(super) fn names_codes(self, network: &Network) -> bool {
        let usual = matches!(self, Self::BitNet | Self::Llama | Self::Gemma3);
        !usual || network.activations != ActivationCodes::Int8
    }
}

/// Returns the mixture of experts that all layers share, if they have one.
pub(super) fn experts(network: &Network) -> Option<&Experts> {
    network.uniform_layer()?.ffn.experts()
}

/// Returns the blocks that all layers share; of a mixture of experts, the recipe of an expert.
///
/// # Panics
///
/// If layers differ, which [`Target::stage`](super::Target::stage) rejects.
pub(super) fn uniform_blocks(network: &Network) -> (&Attention, &Dense) {
    let layer = network.uniform_layer().expect("layers are all alike");
    (layer.attention(), layer.ffn.block())
}
