//! Small replicas of published models, with their keys, names and types.
//!
//! The published files are not available to tests. Their content is known from dumps, converters and
//! model code: see docs/formats.md.

use std::fs;

use serde_json::{Value, json};
use wf_core::{Activation, Network, Rope, RopeScaling, RotaryPairs};
use wf_formats::{
    Encoding, FloatEncoding, GgufWriter, LayerTensor, MetadataValue, ModelFile, ModelInfo,
    OpenOptions, Scales, TensorName, TokenizerSource,
};

use crate::hugging_face::{Weights, write_shard};
use crate::support::{I2_S, Sample, activation, open, read_trits, rotary_pairs};

fn gguf(sample: &Sample, more: impl FnOnce(&mut GgufWriter)) -> Result<ModelFile, String> {
    open_gguf(sample, &OpenOptions::default(), more)
}

fn open_gguf(
    sample: &Sample,
    options: &OpenOptions,
    more: impl FnOnce(&mut GgufWriter),
) -> Result<ModelFile, String> {
    // bitnet.cpp keeps embedding and output head in F16.
    let bytes = sample.gguf(I2_S, FloatEncoding::F16, more);
    ModelFile::from_bytes("m.gguf", bytes.leak(), options).map_err(|e| e.to_string())
}

pub(crate) fn text(text: &str) -> MetadataValue {
    MetadataValue::String(text.to_owned())
}

/// A network without sub-norms, as GGUF has it.
pub(crate) fn llama() -> Sample {
    let Sample { mut network, info, .. } = Sample::named("llama");
    network.head.tied = false;
    network.update_layers(|attention, dense| {
        (attention.sub_norm, dense.sub_norm) = (None, None);
        dense.activation = Activation::Silu;
        attention.rope = Some(Rope { pairs: RotaryPairs::Adjacent, ..Rope::default() });
    });
    Sample::of(network, info)
}

/// The vocabulary keys of microsoft/bitnet-b1.58-2B-4T-gguf: no `pre`, no `eot_token_id`.
fn set_llama_3_vocabulary(writer: &mut GgufWriter) {
    let mut tokens: Vec<String> = (0..128_000).map(|id| format!("t{id}")).collect();
    tokens.extend(["<|begin_of_text|>".to_owned(), "<|end_of_text|>".to_owned()]);
    tokens.extend((2..256).map(|id| match id {
        9 => "<|eot_id|>".to_owned(),
        _ => format!("<|reserved_special_token_{id}|>"),
    }));
    let types = (0..128_256).map(|id| if id < 128_000 { 1 } else { 3 }).collect();
    let scores = (0..128_256).map(|id| if id < 128_000 { 0.0 } else { -1000.0 }).collect();
    writer.set("tokenizer.ggml.add_bos_token", MetadataValue::Bool(true));
    writer.set("tokenizer.ggml.model", text("gpt2"));
    writer.set("tokenizer.ggml.tokens", MetadataValue::Strings(tokens));
    writer.set("tokenizer.ggml.scores", MetadataValue::F32s(scores));
    writer.set("tokenizer.ggml.token_type", MetadataValue::I32s(types));
    writer.set("tokenizer.ggml.merges", MetadataValue::Strings(vec!["t0 t1".to_owned()]));
    writer.set("tokenizer.ggml.bos_token_id", MetadataValue::U32(128_000));
    writer.set("tokenizer.ggml.eos_token_id", MetadataValue::U32(128_001));
    writer.set("tokenizer.ggml.padding_token_id", MetadataValue::U32(128_001));
    let template = "{% for m in messages %}Human: {{ m['content'] }} BITNETAssistant: {% endfor %}";
    writer.set("tokenizer.chat_template", text(template));
    writer.set("general.file_type", MetadataValue::U32(40));
    writer.set("general.quantization_version", MetadataValue::U32(2));
}

