//! Windows, limits, scales and shared experts of layers in the keys of GGUF and in `config.json`.

use serde_json::{Map, Value, json};
use wf_core::{Layer, LayerKinds, Network};

use super::family::{WrittenFamily, blocks, experts, kinds};
use super::hybrid;
use crate::gguf::write::MetadataValue;

/// Returns the GGUF keys of windows, limits and the scale of attention, without the architecture in front.
pub(super) fn gguf_keys(
    network: &Network,
    family: WrittenFamily,
) -> Vec<(&'static str, MetadataValue)> {
    let mut keys = Vec::new();
    let (attention, dense) = blocks(network);
    if let Some(sliding) = kinds(network).sliding.and_then(Layer::attention) {
        let len = u32::try_from(sliding.window.unwrap_or_default()).unwrap_or(u32::MAX);
        keys.push(("attention.sliding_window", MetadataValue::U32(len)));
        keys.push(("attention.sliding_window_pattern", pattern(network, family)));
        if let (WrittenFamily::Gemma3, Some(rope)) = (family, sliding.rope) {
            keys.push(("rope.freq_base_swa", MetadataValue::F32(rope.theta as f32)));
        }
    }
    if let Some(scale) = attention.score_scale {
        keys.push(("attention.scale", MetadataValue::F32(scale)));
    }
    keys.extend(hybrid::gguf_keys(network));
    if family == WrittenFamily::Maple {
        let limits = vec![dense.limit.unwrap_or(0.0); network.layers.len()];
        keys.push(("swiglu_clamp_exp", MetadataValue::F32s(limits)));
    }
    keys
}

/// Returns the layers with a window: the period of those without, where llama.cpp reads a period.
fn pattern(network: &Network, family: WrittenFamily) -> MetadataValue {
    let layers = sliding_layers(network);
    let first_full = layers.iter().position(|sliding| !sliding).map_or(0, |at| at + 1);
    let has_period = |period: usize| {
        let by_period = (1..=layers.len()).map(|layer: usize| !layer.is_multiple_of(period));
        by_period.eq(layers.iter().copied())
    };
    match u32::try_from(first_full) {
        Ok(period) if family == WrittenFamily::Gemma3 && period > 0 && has_period(first_full) => {
            MetadataValue::U32(period)
        }
        _ => MetadataValue::Bools(layers),
    }
}

fn sliding_layers(network: &Network) -> Vec<bool> {
    network.layers.iter().map(|layer| layer.window().is_some()).collect()
}

/// Sets the keys of `config.json` of the same.
pub(super) fn set_json(values: &mut Map<String, Value>, network: &Network, family: WrittenFamily) {
    let mut set = |key: &str, value: Value| {
        values.insert(key.to_owned(), value);
    };
    let (attention, dense) = blocks(network);
    let LayerKinds { sliding, .. } = kinds(network);
    let sliding = sliding.and_then(Layer::attention);
    if matches!(family, WrittenFamily::Maple | WrittenFamily::Gemma3) {
        let name = |sliding: bool| if sliding { "sliding_attention" } else { "full_attention" };
        let types: Vec<&str> = sliding_layers(network).into_iter().map(name).collect();
        set("layer_types", json!(types));
        set("sliding_window", json!(sliding.and_then(|attention| attention.window)));
    }
    if let Some(shared) = experts(network).and_then(|experts| experts.shared) {
        set("shared_expert_intermediate_size", json!(shared.ffn_len));
    }
    match family {
        WrittenFamily::Maple => {
            let rotated = attention.rope.and_then(|rope| rope.dims).unwrap_or(attention.head_dim);
            set("partial_rotary_factor", json!(rotated as f64 / attention.head_dim as f64));
            set("nope_on_global_attention", json!(true));
            set("swiglu_limit", json!(dense.limit.unwrap_or(0.0)));
        }
        WrittenFamily::Gemma3 => {
            let local = sliding.and_then(|attention| attention.rope);
            set("rope_local_base_freq", json!(local.map(|rope| rope.theta)));
            let scalar = attention.score_scale.map(f64::from).map(|scale| 1.0 / (scale * scale));
            set("query_pre_attn_scalar", json!(scalar.unwrap_or(attention.head_dim as f64)));
        }
        WrittenFamily::MiniCpm => {
            // As the class names them: by the number of layers and the hidden size.
            let (layers, hidden_len) = (network.layers.len() as f64, network.hidden_len as f64);
            set("scale_emb", json!(network.embedding.scale));
            let depth = network.residual_scale.map(|scale| f64::from(scale) * layers.sqrt());
            set("scale_depth", json!(depth));
            let base = network.head.divisor.map(|divisor| hidden_len / f64::from(divisor));
            set("dim_model_base", json!(base));
        }
        WrittenFamily::Qwen35 => values.extend(hybrid::json_keys(network)),
        _ => {}
    }
}
