//! Gemma3: GELU, a scaled embedding, norms of query and key heads and of what each block adds, and
//! windows in most layers, whose rotary embedding has a base of its own.

use wf_core::{Activation, ActivationCodes, Network, Rope, RopeScaling, RotaryPairs};

use super::decoder::{Defaults, decoder};
use super::keys::Key;
use super::windows::Windows;
use super::{Family, INPUT_NORMS, Keys, STANDARD};
use crate::error::{Error, quote_safely};
use crate::names::{LayerTensor, Spelling, spelled};

pub(super) const FAMILY: Family = Family {
    architectures: &["gemma3"],
    classes: &["Gemma3ForCausalLM", "Gemma3TextModel"],
    model_types: &["gemma3_text"],
    tensors: &[CHECKPOINT_NORMS, STANDARD, INPUT_NORMS],
    norm_addend: 1.0,
    network,
    ..Family::GGUF_ONLY
};

/// Norms that checkpoints of other families name differently.
const CHECKPOINT_NORMS: &[Spelling] = &[
    spelled(LayerTensor::AttnOutputNorm, "post_attention_norm", "post_attention_layernorm"),
    spelled(LayerTensor::FfnNorm, "ffn_norm", "pre_feedforward_layernorm"),
];

const LOCAL_THETA: Key = Key::new("rope.freq_base_swa", "rope_local_base_freq");
const SCORE_SCALE: Key = Key::gguf("attention.scale");
const QUERY_SCALAR: Key = Key::json("query_pre_attn_scalar");
const BIDIRECTIONAL: Key = Key::json("use_bidirectional_attention");
const WINDOW: Key = Key::json("sliding_window");
const TYPES: Key = Key::json("layer_types");
const CAPS: [Key; 2] = [
    Key::new("attn_logit_softcapping", "attn_logit_softcapping"),
    Key::new("final_logit_softcapping", "final_logit_softcapping"),
];

/// Of so many layers, one sees the whole sequence, unless the file says otherwise.
const PERIOD: usize = 6;
const DEFAULT_LOCAL_THETA: f64 = 10_000.0;
/// Number of layers of the 27B model, whose files do not name its attention scale.
const LAYERS_OF_27B: usize = 62;

fn network(keys: &mut Keys<'_>) -> Result<Network, Error> {
    reject_unsupported(keys)?;
    let activation = keys.activation(|keys| Ok(keys.family_default(Activation::GeluTanh)))?;
    // Embedding models, which norm the inputs of projections, are trained with eight bits.
    let activations = match keys.evidence.has_any(&[LayerTensor::QueryInputNorm]) {
        true => ActivationCodes::Int8,
        false => ActivationCodes::Int16,
    };
    let defaults = Defaults { theta: 1_000_000.0, activations, windows: true, ..Defaults::LLAMA };
    let mut network = decoder(keys, activation, RotaryPairs::Halves, defaults)?;
    network.embedding.scale = Some((network.hidden_len as f32).sqrt());
    let (norm, scale) = (Some(network.norm), score_scale(keys, &network)?);
    network.update_layers(|attention, dense| {
        (attention.qk_norm, attention.output_norm, dense.output_norm) = (norm, norm, norm);
        attention.score_scale = scale;
    });
    let windows = Windows::read(keys, network.layers.len(), Some(PERIOD))?;
    windows.apply(&mut network, |_| {});
    if network.layers.iter().any(|layer| layer.window().is_some()) {
        let theta = local_theta(keys)?;
        // Only layers that see the whole sequence are stretched.
        network.update_layers(|attention, _| {
            if let (Some(rope), true) = (&mut attention.rope, attention.window.is_some()) {
                *rope = Rope { theta, scaling: RopeScaling::None, ..*rope };
            }
        });
    }
    Ok(network)
}

fn reject_unsupported(keys: &Keys<'_>) -> Result<(), Error> {
    for key in CAPS {
        if let Some(cap) = keys.number(key)?.filter(|&cap| cap != 0.0) {
            return Err(keys.fault(key, format!("{cap}, soft caps of logits are not supported")));
        }
    }
    if keys.flag(BIDIRECTIONAL)? == Some(true) {
        return Err(keys.fault(BIDIRECTIONAL, "true, tokens see earlier ones only"));
    }
    // The class has a window where the file has none.
    if !keys.is_gguf() && !keys.is_set(WINDOW) && !keys.is_set(TYPES) {
        return Err(keys.fault(WINDOW, "missing"));
    }
    Ok(())
}

/// Reads the factor of attention scores; `None` is the usual one.
fn score_scale(keys: &mut Keys<'_>, network: &Network) -> Result<Option<f32>, Error> {
    let layers = network.layers.len();
    let (head_dim, heads) = network
        .layers
        .first()
        .and_then(wf_core::Layer::attention)
        .map_or((0, 1), |attention| (attention.head_dim, attention.heads));
    if keys.is_set(SCORE_SCALE) {
        let scale = keys.factor_or(SCORE_SCALE, 1.0, "attention scale")? as f32;
        return Ok(Some(scale).filter(|&scale| scale != 1.0 / (head_dim as f32).sqrt()));
    }
    let scalar = match keys.is_gguf() {
        true if layers == LAYERS_OF_27B => {
            let scalar = network.hidden_len as f64 / heads as f64;
            keys.decisions.push(format!("attention scale 1/√{scalar}: as in Gemma3 27B"));
            scalar
        }
        true => head_dim as f64,
        false => keys.factor_or(QUERY_SCALAR, 256.0, "query scalar")?,
    };
    Ok((scalar != head_dim as f64).then(|| (1.0 / scalar.sqrt()) as f32))
}

/// Reads the rotary base of layers with a window.
fn local_theta(keys: &mut Keys<'_>) -> Result<f64, Error> {
    let parameters = keys.settings.object("rope_parameters")?.filter(|_| !keys.is_gguf());
    if let Some(local) =
        parameters.map(|all| all.object("sliding_attention")).transpose()?.flatten()
    {
        let kind = local.string("rope_type")?.unwrap_or("default");
        if kind != "default" {
            let what = format!("\"{}\", only default is supported", quote_safely(kind));
            return Err(local.fault("rope_type", what));
        }
        if let Some(theta) = local.number("rope_theta")? {
            return Ok(theta);
        }
    }
    keys.number_or(LOCAL_THETA, DEFAULT_LOCAL_THETA, "rotary base of windows")
}
