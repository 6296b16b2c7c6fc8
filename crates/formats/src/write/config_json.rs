//! [`ModelConfig`] → `config.json`.

use serde_json::{Map, Value, json};

use super::target::Target;
use crate::config::{Activation, ModelConfig};
use crate::encoding::FloatEncoding;

/// The configuration of a packed checkpoint as text.
pub(super) fn config_json(config: &ModelConfig, target: &Target) -> String {
    let mut text = serde_json::to_string_pretty(&Value::Object(config_values(config, target)))
        .expect("a map of strings to plain values can be written");
    text.push('\n');
    text
}

/// The configuration of a packed checkpoint, as `transformers` reads it.
pub(super) fn config_values(config: &ModelConfig, target: &Target) -> Map<String, Value> {
    let is_llama = !config.sub_norms && config.activation == Activation::Silu;
    let (class, model_type) =
        if is_llama { ("LlamaForCausalLM", "llama") } else { ("BitNetForCausalLM", "bitnet") };
    let mut values = Map::new();
    let mut set = |key: &str, value: Value| {
        values.insert(key.to_owned(), value);
    };
    set("architectures", json!([class]));
    set("model_type", json!(model_type));
    if let Some(name) = target.name.as_deref().or(config.name.as_deref()) {
        set("_name_or_path", json!(name));
    }
    set("hidden_act", json!(config.activation.key()));
    let dtype = match target.head {
        FloatEncoding::F32 => "float32",
        FloatEncoding::F16 => "float16",
        _ => "bfloat16",
    };
    set("torch_dtype", json!(dtype));
    set("vocab_size", json!(config.vocab_len));
    set("hidden_size", json!(config.hidden_len));
    set("intermediate_size", json!(config.ffn_len));
    set("num_hidden_layers", json!(config.layers));
    set("num_attention_heads", json!(config.heads));
    set("num_key_value_heads", json!(config.kv_heads));
    set("head_dim", json!(config.head_dim));
    set("max_position_embeddings", json!(config.context_len));
    set("rope_theta", json!(config.rope_theta));
    set("rms_norm_eps", json!(shortest(config.norm_eps)));
    set("tie_word_embeddings", json!(config.tied_head));
    set("attention_bias", json!(false));
    set("bos_token_id", json!(config.bos));
    match config.eos.as_slice() {
        [] => set("eos_token_id", Value::Null),
        [id] => set("eos_token_id", json!(id)),
        ids => set("eos_token_id", json!(ids)),
    }
    if let Some(block) = config.block_diffusion {
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
    if let Some(pooling) = config.pooling {
        set("pooling", json!(pooling.name()));
    }
    let quantization = json!({
        "quant_method": "bitnet",
        "linear_class": "autobitlinear",
        "quantization_mode": "offline",
    });
    set("quantization_config", quantization);
    values
}

/// The double that prints as the float does: 1e-5, not 9.99999974e-6.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}
