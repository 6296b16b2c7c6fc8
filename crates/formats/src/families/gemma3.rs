//! Gemma3: GELU, a scaled embedding, and norms of query and key heads and of what each block adds.

use wf_core::{Activation, ActivationCodes, Network, RotaryPairs};

use super::decoder::{Defaults, decoder};
use super::{Family, Keys};
use crate::error::Error;

pub(super) const FAMILY: Family =
    Family { architectures: &["gemma3"], network, ..Family::GGUF_ONLY };

fn network(keys: &mut Keys<'_>) -> Result<Network, Error> {
    let activation = keys.activation(|keys| Ok(keys.family_default(Activation::GeluTanh)))?;
    let defaults = Defaults { eps: 1e-6, theta: 1_000_000.0, activations: ActivationCodes::Int8 };
    let mut network = decoder(keys, activation, RotaryPairs::Halves, defaults)?;
    network.embedding.scale = Some((network.hidden_len as f32).sqrt());
    let norm = Some(network.norm);
    network.update_layers(|attention, dense| {
        (attention.qk_norm, attention.output_norm, dense.output_norm) = (norm, norm, norm);
    });
    Ok(network)
}
