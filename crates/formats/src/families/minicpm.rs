//! MiniCPM: Llama with scaled embeddings, residuals and logits.

use wf_core::{Activation, ActivationCodes, Network, RotaryPairs};

use super::decoder::{Defaults, decoder};
use super::keys::Key;
use super::{Family, Keys};
use crate::error::Error;

pub(super) const FAMILY: Family = Family {
    architectures: &["minicpm"],
    classes: &["MiniCPMForCausalLM"],
    model_types: &["minicpm"],
    network,
    ..Family::GGUF_ONLY
};

const EMBEDDING: Key = Key::new("embedding_scale", "scale_emb");
const RESIDUAL: Key = Key::gguf("residual_scale");
const LOGITS: Key = Key::gguf("logit_scale");
const DEPTH: Key = Key::json("scale_depth");
const BASE: Key = Key::json("dim_model_base");
const SPARSE: Key = Key::json("sparse_config");

/// The scales of MiniCPM-2B, which converters of early 2024 left to the reader.
const FIRST_EMBEDDING: f64 = 12.0;
const FIRST_DEPTH: f64 = 1.4;
const FIRST_BASE: f64 = 256.0;

fn network(keys: &mut Keys<'_>) -> Result<Network, Error> {
    if keys.is_set(SPARSE) {
        let what = "sparse attention is not supported: remove the key to run dense attention";
        return Err(keys.fault(SPARSE, what));
    }
    let activation = keys.activation(|keys| Ok(keys.family_default(Activation::Silu)))?;
    // The converter of llama.cpp reorders the rows of query and key, as for Llama.
    let pairs = if keys.is_gguf() { RotaryPairs::Adjacent } else { RotaryPairs::Halves };
    // The training of BitCPM4 quantizes weights only.
    let defaults = Defaults { activations: ActivationCodes::Int16, ..Defaults::LLAMA };
    let mut network = decoder(keys, activation, pairs, defaults)?;
    let (root, hidden_len) = ((network.layers.len() as f64).sqrt(), network.hidden_len as f64);
    let embedding = if keys.is_gguf() { FIRST_EMBEDDING } else { 1.0 };
    network.embedding.scale = Some(keys.factor_or(EMBEDDING, embedding, "embedding scale")? as f32);
    let (residual, divisor) = if keys.is_gguf() {
        let residual = keys.factor_or(RESIDUAL, FIRST_DEPTH / root, "residual scale")?;
        (residual, keys.factor_or(LOGITS, hidden_len / FIRST_BASE, "logit scale")?)
    } else {
        let depth = keys.factor_or(DEPTH, 1.0, "scale of residuals by depth")?;
        (depth / root, hidden_len / keys.factor_or(BASE, 1.0, "width without logit scale")?)
    };
    network.residual_scale = Some(residual as f32);
    network.head.divisor = Some(divisor as f32);
    Ok(network)
}