#[test]
fn both_uploads_of_2b_4t_open_with_the_pre_tokenizer_of_llama_3() {
    // The first was `bitnet-25` and had the embedding a second time, as output.weight.
    for (arch, tied_head) in [("bitnet-b1.58", true), ("bitnet-25", false)] {
        let Sample { mut network, info, .. } = Sample::named(arch);
        (network.vocab_len, network.hidden_len, network.head.tied) = (128_256, 128, tied_head);
        network.layers.truncate(1);
        network.update_layers(|attention, dense| {
            (attention.heads, attention.kv_heads, dense.ffn_len) = (2, 1, 128);
        });
        let sample = Sample::of(network, info);
        let model = gguf(&sample, |writer| {
            writer.set(&format!("{arch}.vocab_size"), MetadataValue::U32(128_256));
            writer.set(&format!("{arch}.rope.dimension_count"), MetadataValue::U32(64));
            set_llama_3_vocabulary(writer);
        });
        let model = model.unwrap();
        sample.assert_same(&model);
        assert_eq!(activation(&model), Activation::Relu2);
        assert_eq!(model.network().head.tied, tied_head);
        assert_eq!(rotary_pairs(&model), RotaryPairs::Halves);
        let info = model.info();
        // The end of a turn has no key, but it is a control token.
        assert_eq!((info.bos, info.eos.as_slice()), (Some(128_000), &[128_001, 128_009][..]));
        let TokenizerSource::Gguf(vocabulary) = model.tokenizer() else { panic!("no vocabulary") };
        assert_eq!(vocabulary.pre.as_deref(), Some("llama-bpe"));
        let decisions = model.format().decisions.join("\n");
        assert!(decisions.contains("pre-tokenizer llama-bpe"), "{decisions}");
        // The file's own template is not what the model was trained with.
        assert!(decisions.contains("chat template of the original checkpoint"), "{decisions}");
        assert!(model.chat_template().unwrap().ends_with("Assistant: {% endif %}"));
    }
}

#[test]
fn other_vocabularies_keep_their_pre_tokenizer() {
    let model = gguf(&Sample::new(), |writer| {
        writer.set("tokenizer.ggml.model", text("gpt2"));
        let tokens = vec!["<|begin_of_text|>".to_owned()];
        writer.set("tokenizer.ggml.tokens", MetadataValue::Strings(tokens));
    });
    let model = model.unwrap();
    let TokenizerSource::Gguf(vocabulary) = model.tokenizer() else { panic!("no vocabulary") };
    assert_eq!(vocabulary.pre, None);
}

#[test]
fn llama_shaped_files_of_bitnet_cpp_open() {
    // Llama3-8B-1.58, Falcon3 and Falcon-E, in this order.
    for pre in ["llama-bpe", "falcon3", "falcon_e"] {
        let sample = llama();
        let model = gguf(&sample, |writer| {
            writer.set("llama.vocab_size", MetadataValue::U32(300));
            writer.set("llama.rope.dimension_count", MetadataValue::U32(64));
            writer.set("tokenizer.ggml.add_space_prefix", MetadataValue::Bool(false));
            writer.set("tokenizer.ggml.model", text("gpt2"));
            writer.set("tokenizer.ggml.pre", text(pre));
            let tokens = (0..300).map(|id| format!("t{id}")).collect();
            writer.set("tokenizer.ggml.tokens", MetadataValue::Strings(tokens));
        });
        let model = model.unwrap();
        assert_eq!((model.network(), model.info()), (&sample.network, &sample.info));
        sample.assert_same(&model);
        let head = model.tensor(TensorName::Output).unwrap().encoding;
        assert_eq!(head, Encoding::Float(FloatEncoding::F16));
    }
}

