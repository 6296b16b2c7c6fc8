//! Qwen3-MoE: Qwen3 with a mixture of experts in every layer.

use wf_core::{Activation, ActivationCodes, Network, RotaryPairs};

use super::decoder::{Defaults, decoder_with};
use super::experts::experts;
use super::keys::Key;
use super::qwen3::{norm_heads, reject_windows};
use super::{Family, Keys};
use crate::error::Error;

pub(super) const FAMILY: Family = Family {
    architectures: &["qwen3moe"],
    classes: &["Qwen3MoeForCausalLM"],
    model_types: &["qwen3_moe"],
    network,
    ..Family::GGUF_ONLY
};

const SPARSE_STEP: Key = Key::json("decoder_sparse_step");
const DENSE_LAYERS: Key = Key::json("mlp_only_layers");

fn network(keys: &mut Keys<'_>) -> Result<Network, Error> {
    reject_windows(keys)?;
    reject_dense_layers(keys)?;
    let activation = keys.activation(|keys| Ok(keys.family_default(Activation::Silu)))?;
    // Like Qwen3: published models quantize weights only.
    let activations = ActivationCodes::Int16;
    let defaults = Defaults { activations, ..Defaults::LLAMA };
    // llama.cpp always renormalizes in this architecture, and has no key for it.
    let renormalize = keys.is_gguf();
    let mut network =
        decoder_with(keys, activation, RotaryPairs::Halves, defaults, |keys, expert| {
            experts(keys, expert, renormalize)
        })?;
    norm_heads(&mut network);
    Ok(network)
}

pub(super) fn reject_dense_layers(keys: &Keys<'_>) -> Result<(), Error> {
    if let Some(step) = keys.optional_size(SPARSE_STEP)?.filter(|&step| step != 1) {
        let what =
            format!("{step}, must be 1: a mixture of dense layers and experts is not supported");
        return Err(keys.fault(SPARSE_STEP, what));
    }
    if keys.list_len(DENSE_LAYERS).is_some_and(|len| len > 0) {
        let what = "must be empty: a mixture of dense layers and experts is not supported";
        return Err(keys.fault(DENSE_LAYERS, what));
    }
    Ok(())
}
