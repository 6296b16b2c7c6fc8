//! Qwen2-MoE: Llama with a mixture of experts in every layer, and a shared expert with a gate.
//!
//! Published models have biases, which are rejected; the family is here for ternary models of its shape.

use wf_core::{Activation, ActivationCodes, Ffn, Network, RotaryPairs};

use super::decoder::{Defaults, decoder_with};
use super::experts::experts;
use super::qwen3::reject_windows;
use super::qwen3_moe::reject_dense_layers;
use super::{Family, Keys};
use crate::error::Error;

pub(super) const FAMILY: Family = Family {
    architectures: &["qwen2moe"],
    classes: &["Qwen2MoeForCausalLM"],
    model_types: &["qwen2_moe"],
    network,
    ..Family::GGUF_ONLY
};

fn network(keys: &mut Keys<'_>) -> Result<Network, Error> {
    reject_windows(keys)?;
    reject_dense_layers(keys)?;
    let activation = keys.activation(|keys| Ok(keys.family_default(Activation::Silu)))?;
    // Like Qwen3: floats that are quantized are those of weights.
    let defaults = Defaults { activations: ActivationCodes::Int16, ..Defaults::LLAMA };
    let mut network =
        decoder_with(keys, activation, RotaryPairs::Halves, defaults, |keys, expert| {
            experts(keys, expert, false)
        })?;
    for layer in &mut network.layers {
        // The class has a gate, whether or not the file does.
        if let Ffn::Experts(experts) = &mut layer.ffn
            && let Some(shared) = &mut experts.shared
        {
            shared.gated = true;
        }
    }
    Ok(network)
}