/// Keys that llama.cpp's converter, and bitnet.cpp's until 2026, write for the 1bitLLM models.
fn set_2024_keys(writer: &mut GgufWriter, arch: &str, factor: f32) {
    writer.set(&format!("{arch}.rope.scaling.type"), text("linear"));
    writer.set(&format!("{arch}.rope.scaling.factor"), MetadataValue::F32(factor));
    writer.set("tokenizer.ggml.model", text("llama"));
    writer.set("tokenizer.ggml.pre", text("default"));
    let tokens = (0..300).map(|id| format!("t{id}")).collect();
    writer.set("tokenizer.ggml.tokens", MetadataValue::Strings(tokens));
    writer.set("tokenizer.ggml.scores", MetadataValue::F32s(vec![0.0; 300]));
}

#[test]
fn the_models_of_2024_open_with_their_scaling_that_changes_nothing() {
    let bitnet = Sample::named("bitnet");
    let model = gguf(&bitnet, |writer| set_2024_keys(writer, "bitnet", 1.0)).unwrap();
    bitnet.assert_same(&model);
    assert_eq!(activation(&model), Activation::Silu);
    let scaling = |model: &ModelFile| {
        model.network().uniform_layer().unwrap().attention().unwrap().rope.unwrap().scaling
    };
    assert_eq!(scaling(&model), RopeScaling::None);
    let stretched = gguf(&bitnet, |writer| set_2024_keys(writer, "bitnet", 2.0)).unwrap();
    assert_eq!(scaling(&stretched), RopeScaling::Linear { factor: 2.0 });
    // bitnet.cpp's converter of 2026 names them like 2B-4T, whose activation is another.
    let renamed = Sample::named("bitnet-b1.58");
    let error = gguf(&renamed, |writer| set_2024_keys(writer, "bitnet-b1.58", 1.0)).unwrap_err();
    assert!(error.contains("name the activation"), "{error}");
    let silu = OpenOptions { activation: Some(Activation::Silu), ..OpenOptions::default() };
    let model = open_gguf(&renamed, &silu, |writer| set_2024_keys(writer, "bitnet-b1.58", 1.0));
    assert_eq!(activation(&model.unwrap()), Activation::Silu);
}

/// A published checkpoint: its `config.json` but for the sizes, and how its weights are stored.
pub(crate) struct Published {
    pub(crate) config: Value,
    pub(crate) network: Network,
    pub(crate) info: ModelInfo,
    pub(crate) weights: Weights,
    pub(crate) spell: fn(TensorName) -> String,
    /// Relation of the stored scale to the factor, if there is one.
    pub(crate) factor: Option<fn(f32) -> f32>,
}

impl Published {
    pub(crate) fn check(&self) {
        let sample = Sample::of(self.network.clone(), self.info.clone());
        let names: Vec<TensorName> = TensorName::all(&sample.network).collect();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.safetensors");
        write_shard(&sample, &names, self.weights, self.spell, &path);
        let mut config = json!({
            "vocab_size": 300, "hidden_size": 256, "intermediate_size": 512,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 128, "rope_theta": 10000.0, "rms_norm_eps": 1e-5,
            "initializer_range": 0.02, "torch_dtype": "bfloat16", "use_cache": true,
        });
        let more = self.config.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(more);
        fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
        let model = open(directory.path());
        assert_eq!((model.network(), model.info()), (&self.network, &self.info));
        for (&name, &stored) in &sample.scales {
            assert!(read_trits(&model, name) == sample.trits[&name], "{name}: trits differ");
            if let Some(factor) = self.factor {
                let scales = model.scales(model.tensor(name).unwrap()).unwrap();
                assert_eq!(scales, Scales::Tensor(factor(stored)), "{name}");
            }
        }
    }
}

/// Model information of a checkpoint without a name.
pub(crate) fn info(class: &str, bos: u32, eos: u32) -> ModelInfo {
    let (bos, eos) = (Some(bos), vec![eos]);
    ModelInfo { architecture: class.to_owned(), name: None, bos, eos, ..Sample::new().info }
}

