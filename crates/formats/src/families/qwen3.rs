//! Qwen3: Llama with a norm of every query and key head.

use wf_core::{Activation, ActivationCodes, Network, RotaryPairs};

use super::decoder::{Defaults, decoder};
use super::keys::Key;
use super::{Family, Keys};
use crate::error::Error;
use crate::names::LayerTensor;

pub(super) const FAMILY: Family = Family {
    architectures: &["qwen3"],
    classes: &["Qwen3ForCausalLM"],
    model_types: &["qwen3"],
    network,
    ..Family::GGUF_ONLY
};

const WINDOWS: Key = Key::json("use_sliding_window");

fn network(keys: &mut Keys<'_>) -> Result<Network, Error> {
    reject_windows(keys)?;
    let activation = keys.activation(|keys| Ok(keys.family_default(Activation::Silu)))?;
    // Bonsai models are trained with activations in floats; embedding models, which norm the inputs of
    // projections, with eight bits.
    let activations = match keys.evidence.has_any(&[LayerTensor::QueryInputNorm]) {
        true => ActivationCodes::Int8,
        false => ActivationCodes::Int16,
    };
    let defaults = Defaults { activations, ..Defaults::LLAMA };
    let mut network = decoder(keys, activation, RotaryPairs::Halves, defaults)?;
    norm_heads(&mut network);
    Ok(network)
}

pub(super) fn reject_windows(keys: &Keys<'_>) -> Result<(), Error> {
    match keys.flag(WINDOWS)? {
        Some(true) => Err(keys.fault(WINDOWS, "true, attention windows are not supported")),
        _ => Ok(()),
    }
}

/// Gives every query and key head a norm.
pub(super) fn norm_heads(network: &mut Network) {
    let norm = network.norm;
    network.update_layers(|attention, _| attention.qk_norm = Some(norm));
}
