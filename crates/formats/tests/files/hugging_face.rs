//! Hugging Face checkpoints: weights, and rejected files.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use wf_formats::encoding::{encode_floats, encode_trits};
use wf_formats::{
    Encoding, FloatEncoding, LayerTensor, Rounding, SafetensorsWriter, Scales, TensorName,
    TernaryEncoding,
};

use crate::support::{Sample, open, open_error, read_trits};

/// The storage of the projections of a checkpoint.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Weights {
    /// Four rows a byte, and a scale of this shape.
    Packed(&'static [usize]),
    Floats(FloatEncoding),
}

const PACKED: Weights = Weights::Packed(&[1]);

/// A checkpoint in a directory of its own.
struct Checkpoint {
    directory: tempfile::TempDir,
    sample: Sample,
}

fn config(sample: &Sample) -> Value {
    json!({
        "architectures": ["BitNetForCausalLM"], "model_type": "bitnet", "hidden_act": "relu2",
        "vocab_size": 300, "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": sample.network.layers.len(), "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 128, "rope_theta": 10000.0,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": true,
        "quantization_config": {
            "quant_method": "bitnet", "linear_class": "autobitlinear",
            "quantization_mode": "offline",
        },
    })
}

impl Checkpoint {
    fn new(weights: Weights, change: impl FnOnce(&mut Value)) -> Self {
        let sample = Sample::new();
        let directory = tempfile::tempdir().unwrap();
        let names: Vec<TensorName> = TensorName::all(&sample.network).collect();
        let path = directory.path().join("model.safetensors");
        write_shard(&sample, &names, weights, TensorName::hugging_face, &path);
        let mut settings = config(&sample);
        change(&mut settings);
        fs::write(directory.path().join("config.json"), settings.to_string()).unwrap();
        Self { directory, sample }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn open_error(&self) -> String {
        open_error(self.path())
    }
}

/// Writes tensors under the names that `spell` gives them.
pub(crate) fn write_shard(
    sample: &Sample,
    names: &[TensorName],
    weights: Weights,
    spell: fn(TensorName) -> String,
    path: &Path,
) {
    let mut writer = SafetensorsWriter::new();
    let mut data = Vec::new();
    for &name in names {
        let (rows, cols) = name.shape(&sample.network).unwrap();
        let hf = spell(name);
        match (name.is_linear(), weights) {
            (true, Weights::Packed(scale_shape)) => {
                writer.declare_bytes(&hf, &[rows / 4, cols]).unwrap();
                let scale = Scales::Tensor(1.0);
                let trits = &sample.trits[&name];
                let packed = TernaryEncoding::HF_PACKED;
                data.extend(
                    encode_trits(packed, trits, rows, cols, &scale, Rounding::Exact).unwrap(),
                );
                writer.declare(&format!("{hf}_scale"), scale_shape, FloatEncoding::BF16).unwrap();
                data.extend(encode_floats(FloatEncoding::BF16, &[sample.scales[&name]]).unwrap());
            }
            (true, Weights::Floats(float)) => {
                writer.declare(&hf, &[rows, cols], float).unwrap();
                data.extend(sample.tensor_bytes(name, Encoding::Float(float)));
            }
            (false, _) => {
                let shape = if name.is_norm() { vec![cols] } else { vec![rows, cols] };
                writer.declare(&hf, &shape, FloatEncoding::BF16).unwrap();
                data.extend(sample.tensor_bytes(name, Encoding::Float(FloatEncoding::BF16)));
            }
        }
    }
    let mut body = writer.begin(Vec::new()).unwrap();
    body.append(&data).unwrap();
    fs::write(path, body.finish().unwrap()).unwrap();
}

#[test]
fn autobitlinear_multiplies_and_bitlinear_divides() {
    let checkpoint = Checkpoint::new(PACKED, |_| {});
    checkpoint.sample.assert_same(&open(checkpoint.path()));
    let old =
        |config: &mut Value| config["quantization_config"] = json!({"quant_method": "bitnet"});
    let checkpoint = Checkpoint::new(PACKED, old);
    let model = open(checkpoint.path());
    for (name, scale) in &checkpoint.sample.scales {
        let found = model.scales(model.tensor(*name).unwrap()).unwrap();
        assert_eq!(found, Scales::Tensor(1.0 / scale));
        assert!(read_trits(&model, *name) == checkpoint.sample.trits[name]);
    }
    assert!(model.format().decisions.iter().any(|why| why.contains("divides")));
}

#[test]
fn floats_without_a_quantization_are_trits_by_tensor_row_or_group_or_rejected() {
    let plain = |config: &mut Value| config["quantization_config"] = Value::Null;
    let checkpoint = Checkpoint::new(Weights::Floats(FloatEncoding::BF16), plain);
    let model = open(checkpoint.path());
    checkpoint.sample.assert_same(&model);
    assert!(model.format().decisions.iter().any(|why| why.contains("exactly ternary")));
    // The embedding of the sample is not ternary, so it stays a table of floats.
    let embedding = model.tensor(TensorName::Embedding).unwrap();
    assert_eq!(embedding.encoding, Encoding::Float(FloatEncoding::BF16));
    let name = TensorName::Layer(1, LayerTensor::Gate);
    let gate = model.tensor(name).unwrap();
    let file = checkpoint.path().join("model.safetensors");
    let bytes = fs::read(&file).unwrap();
    // Every second group of `len` columns becomes zeros but for its first weight, which becomes 3.
    let changed = |len: usize| {
        let mut bytes = bytes.clone();
        let weights = &mut bytes[gate.offset as usize..][..gate.size as usize];
        for group in weights.chunks_mut(2 * len).skip(1).step_by(2) {
            group.fill(0);
            group[..2].copy_from_slice(&0x4040_u16.to_le_bytes());
        }
        fs::write(&file, bytes).unwrap();
    };
    for len in [64, 128, gate.cols] {
        changed(len);
        let model = open(checkpoint.path());
        let gate = model.tensor(name).unwrap();
        let scales = model.scales(gate).unwrap();
        let per_row = gate.cols / len;
        let expected = |row: usize, group: usize| {
            if (row * per_row + group) % 2 == 1 { 3.0 } else { checkpoint.sample.scales[&name] }
        };
        for (row, group) in (0..gate.rows).flat_map(|row| (0..per_row).map(move |g| (row, g))) {
            assert_eq!(scales.at(row, group * len, gate.cols), expected(row, group), "{len}");
        }
        let trits = read_trits(&model, name);
        let original = &checkpoint.sample.trits[&name];
        for (at, (found, original)) in trits.iter().zip(original).enumerate() {
            let group = at / len;
            let expected = if group % 2 == 0 { *original } else { i8::from(at % len == 0) };
            assert_eq!(*found, expected, "trit {at} in groups of {len}");
        }
    }
    changed(32);
    let message = checkpoint.open_error();
    for part in ["gate_proj", "row 0 has several magnitudes", "quantization_config is missing"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn master_weights_are_rounded_by_their_mean() {
    let online = |config: &mut Value| {
        config["quantization_config"]["quantization_mode"] = json!("online");
    };
    for float in [FloatEncoding::F32, FloatEncoding::BF16] {
        let checkpoint = Checkpoint::new(Weights::Floats(float), online);
        let model = open(checkpoint.path());
        for (name, scale) in &checkpoint.sample.scales {
            // Weights are ±scale or 0, so they are their own trits; their mean is scale · share.
            let trits = &checkpoint.sample.trits[name];
            assert!(read_trits(&model, *name) == *trits);
            let share = trits.iter().filter(|&&trit| trit != 0).count() as f64 / trits.len() as f64;
            let mean = (f64::from(*scale) * share) as f32;
            let Scales::Tensor(found) = model.scales(model.tensor(*name).unwrap()).unwrap() else {
                panic!("one scale a tensor")
            };
            assert!((found - mean).abs() <= mean * 1e-6, "{name}: {found} {mean}");
        }
    }
}

#[test]
fn models_of_2024_are_recognized_by_weight_bits() {
    let old = |config: &mut Value| {
        config.as_object_mut().unwrap().remove("quantization_config");
        config["weight_bits"] = json!(1);
        config["input_bits"] = json!(8);
    };
    let checkpoint = Checkpoint::new(Weights::Floats(FloatEncoding::F16), old);
    open(checkpoint.path());
}

#[test]
fn shards_form_one_model() {
    let checkpoint = Checkpoint::new(PACKED, |_| {});
    let path = checkpoint.path();
    fs::remove_file(path.join("model.safetensors")).unwrap();
    let names: Vec<TensorName> = TensorName::all(&checkpoint.sample.network).collect();
    let (first, second) = names.split_at(9);
    let mut map = serde_json::Map::new();
    for (shard, names) in [("a.safetensors", first), ("b.safetensors", second)] {
        let spell = TensorName::hugging_face;
        write_shard(&checkpoint.sample, names, PACKED, spell, &path.join(shard));
        map.extend(names.iter().map(|name| (name.hugging_face(), json!(shard))));
    }
    let index = path.join("model.safetensors.index.json");
    fs::write(&index, json!({"metadata": {}, "weight_map": map}).to_string()).unwrap();
    let model = open(path);
    checkpoint.sample.assert_same(&model);
    assert_eq!(model.format().files.len(), 2);
    for name in ["../a.safetensors", "/etc/passwd", "a.bin"] {
        fs::write(&index, json!({"weight_map": {"x": name}}).to_string()).unwrap();
        let message = open_error(path);
        assert!(message.contains("is not the name of a safetensors file"), "{message}");
    }
    fs::write(&index, json!({"weight_map": {"x": "a.safetensors"}}).to_string()).unwrap();
    assert!(open_error(path).contains("is missing"));
}

#[test]
fn rejects_unsupported_settings() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 17] = [
        (|c| c["rope_interleaved"] = json!(true), "rope_interleaved"),
        (|c| c["attention_bias"] = json!(true), "attention_bias"),
        (
            |c| c["rope_scaling"] = json!({"rope_type": "llama3", "factor": 8.0}),
            "rope_scaling.low_freq_factor: missing",
        ),
        (
            |c| c["architectures"] = json!(["Qwen3_5MoeForCausalLM"]),
            "beside experts are not supported",
        ),
        (|c| c["hidden_act"] = json!("gelu"), "hidden_act: \"gelu\""),
        (|c| c["tie_word_embeddings"] = json!(false), "lm_head.weight"),
        (|c| c["num_hidden_layers"] = json!(3), "\"model.layers.2.input_layernorm.weight\""),
        (|c| c["num_hidden_layers"] = json!(1_u64 << 31), "must be between 1 and 16384"),
        (|c| c["hidden_size"] = json!(512), "has shape 300 x 256, the network requires 300 x 512"),
        (
            |c| c["hidden_size"] = json!("256"),
            "hidden_size: found \"256\", must be a non-negative integer",
        ),
        (|c| c["num_attention_heads"] = json!(0), "num_attention_heads"),
        (
            |c| c["eos_token_id"] = json!([2, 300]),
            "eos token: 300, must be below the vocabulary size 300",
        ),
        (|c| c["quantization_config"]["use_rms_norm"] = json!(true), "use_rms_norm"),
        (|c| c["quantization_config"]["quant_method"] = json!("gptq"), "quant_method: \"gptq\""),
        (
            |c| c["quantization_config"] = Value::Null,
            "transformers runs the weights as plain floats",
        ),
        (|c| c["quantization_config"]["modules_to_not_convert"] = json!(["q_proj"]), "q_proj"),
        (|c| c["architectures"] = json!(["Qwen2ForCausalLM"]), "Qwen2ForCausalLM"),
    ];
    for (change, expected) in cases {
        let message = Checkpoint::new(PACKED, change).open_error();
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let llama = |c: &mut Value| {
        c["architectures"] = json!(["LlamaForCausalLM"]);
        c["quantization_config"] = Value::Null;
    };
    assert!(Checkpoint::new(PACKED, llama).open_error().contains("not a ternary model"));
}

#[test]
fn rejects_weights_that_do_not_match_their_scheme() {
    let online = |config: &mut Value| {
        config["quantization_config"]["quantization_mode"] = json!("online");
    };
    assert!(Checkpoint::new(PACKED, online).open_error().contains("U8"));
    let floats = Checkpoint::new(Weights::Floats(FloatEncoding::F32), |_| {});
    assert!(floats.open_error().contains("_scale\""));
}

#[test]
fn block_diffusion_is_read_from_every_place() {
    let block = |checkpoint: &Checkpoint| open(checkpoint.path()).info().block_diffusion;
    let plain = Checkpoint::new(PACKED, |_| {});
    assert!(block(&plain).is_none());
    let own = Checkpoint::new(PACKED, |config| {
        config["block_diffusion"] =
            json!({"mask_token_id": 9, "block_size": 16, "context": "block"});
    });
    let found = block(&own).unwrap();
    assert_eq!((found.mask_token, found.block_len, found.sub_block_len), (9, 16, None));
    assert!(found.token_shift && !found.causal_context);
    let fast = Checkpoint::new(PACKED, |config| config["bd_size"] = json!(32));
    assert!(fast.open_error().contains("mask_token_id"));
    fs::write(fast.path().join("dlm_config.json"), r#"{"mask_token_id": 0}"#).unwrap();
    assert_eq!(block(&fast).unwrap().mask_token, 0);
    let tokenizer = r#"{"added_tokens": [{"id": 7, "content": "|<MASK>|"}]}"#;
    fs::write(fast.path().join("tokenizer.json"), tokenizer).unwrap();
    // The tokenizer takes precedence: some trainers always write 0.
    let found = block(&fast).unwrap();
    assert_eq!((found.mask_token, found.block_len), (7, 32));
    let outside = Checkpoint::new(PACKED, |config| {
        config["block_diffusion"] = json!({"mask_token_id": 300, "block_size": 16});
    });
    assert!(outside.open_error().contains("mask token: 300"));
}

#[test]
fn a_template_file_overrides_the_tokenizer_config() {
    let checkpoint = Checkpoint::new(PACKED, |_| {});
    let settings = r#"{"chat_template": "old", "bos_token": "<s>", "eos_token": null}"#;
    fs::write(checkpoint.path().join("tokenizer_config.json"), settings).unwrap();
    let model = open(checkpoint.path());
    assert_eq!(model.chat_template(), Some("old"));
    assert_eq!(model.special_token_texts().bos.as_deref(), Some("<s>"));
    assert_eq!(model.special_token_texts().eos, None);
    fs::write(checkpoint.path().join("chat_template.jinja"), "new").unwrap();
    assert_eq!(open(checkpoint.path()).chat_template(), Some("new"));
}

/// A safetensors file with this header and this many bytes of data.
fn raw_safetensors(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn rejects_invalid_safetensors() {
    let entry = |name: &str, shape: &str, begin: u64, end: u64| {
        format!(r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
    };
    let file =
        |entries: &[String], data| raw_safetensors(&format!("{{{}}}", entries.join(",")), data);
    let (a, b) = (entry("a", "[2]", 0, 8), entry("b", "[2]", 8, 16));
    let cases = [
        (file(&[a.clone(), a.clone()], 8), "\"a\" appears twice"),
        (file(&[a.clone(), entry("b", "[2]", 4, 12)], 12), "overlaps another tensor"),
        (file(&[a.clone(), entry("b", "[2]", 12, 20)], 20), "there is a gap before it"),
        (file(&[a.clone(), b.clone()], 12), "end past the file"),
        (file(&[a.clone(), b], 20), "4 bytes after the last tensor"),
        (file(&[entry("a", "[3]", 0, 8)], 8), "takes 12"),
        (file(&[entry("a", "[2]", 8, 0)], 8), "are invalid"),
        (file(&[entry("a", "[4294967296,4294967296]", 0, 8)], 8), "more than any file"),
        (file(&[entry("a", "[1,1,1,1,2]", 0, 8)], 8), "more than 4 dimensions"),
        (raw_safetensors("[]", 0), "header"),
        ((u64::MAX).to_le_bytes().to_vec(), "at most 16777216 allowed"),
        (100u64.to_le_bytes().to_vec(), "needs 100 bytes, 0 remain"),
        (vec![1, 2, 3], "needs 8 bytes, 3 remain"),
    ];
    let checkpoint = Checkpoint::new(PACKED, |_| {});
    for (bytes, expected) in cases {
        fs::write(checkpoint.path().join("model.safetensors"), &bytes).unwrap();
        let message = checkpoint.open_error();
        assert!(message.contains(expected), "{expected}: {message}");
        // The safetensors library accepts every file that is accepted here.
    }
    fs::write(checkpoint.path().join("model.safetensors"), file(&[a], 8)).unwrap();
    assert!(checkpoint.open_error().contains("model.embed_tokens.weight"));
}

#[test]
fn the_safetensors_library_reads_written_files() {
    let checkpoint = Checkpoint::new(PACKED, |_| {});
    let bytes = fs::read(checkpoint.path().join("model.safetensors")).unwrap();
    let theirs = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let model = open(checkpoint.path());
    for info in model.tensors() {
        let tensor = theirs.tensor(&info.source_name).unwrap();
        assert!(tensor.data() == model.bytes(info), "{}", info.name);
    }
}

#[test]
fn rejects_unknown_tensors_of_layers_and_lists_others() {
    let checkpoint = Checkpoint::new(PACKED, |_| {});
    let sample = &checkpoint.sample;
    let path = checkpoint.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let with = |name: &str| {
        let header: Value = serde_json::from_slice(&bytes[8..8 + header_len]).unwrap();
        let mut header = header.as_object().unwrap().clone();
        let end = bytes.len() - 8 - header_len;
        let entry = json!({"dtype": "F32", "shape": [1], "data_offsets": [end, end + 4]});
        header.insert(name.to_owned(), entry);
        let header = serde_json::to_string(&header).unwrap();
        let mut changed = (header.len() as u64).to_le_bytes().to_vec();
        changed.extend(header.as_bytes());
        changed.extend(&bytes[8 + header_len..]);
        changed.extend([0; 4]);
        fs::write(&path, changed).unwrap();
    };
    with("model.layers.0.self_attn.q_norm.weight");
    assert!(checkpoint.open_error().contains("q_norm"));
    with("model.layers.0.self_attn.q_proj.bias");
    assert!(checkpoint.open_error().contains("q_proj.bias"));
    with("vision.weight");
    let model = open(checkpoint.path());
    assert_eq!(model.extra_tensors(), ["vision.weight"]);
    sample.assert_same(&model);
    let missing = TensorName::Layer(9, LayerTensor::Query);
    assert!(model.tensor(missing).is_none());
}
