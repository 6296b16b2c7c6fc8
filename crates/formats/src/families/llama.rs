//! Llama: SiLU, no norms but the two of each layer.

use wf_core::{Activation, Network, RotaryPairs};

use super::decoder::{Defaults, decoder};
use super::{Family, Keys};
use crate::error::Error;

pub(super) const FAMILY: Family = Family {
    architectures: &["llama"],
    classes: &["LlamaForCausalLM"],
    model_types: &["llama"],
    ..Family::GGUF_ONLY
};

pub(super) fn network(keys: &mut Keys<'_>) -> Result<Network, Error> {
    let activation = keys.activation(|keys| Ok(keys.family_default(Activation::Silu)))?;
    // The converter of llama.cpp reorders the rows of query and key for this architecture.
    let pairs = if keys.is_gguf() { RotaryPairs::Adjacent } else { RotaryPairs::Halves };
    decoder(keys, activation, pairs, Defaults::LLAMA)
}