/// Keys of microsoft/bitnet-b1.58-2B-4T and its `-bf16` twin.
fn config_2b_4t(mode: &str) -> Value {
    json!({
        "architectures": ["BitNetForCausalLM"], "model_type": "bitnet", "hidden_act": "relu2",
        "auto_map": {
            "AutoConfig": "configuration_bitnet.BitNetConfig",
            "AutoModelForCausalLM": "modeling_bitnet.BitNetForCausalLM",
        },
        "bos_token_id": 280, "eos_token_id": 281, "tie_word_embeddings": true,
        "quantization_config": {
            "quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": mode,
        },
    })
}

#[test]
fn packed_and_master_weights_of_2b_4t_open() {
    let (network, info) = (Sample::new().network, info("BitNetForCausalLM", 280, 281));
    let spell = TensorName::hugging_face;
    let (config, weights) = (config_2b_4t("offline"), Weights::Packed(&[1]));
    let factor: Option<fn(f32) -> f32> = Some(|stored| stored);
    let (of_packed, info_of_packed) = (network.clone(), info.clone());
    Published { config, network: of_packed, info: info_of_packed, weights, spell, factor }.check();
    let (config, weights) = (config_2b_4t("online"), Weights::Floats(FloatEncoding::BF16));
    Published { config, network, info, weights, spell, factor: None }.check();
}

#[test]
fn llama_shaped_checkpoints_open_and_divide() {
    let mut network = llama().network;
    network.update_layers(|attention, _| attention.rope = Some(Rope::default()));
    let info = info("LlamaForCausalLM", 280, 281);
    // Llama3-8B-1.58 names no modules; Falcon3 and Falcon-E name the head; a tied one would name all
    // three. transformers writes a scale as [1]; a scalar is the same number.
    let modules =
        [json!(null), json!(["lm_head"]), json!(["lm_head", "model.embed_tokens", "model.norm"])];
    for (skipped, shape) in modules.into_iter().zip([&[1][..], &[1], &[]]) {
        let config = json!({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
            "attention_bias": false, "attention_dropout": 0.0, "mlp_bias": false, "head_dim": 64,
            "is_bitnet_config": true, "pretraining_tp": 1, "rope_interleaved": false,
            "rope_scaling": null, "tie_word_embeddings": false,
            "bos_token_id": 280, "eos_token_id": 281,
            "quantization_config": { "modules_to_not_convert": skipped, "quant_method": "bitnet" },
        });
        let (network, info, weights) = (network.clone(), info.clone(), Weights::Packed(shape));
        let spell = TensorName::hugging_face;
        let factor: Option<fn(f32) -> f32> = Some(|stored| 1.0 / stored);
        Published { config, network, info, weights, spell, factor }.check();
    }
}

#[test]
fn checkpoints_of_2024_open_with_their_own_names() {
    let mut network = Sample::new().network;
    network.update_layers(|_, dense| dense.activation = Activation::Silu);
    let info = info("BitNetForCausalLM", 1, 2);
    let config = json!({
        "architectures": ["BitnetForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "attention_bias": false, "attention_dropout": 0.0, "pretraining_tp": 1,
        "rope_scaling": null, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 32000,
        "tie_word_embeddings": true, "input_bits": 8, "weight_bits": 1,
    });
    let spell = |name: TensorName| match name {
        TensorName::Layer(layer, LayerTensor::AttnSubNorm) => {
            format!("model.layers.{layer}.self_attn.inner_attn_ln.weight")
        }
        TensorName::Layer(layer, LayerTensor::FfnSubNorm) => {
            format!("model.layers.{layer}.mlp.ffn_layernorm.weight")
        }
        other => other.hugging_face(),
    };
    for float in [FloatEncoding::F32, FloatEncoding::F16] {
        let (config, network, info) = (config.clone(), network.clone(), info.clone());
        let weights = Weights::Floats(float);
        Published { config, network, info, weights, spell, factor: None }.check();
    }
}
