//! Recipes of families with keys of their own, and keys that do not fit.

use std::path::Path;

use serde_json::{Value, json};
use wf_core::{Network, RopeScaling, ValueHeadOrder};
use wf_formats::{ModelFile, OpenOptions};

use crate::patched::{after, data, open, rejected, rename, set};

/// A change of a configuration.
type Edit = fn(&mut Value);

fn network(path: &str) -> Network {
    open(&data(path)).unwrap().network().clone()
}

/// Rejects a file with another value of a key, which has four bytes.
#[track_caller]
fn number(path: &str, key: &str, value: f32, expected: &str) {
    let mut bytes = data(path);
    set(&mut bytes, key, &value.to_le_bytes());
    rejected(&bytes, expected);
}

/// Opens a directory with the recorded configuration of a model, changed, and no weights but an embedding.
pub(crate) fn config(path: &str, change: impl FnOnce(&mut Value)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut config: Value = serde_json::from_slice(&data(path)).unwrap();
    config["tie_word_embeddings"] = json!(true);
    change(&mut config);
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    write_embedding(folder.path());
    let opened = ModelFile::open(folder.path(), &OpenOptions::default());
    opened.err().map_or_else(String::new, |error| error.to_string())
}

fn write_embedding(folder: &Path) {
    use wf_formats::{FloatEncoding, SafetensorsWriter};
    let mut writer = SafetensorsWriter::new();
    writer.declare("model.embed_tokens.weight", &[4, 128], FloatEncoding::F32).unwrap();
    let mut body = writer.begin(Vec::new()).unwrap();
    body.append(&[0; 4 * 4 * 128]).unwrap();
    std::fs::write(folder.join("model.safetensors"), body.finish().unwrap()).unwrap();
}

#[test]
fn minicpm_scales_embeddings_residuals_and_logits() {
    let network = network("minicpm/longrope.gguf");
    assert_eq!(network.embedding.scale, Some(12.0));
    assert_eq!(network.residual_scale, Some((1.4 / 3f64.sqrt()) as f32));
    assert_eq!(network.head.divisor, Some((256.0 / 96.0) as f32));
    let rope = network.layers[0].attention().unwrap().rope.unwrap();
    assert!(matches!(rope.scaling, RopeScaling::Divided { original_len: 64, .. }));
}

#[test]
fn minicpm_files_of_2024_have_the_scales_of_the_first_model() {
    let mut bytes = data("minicpm/tied.gguf");
    for (found, other) in [
        ("minicpm.embedding_scale", "minicpm.embedding_other"),
        ("minicpm.residual_scale", "minicpm.residual_other"),
        ("minicpm.logit_scale", "minicpm.logit_other"),
    ] {
        rename(&mut bytes, found, other);
    }
    let file = open(&bytes).unwrap();
    let network = file.network();
    assert_eq!(network.embedding.scale, Some(12.0));
    assert_eq!(network.residual_scale, Some((1.4 / 3f64.sqrt()) as f32));
    assert_eq!(network.head.divisor, Some(1.0));
    let decisions = file.format().decisions.join("\n");
    assert!(decisions.contains("minicpm.logit_scale is not set"), "{decisions}");
}

#[test]
fn scales_of_minicpm_that_do_not_fit_name_the_key_and_the_value() {
    let path = "minicpm/tied.gguf";
    number(path, "minicpm.embedding_scale", 0.0, "embedding_scale: 0, must be a positive number");
    number(path, "minicpm.residual_scale", -1.5, "residual_scale: -1.5, must be a positive number");
    number(path, "minicpm.logit_scale", f32::NAN, "logit_scale: found \"NaN\", must be a number");
    let config = |key: &str, value: Value| config("minicpm/tied.config.json", |c| c[key] = value);
    let error = config("scale_emb", json!(-12));
    assert!(error.contains("scale_emb: -12, must be a positive number"), "{error}");
    let error = config("scale_depth", json!(1e-60));
    assert!(error.contains("scale_depth: ") && error.contains("must be a positive"), "{error}");
    let error = config("dim_model_base", json!(0));
    assert!(error.contains("dim_model_base: 0, must be a positive number"), "{error}");
    let error = config("sparse_config", json!({ "dense_len": 8192 }));
    assert!(error.contains("sparse_config: sparse attention is not supported"), "{error}");
    let error = config("num_experts", json!(8));
    assert!(error.contains("num_experts: 8, experts are not supported in"), "{error}");
}

