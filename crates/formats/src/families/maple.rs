//! Maple: Qwen3-MoE with windows, rotation in the layers that have one, and limited gates.

use wf_core::{Activation, ActivationCodes, Ffn, Network, RotaryPairs};

use super::decoder::{Defaults, decoder_with};
use super::experts::experts;
use super::keys::Key;
use super::qwen3::norm_heads;
use super::windows::Windows;
use super::{Family, Keys};
use crate::error::Error;
use crate::names::TensorName;

pub(super) const FAMILY: Family = Family {
    architectures: &["maple"],
    classes: &["MapleForCausalLM"],
    model_types: &["maple"],
    outside: &[("model.word_embeddings.weight", TensorName::Embedding)],
    network,
    ..Family::GGUF_ONLY
};

const LIMIT: Key = Key::new("swiglu_clamp_exp", "swiglu_limit");
const NO_ROTATION: Key = Key::json("nope_on_global_attention");

/// The limit of files that name none, as in the code of the published model.
const PUBLISHED_LIMIT: f32 = 7.0;
/// A limit up to this is none, as in llama.cpp.
const NO_LIMIT: f32 = 1e-6;

fn network(keys: &mut Keys<'_>) -> Result<Network, Error> {
    if keys.flag(NO_ROTATION)? == Some(false) {
        let what = "false, rotation in layers without a window is not supported";
        return Err(keys.fault(NO_ROTATION, what));
    }
    let activation = keys.activation(|keys| Ok(keys.family_default(Activation::Silu)))?;
    let defaults = Defaults {
        // Its training quantizes weights only.
        activations: ActivationCodes::Int16,
        windows: true,
        partial_rotation: true,
        ..Defaults::LLAMA
    };
    let mut network =
        decoder_with(keys, activation, RotaryPairs::Halves, defaults, |keys, expert| {
            experts(keys, expert, true)
        })?;
    norm_heads(&mut network);
    let layers = network.layers.len();
    Windows::read(keys, layers, None)?.apply(&mut network, |attention| {
        attention.rope = attention.rope.filter(|_| attention.window.is_some());
    });
    for (layer, limit) in network.layers.iter_mut().zip(limits(keys, layers)?) {
        if let Ffn::Experts(experts) = &mut layer.ffn {
            experts.expert.limit = limit;
        }
    }
    Ok(network)
}

/// Reads the limit of the gates of each layer.
fn limits(keys: &mut Keys<'_>, layers: usize) -> Result<Vec<Option<f32>>, Error> {
    let values = match keys.is_list(LIMIT) {
        true => keys.floats(LIMIT)?.unwrap_or_default(),
        false => {
            let limit = keys.number_or(LIMIT, PUBLISHED_LIMIT.into(), "limit of gates")?;
            vec![limit as f32; layers]
        }
    };
    if values.len() != layers {
        let what = format!("a list of {}, must have one for each of {layers} layers", values.len());
        return Err(keys.fault(LIMIT, what));
    }
    if let Some(bad) = values.iter().find(|limit| !limit.is_finite() || **limit < 0.0) {
        return Err(keys.fault(LIMIT, format!("{bad}, must be a positive number, or 0 for none")));
    }
    Ok(values.into_iter().map(|limit| Some(limit).filter(|&limit| limit > NO_LIMIT)).collect())
}
