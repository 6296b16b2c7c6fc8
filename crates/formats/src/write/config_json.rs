//! Converts a network and its model information to `config.json`.

use serde_json::{Map, Value, json};
use wf_core::RopeScaling;

use super::family::{WrittenFamily, blocks, experts};
use super::{Target, layers, rope};
use crate::encoding::{FloatEncoding, FloatKind};
use crate::model_file::ModelFile;

/// Returns the `config.json` of a packed checkpoint.
pub(super) fn config_json(source: &ModelFile, target: &Target) -> String {
    let mut text = serde_json::to_string_pretty(&Value::Object(config_values(source, target)))
        .expect("maps of plain values can be serialized");
    text.push('\n');
    text
}

/// Returns the configuration of a packed checkpoint, as `transformers` reads it.
pub(super) fn config_values(source: &ModelFile, target: &Target) -> Map<String, Value> {
    let (network, info) = (source.network(), source.info());
    let (attention, dense) = blocks(network);
    let family = WrittenFamily::of(network);
    let (class, model_type) = family.class_and_type();
    let mut values = Map::new();
    let mut set = |key: &str, value: Value| {
        values.insert(key.to_owned(), value);
    };
    set("architectures", json!([class]));
    set("model_type", json!(model_type));
    if let Some(name) = target.name.as_deref().or(info.name.as_deref()) {
        set("_name_or_path", json!(name));
    }
    set("hidden_act", json!(dense.activation.key()));
    let dtype = match target.head.float().map(FloatEncoding::kind) {
        Some(FloatKind::F32) => "float32",
        Some(FloatKind::F16) => "float16",
        Some(FloatKind::Bf16 | FloatKind::Blocks) | None => "bfloat16",
    };
    set("torch_dtype", json!(dtype));
    set("vocab_size", json!(network.vocab_len));
    set("hidden_size", json!(network.hidden_len));
    set("intermediate_size", json!(dense.ffn_len));
    if let Some(experts) = experts(network) {
        set("moe_intermediate_size", json!(experts.expert.ffn_len));
        set("num_experts", json!(experts.experts));
        set("num_experts_per_tok", json!(experts.active));
        set("norm_topk_prob", json!(experts.renormalize));
    }
    set("num_hidden_layers", json!(network.layers.len()));
    set("num_attention_heads", json!(attention.heads));
    set("num_key_value_heads", json!(attention.kv_heads));
    set("head_dim", json!(attention.head_dim));
    let scaling = attention.rope.map_or(RopeScaling::None, |rope| rope.scaling);
    // Dynamic scaling extends the length that is named here.
    let named_len = match scaling {
        RopeScaling::Dynamic { original_len, .. } => original_len,
        _ => info.context_len,
    };
    set("max_position_embeddings", json!(named_len));
    set("rope_theta", json!(attention.rope.map(|rope| rope.theta)));
    if let Some(scaling) = rope::json(&scaling, &network.rope_divisors) {
        set("rope_scaling", scaling);
    }
    if family.names_codes(network) {
        set("activation_codes", json!(network.activations.key()));
    }
    set("rms_norm_eps", json!(shortest(network.norm.eps)));
    set("tie_word_embeddings", json!(network.head.tied));
    set("attention_bias", json!(false));
    set("bos_token_id", json!(info.bos));
    match info.eos.as_slice() {
        [] => set("eos_token_id", Value::Null),
        [id] => set("eos_token_id", json!(id)),
        ids => set("eos_token_id", json!(ids)),
    }
    if let Some(block) = info.block_diffusion {
        let mut settings = json!({
            "mask_token_id": block.mask_token,
            "block_size": block.block_len,
            "token_shift": block.token_shift,
            "context": if block.causal_context { "causal" } else { "block" },
        });
        if let Some(len) = block.sub_block_len {
            settings["sub_block_size"] = json!(len);
        }
        set("block_diffusion", settings);
    }
    if let Some(pooling) = info.pooling {
        set("pooling", json!(pooling.name()));
    }
    let quantization = json!({
        "quant_method": "bitnet",
        "linear_class": "autobitlinear",
        "quantization_mode": "offline",
    });
    set("quantization_config", quantization);
    layers::set_json(&mut values, network, family);
    values
}

/// The double that prints as the float does: 1e-5, not 9.99999974e-6.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}