#[test]
fn maple_has_windows_rotation_and_limits_by_layer() {
    let network = network("maple/windows.gguf");
    let kinds = network.layer_kinds().unwrap();
    let (full, sliding) =
        (kinds.full.unwrap().attention().unwrap(), kinds.sliding.unwrap().attention().unwrap());
    assert_eq!((sliding.window, sliding.rope.unwrap().dims), (Some(48), Some(16)));
    assert_eq!((full.window, full.rope), (None, None));
    let windows: Vec<bool> = network.layers.iter().map(|layer| layer.window().is_some()).collect();
    assert_eq!(windows, [true, true, true, false]);
    let experts = network.layers[3].ffn.experts().unwrap();
    assert_eq!((experts.experts, experts.active, experts.renormalize), (8, 3, true));
    assert_eq!(experts.expert.limit, Some(7.0));
}

#[test]
fn keys_of_maple_that_do_not_fit_are_named_with_their_values() {
    let size = |key: &str, value: u32, expected: &str| {
        let mut bytes = data("maple/windows.gguf");
        set(&mut bytes, key, &value.to_le_bytes());
        rejected(&bytes, expected);
    };
    for dims in [0, 3, 34, u32::MAX] {
        let expected = format!("rope.dimension_count: {dims}, must be even and from 2 to");
        size("maple.rope.dimension_count", dims, &expected);
    }
    size("maple.attention.sliding_window", 0, "window: 0, but some layers have a window");
    let lists = "pattern: a list of 4, must have one for each of 3 layers";
    size("maple.block_count", 3, lists);
    size("maple.block_count", u32::MAX, "block_count: 4294967295, must be between 1 and 16384");
    let limit = |value: f32, expected: &str| {
        let mut bytes = data("maple/windows.gguf");
        // After the types of the array and its elements, and its length.
        let at = after(&bytes, "maple.swiglu_clamp_exp") + 4 + 4 + 8;
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        rejected(&bytes, expected);
    };
    limit(-1.0, "swiglu_clamp_exp: -1, must be a positive number, or 0 for none");
    limit(f32::NAN, "swiglu_clamp_exp: found [\"NaN\",7.0,7.0,7.0], must be a list of numbers");
    let config = |key: &str, value: Value| config("maple/windows.config.json", |c| c[key] = value);
    let cases = [
        ("nope_on_global_attention", json!(false), "false, rotation in layers without a window"),
        ("num_shared_experts", json!(1025), "1025, must be between 1 and 1024"),
        ("partial_rotary_factor", json!(0.1), "0.1, must be an even number of the 32 dimensions"),
        ("partial_rotary_factor", json!(1.5), "1.5, must be an even number of the 32 dimensions"),
        ("layer_types", json!(["full_attention"]), "a list of 1, must have one for each of 4"),
        ("layer_types", json!(["a", "b"]), "\"a\", must be sliding_attention or full_attention"),
        ("sliding_window", Value::Null, "missing, but some layers have a window"),
        ("num_experts_per_tok", json!(9), "num_experts_per_tok: 9, must be between 1 and 8"),
    ];
    for (key, value, expected) in cases {
        let error = config(key, value);
        assert!(error.contains(key) && error.contains(expected), "{error}");
    }
}

