//! Qwen3.5: recurrent mixers (Gated DeltaNet) in most layers, gated attention in the others.
//!
//! Its attention rotates part of each head by positions on several axes, which are equal for text.

use wf_core::{
    Activation, ActivationCodes, Attention, DeltaNet, Mixer, Network, RotaryPairs, ValueHeadOrder,
};

use super::decoder::{Defaults, decoder};
use super::keys::Key;
use super::qwen3::norm_heads;
use super::rope::names_rotated_dims;
use super::{Family, INPUT_NORMS, Keys, STANDARD, hadamard, mtp};
use crate::error::{Error, quote_safely};
use crate::names::HYBRID_NORMS;

pub(super) const FAMILY: Family = Family {
    architectures: &["qwen35"],
    classes: &["Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"],
    model_types: &["qwen3_5_text", "qwen3_5"],
    tensors: &[HYBRID_NORMS, STANDARD, INPUT_NORMS],
    norm_addend: 1.0,
    skipped: &[
        ("model.visual.", "the vision tower is not used: only text is supported"),
        ("mtp.", "tensors of a multi-token prediction head with several layers are not used"),
    ],
    has_parts: true,
    transforms: true,
    predicts: true,
    network,
    ..Family::GGUF_ONLY
};

const KEY_HEADS: Key = Key::new("ssm.group_count", "linear_num_key_heads");
const VALUE_HEADS: Key = Key::new("ssm.time_step_rank", "linear_num_value_heads");
const KEY_DIM: Key = Key::new("ssm.state_size", "linear_key_head_dim");
const VALUE_DIM: Key = Key::json("linear_value_head_dim");
const VALUE_LEN: Key = Key::gguf("ssm.inner_size");
const CONV_LEN: Key = Key::new("ssm.conv_kernel", "linear_conv_kernel_dim");
const PERIOD: Key = Key::new("full_attention_interval", "full_attention_interval");
const TYPES: Key = Key::json("layer_types");
/// Only `.wf` files have this key.
const ORDER: Key = Key::json("linear_value_head_order");
const GATED: Key = Key::json("attn_output_gate");

/// Of so many layers, one has attention, unless the file says otherwise.
const USUAL_PERIOD: usize = 4;
/// Of so many dimensions of a head, one rotates, unless the file says otherwise.
const UNROTATED: usize = 4;

fn network(keys: &mut Keys<'_>) -> Result<Network, Error> {
    if keys.flag(GATED)? == Some(false) {
        return Err(keys.fault(GATED, "false, attention without gates is not supported"));
    }
    let activation = keys.activation(|keys| Ok(keys.family_default(Activation::Silu)))?;
    if activation != Activation::Silu {
        let what = format!("\"{}\", must be silu, as convolutions end in it", activation.key());
        return Err(keys.fault(Key::new("hidden_activation", "hidden_act"), what));
    }
    let defaults = Defaults {
        // Published models quantize weights only.
        activations: ActivationCodes::Int16,
        partial_rotation: true,
        ..Defaults::LLAMA
    };
    let mut network = decoder(keys, activation, RotaryPairs::Halves, defaults)?;
    let predicting = mtp::split_layers(keys, &mut network)?;
    norm_heads(&mut network);
    let rotates_all = names_rotated_dims(keys)?;
    network.update_layers(|attention, _| {
        attention.gated = true;
        if let (Some(rope), false) = (&mut attention.rope, rotates_all) {
            rope.dims = Some(attention.head_dim / UNROTATED);
        }
    });
    network.hadamard = match keys.is_gguf() {
        true => keys.evidence.hadamard.clone(),
        false => hadamard::read(keys)?,
    };
    if let Some(hadamard) = &network.hadamard {
        let what = format!("Walsh–Hadamard transform over blocks of {}", hadamard.block_len);
        keys.decisions.push(format!("inputs of products pass a {what}"));
    }
    network.mtp = mtp::read(keys, &network, predicting);
    let is_recurrent = recurrent_layers(keys, network.layers.len())?;
    for (layer, is_recurrent) in network.layers.iter_mut().zip(is_recurrent) {
        if let (Mixer::Attention(attention), true) = (layer.mixer, is_recurrent) {
            layer.mixer = Mixer::DeltaNet(delta_net(keys, &attention)?);
        }
    }
    Ok(network)
}

/// Returns `true` for each layer with a recurrent mixer. Both kinds of layers have to be there.
fn recurrent_layers(keys: &Keys<'_>, layers: usize) -> Result<Vec<bool>, Error> {
    let (key, recurrent) = match keys.texts(TYPES)? {
        Some(types) => (TYPES, by_type(keys, &types)?),
        None => {
            let period = keys.optional_size(PERIOD)?.unwrap_or(USUAL_PERIOD);
            if period == 0 {
                return Err(keys.fault(PERIOD, "0, must be at least 2"));
            }
            (PERIOD, (1..=layers).map(|layer: usize| !layer.is_multiple_of(period)).collect())
        }
    };
    if recurrent.len() != layers {
        let found = recurrent.len();
        let what = format!("a list of {found}, must have one for each of {layers} layers");
        return Err(keys.fault(key, what));
    }
    if !(recurrent.contains(&true) && recurrent.contains(&false)) {
        let what = format!("{layers} layers of one kind, there must be recurrent ones and others");
        return Err(keys.fault(key, what));
    }
    Ok(recurrent)
}

fn by_type(keys: &Keys<'_>, types: &[&str]) -> Result<Vec<bool>, Error> {
    let is_recurrent = |name: &&str| match *name {
        "linear_attention" => Ok(true),
        "full_attention" => Ok(false),
        other => {
            let known = "must be linear_attention or full_attention";
            Err(keys.fault(TYPES, format!("\"{}\", {known}", quote_safely(other))))
        }
    };
    types.iter().map(is_recurrent).collect()
}

fn delta_net(keys: &Keys<'_>, attention: &Attention) -> Result<DeltaNet, Error> {
    let value_heads = keys.size(VALUE_HEADS)?;
    let delta_net = DeltaNet {
        key_heads: keys.size(KEY_HEADS)?,
        value_heads,
        key_dim: keys.size(KEY_DIM)?,
        value_dim: value_dim(keys, value_heads)?,
        conv_len: keys.size(CONV_LEN)?,
        order: ValueHeadOrder::Grouped,
        norm: attention.norm,
        head_norm: attention.norm,
    };
    // The converter of llama.cpp reorders the value heads.
    let order = match keys.text(ORDER)? {
        _ if keys.is_gguf() => ValueHeadOrder::Tiled,
        None | Some("grouped") => ValueHeadOrder::Grouped,
        Some("tiled") => ValueHeadOrder::Tiled,
        Some(other) => {
            let what = format!("\"{}\", must be grouped or tiled", quote_safely(other));
            return Err(keys.fault(ORDER, what));
        }
    };
    Ok(delta_net.with_order(order))
}

fn value_dim(keys: &Keys<'_>, value_heads: usize) -> Result<usize, Error> {
    if !keys.is_gguf() {
        return keys.size(VALUE_DIM);
    }
    let len = keys.size(VALUE_LEN)?;
    len.checked_div(value_heads).filter(|_| len.is_multiple_of(value_heads)).ok_or_else(|| {
        let what = format!("{len}, must be a multiple of the {value_heads} value heads");
        keys.fault(VALUE_LEN, what)
    })
}
