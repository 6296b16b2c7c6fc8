//! Qwen3: Llama with a norm of every query and key head.

use wf_core::{Activation, Network, RotaryPairs};

use super::decoder::{Defaults, decoder};
use super::keys::Key;
use super::{Family, Keys};
use crate::error::Error;

pub(super) const FAMILY: Family = Family {
    architectures: &["qwen3"],
    classes: &["Qwen3ForCausalLM"],
    model_types: &["qwen3"],
    network,
    ..Family::GGUF_ONLY
};

const WINDOWS: Key = Key::json("use_sliding_window");

fn network(keys: &mut Keys<'_>) -> Result<Network, Error> {
    if keys.flag(WINDOWS)? == Some(true) {
        return Err(keys.fault(WINDOWS, "true, attention windows are not supported"));
    }
    let activation = keys.activation(|keys| Ok(keys.family_default(Activation::Silu)))?;
    let defaults = Defaults { eps: 1e-6, theta: 10_000.0 };
    let mut network = decoder(keys, activation, RotaryPairs::Halves, defaults)?;
    let norm = network.norm;
    network.update_layers(|attention, _| attention.qk_norm = Some(norm));
    Ok(network)
}