#[test]
fn gemma3_has_a_rotary_base_for_layers_with_a_window() {
    let network = network("gemma3/windows.gguf");
    let kinds = network.layer_kinds().unwrap();
    let (full, sliding) =
        (kinds.full.unwrap().attention().unwrap(), kinds.sliding.unwrap().attention().unwrap());
    assert_eq!((full.window, sliding.window), (None, Some(40)));
    let (of_full, of_sliding) = (full.rope.unwrap(), sliding.rope.unwrap());
    assert_eq!((of_full.theta, of_full.scaling), (1e6, RopeScaling::Linear { factor: 4.0 }));
    assert_eq!((of_sliding.theta, of_sliding.scaling), (1e4, RopeScaling::None));
    assert_eq!(full.score_scale, Some(0.158_113_88));
}

#[test]
fn keys_of_gemma3_that_do_not_fit_are_named_with_their_values() {
    let path = "gemma3/windows.gguf";
    number(path, "gemma3.attention.scale", -1.0, "attention.scale: -1, must be a positive number");
    number(path, "gemma3.rope.freq_base_swa", 0.0, "rotary base: 0, must be a positive number");
    let mut bytes = data(path);
    set(&mut bytes, "gemma3.attention.sliding_window_pattern", &0u32.to_le_bytes());
    rejected(&bytes, "sliding_window_pattern: 0, must be at least 1");
    let config = |change: Edit| config("gemma3/windows.config.json", change);
    let cases: [(Edit, &str); 7] = [
        (|c| c["final_logit_softcapping"] = json!(30.0), "30, soft caps of logits are not"),
        (|c| c["attn_logit_softcapping"] = json!(50.0), "50, soft caps of logits are not"),
        (|c| c["use_bidirectional_attention"] = json!(true), "true, tokens see earlier ones only"),
        (|c| c["query_pre_attn_scalar"] = json!(0), "query_pre_attn_scalar: 0, must be a positive"),
        (|c| c["layer_types"] = json!(["full_attention"]), "a list of 1, must have one for each"),
        (
            |c| c["rope_parameters"]["sliding_attention"]["rope_type"] = json!("yarn"),
            "rope_parameters.sliding_attention.rope_type: \"yarn\", only default is supported",
        ),
        (
            |c| c["architectures"] = json!(["Gemma3ForConditionalGeneration"]),
            "it has a vision tower, which is not supported",
        ),
    ];
    for (change, expected) in cases {
        let error = config(change);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_gemma3_window_of_zero_is_none() {
    let mut bytes = data("gemma3/windows.gguf");
    set(&mut bytes, "gemma3.attention.sliding_window", &0u32.to_le_bytes());
    let network = open(&bytes).unwrap().network().clone();
    assert!(network.uniform_layer().is_some());
}

#[test]
fn damaged_keys_give_an_error_or_a_network_that_can_run() {
    for path in ["maple/windows.gguf", "gemma3/windows.gguf", "minicpm/longrope.gguf"] {
        let sound = data(path);
        let keys = after(&sound, "tokenizer.ggml.model");
        for at in (24..keys).step_by(9) {
            for value in [0, 0xff] {
                let mut bytes = sound.clone();
                bytes[at] = value;
                if let Ok(file) = open(&bytes) {
                    assert_eq!(file.network().check(), Ok(()), "{path}, byte {at} is {value}");
                }
            }
        }
    }
}

#[test]
fn qwen35_has_recurrent_layers_and_gated_attention() {
    let network = network("qwen35/tiled.gguf");
    let recurrent: Vec<bool> =
        network.layers.iter().map(|layer| layer.delta_net().is_some()).collect();
    assert_eq!(recurrent, [true, true, true, false]);
    let d = network.layers[0].delta_net().unwrap();
    assert_eq!((d.key_heads, d.value_heads, d.key_dim, d.value_dim), (2, 4, 32, 128));
    assert_eq!((d.conv_len, d.order), (4, ValueHeadOrder::Tiled));
    let attention = network.layers[3].attention().unwrap();
    assert!(attention.gated && attention.qk_norm.is_some());
    assert_eq!(attention.rope.unwrap().dims, Some(16));
    let kinds = network.layer_kinds().unwrap();
    assert_eq!((kinds.recurrent, kinds.full), (network.layers.first(), network.layers.last()));
}

#[test]
fn keys_of_qwen35_that_do_not_fit_are_named_with_their_values() {
    let size = |key: &str, value: u32, expected: &str| {
        let mut bytes = data("qwen35/tiled.gguf");
        set(&mut bytes, key, &value.to_le_bytes());
        rejected(&bytes, expected);
    };
    size("qwen35.ssm.inner_size", 513, "inner_size: 513, must be a multiple of the 4 value heads");
    size(
        "qwen35.ssm.time_step_rank",
        0,
        "inner_size: 512, must be a multiple of the 0 value heads",
    );
    let heads = "number of linear value heads: 4, must be a multiple of the 3 key heads";
    size("qwen35.ssm.group_count", 3, heads);
    size("qwen35.ssm.group_count", 0, "number of linear key heads: 0, must be between 1 and");
    size("qwen35.ssm.conv_kernel", 9, "length of the convolution: 9, must be between 1 and 8");
    size("qwen35.ssm.state_size", u32::MAX, "linear key head size: 4294967295, must be between");
    size("qwen35.full_attention_interval", 0, "full_attention_interval: 0, must be at least 2");
    size("qwen35.full_attention_interval", 1, "4 layers of one kind");
    size("qwen35.full_attention_interval", 9, "4 layers of one kind");
    size("qwen35.full_attention_interval", 2, "is not part of this network");
    size("qwen35.block_count", u32::MAX, "block_count: 4294967295, must be between 1 and 16384");
    let cases: [(Edit, &str); 7] = [
        (|c| c["layer_types"][0] = json!("mamba"), "\"mamba\", must be linear_attention or"),
        (
            |c| c["layer_types"] = json!(["full_attention"]),
            "a list of 1, must have one for each of 4",
        ),
        (
            |c| c["attn_output_gate"] = json!(false),
            "attn_output_gate: false, attention without gates",
        ),
        (|c| c["hidden_act"] = json!("relu2"), "\"relu2\", must be silu"),
        (|c| c["linear_value_head_order"] = json!("odd"), "\"odd\", must be grouped or tiled"),
        (|c| c["linear_conv_kernel_dim"] = json!(null), "linear_conv_kernel_dim: missing"),
        (|c| c["num_experts"] = json!(4), "4, experts are not supported in Qwen3_5ForCausalLM"),
    ];
    for (edit, expected) in cases {
        let error = config("qwen35/tiled.config.json", edit);
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let parts = config("qwen35/tiled.config.json", |c| {
        let mut text = c.take();
        text["linear_key_head_dim"] = json!("x");
        *c = json!({"architectures": ["Qwen3_5ForConditionalGeneration"], "text_config": text});
    });
    assert!(parts.contains("text_config.linear_key_head_dim: found \"x\""), "{parts}");
}

#[test]
fn the_prediction_head_of_a_gguf_file_is_skipped_with_a_note() {
    let mut bytes = data("qwen35/equal.gguf");
    // Without the first key, a quarter of a head rotates, as it says.
    rename(&mut bytes, "qwen35.rope.dimension_count", "qwen35.nextn_predict_layers");
    set(&mut bytes, "qwen35.nextn_predict_layers", &1_u32.to_le_bytes());
    rename(&mut bytes, "blk.3.attn_output.weight", "blk.3.nextn.eh_pr.weight");
    let file = open(&bytes).unwrap();
    assert_eq!(file.network().layers.len(), 3);
    assert_eq!(file.network().layers, network("qwen35/equal.gguf").layers[..3]);
    let notes = &file.format().decisions;
    let note = "the multi-token prediction head is not used: blk.3.nextn.eh_proj.weight is missing";
    assert!(notes.iter().any(|found| found == note), "{notes:?}");
    assert!(file.extra_tensors().contains(&"blk.3.nextn.eh_pr.weight".to_owned()));
    set(&mut bytes, "qwen35.nextn_predict_layers", &4_u32.to_le_bytes());
    rejected(&bytes, "nextn_predict_layers: 4, must be less than the number of layers");
}
