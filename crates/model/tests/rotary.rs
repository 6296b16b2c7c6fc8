//! Rotary scaling from `config.json` and GGUF, against the frequencies of `transformers`
//! (`tools/golden/rotary.py`).

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use wf_formats::{
    Container, FloatEncoding, ModelFile, OpenOptions, Rounding, SafetensorsWriter, Target,
    TernaryEncoding,
};
use wf_kernels::RotaryTable;
use wf_model::Frequencies;

#[derive(Deserialize)]
struct Golden {
    head_dim: usize,
    theta: f64,
    context: usize,
    records: Vec<Record>,
}

/// One pass of a length.
#[derive(Deserialize)]
struct Record {
    scaling: Value,
    length: usize,
    factor: f64,
    /// Bits of the frequencies.
    frequencies: Vec<u32>,
    angles: Vec<Angles>,
}

/// Every seventh cosine and sine at a position.
#[derive(Deserialize)]
struct Angles {
    position: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../../../tests/data/rotary.json")).unwrap()
}

const VOCAB: usize = 8;

/// Writes a checkpoint of one layer and one head, whose weights are all ones.
fn write_checkpoint(directory: &Path, head_dim: usize, config: &Value) {
    let mut writer = SafetensorsWriter::new();
    let mut floats = 0;
    let mut declare = |name: &str, shape: &[usize]| {
        writer.declare(name, shape, FloatEncoding::F32).unwrap();
        floats += shape.iter().product::<usize>();
    };
    declare("model.embed_tokens.weight", &[VOCAB, head_dim]);
    declare("model.norm.weight", &[head_dim]);
    for norm in ["input_layernorm", "post_attention_layernorm"] {
        declare(&format!("model.layers.0.{norm}.weight"), &[head_dim]);
    }
    for projection in ["self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o"] {
        declare(&format!("model.layers.0.{projection}_proj.weight"), &[head_dim, head_dim]);
    }
    for projection in ["mlp.gate", "mlp.up", "mlp.down"] {
        declare(&format!("model.layers.0.{projection}_proj.weight"), &[head_dim, head_dim]);
    }
    let mut body = writer.begin(Vec::new()).unwrap();
    body.append(&1.0_f32.to_le_bytes().repeat(floats)).unwrap();
    fs::write(directory.join("model.safetensors"), body.finish().unwrap()).unwrap();
    fs::write(directory.join("config.json"), config.to_string()).unwrap();
}

fn config(golden: &Golden) -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "vocab_size": VOCAB,
        "hidden_size": golden.head_dim, "intermediate_size": golden.head_dim,
        "num_hidden_layers": 1, "num_attention_heads": 1, "rms_norm_eps": 1e-6,
        "max_position_embeddings": golden.context, "tie_word_embeddings": true,
    })
}

fn open(path: &Path) -> ModelFile {
    ModelFile::open(path, &OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn frequencies(file: &ModelFile, length: usize) -> Frequencies {
    let attention = *file.network().layers[0].attention().unwrap();
    let divisors = &file.network().rope_divisors;
    Frequencies::new(&attention.rope.unwrap(), divisors, attention.head_dim, length)
}

fn check(record: &Record, found: &Frequencies) {
    let context = format!("{} at length {}", record.scaling, record.length);
    assert!((f64::from(found.factor) - record.factor).abs() < 1e-6, "{context}: factor");
    for (found, bits) in found.values.iter().zip(&record.frequencies) {
        let expected = f32::from_bits(*bits);
        assert!((found / expected - 1.0).abs() < 3e-7, "{context}: {found}, expected {expected}");
    }
    assert_eq!(found.values.len(), record.frequencies.len());
    let table = RotaryTable::new(&found.values, found.factor, record.length);
    for Angles { position, cos, sin } in &record.angles {
        let ours = table.cos(*position).iter().zip(table.sin(*position)).step_by(7);
        let frequencies = found.values.iter().step_by(7);
        for ((ours, frequency), (cos, sin)) in ours.zip(frequencies).zip(cos.iter().zip(sin)) {
            // The last bit of a frequency, times the position.
            let bound = 1e-6 + *position as f32 * frequency * 3e-7;
            let difference = (ours.0 - cos).abs().max((ours.1 - sin).abs());
            assert!(difference < bound, "{context}, position {position}: {difference} of {bound}");
        }
    }
}

#[test]
fn frequencies_are_those_of_transformers_from_every_kind_of_file() {
    let golden = golden();
    for record in &golden.records {
        let folder = tempfile::tempdir().unwrap();
        let styles: [fn(&mut Value, &Value, f64); 2] = [
            // transformers 5
            |config, scaling, theta| {
                config["rope_parameters"] = scaling.clone();
                config["rope_parameters"]["rope_theta"] = json!(theta);
            },
            // transformers 4
            |config, scaling, theta| {
                config["rope_scaling"] = scaling.clone();
                config["rope_theta"] = json!(theta);
            },
        ];
        for style in styles {
            let mut config = config(&golden);
            style(&mut config, &record.scaling, golden.theta);
            write_checkpoint(folder.path(), golden.head_dim, &config);
            let source = open(folder.path());
            let expected = frequencies(&source, record.length);
            check(record, &expected);
            for container in [Container::Gguf(TernaryEncoding::Q2_0), Container::Wf] {
                let copy = folder.path().join("copy");
                let mut target = Target::new(container, FloatEncoding::F32);
                target.rounding = Rounding::Exact;
                // Indices of YaRN are whole in GGUF, so what truncates nothing cannot be written.
                let written = target.write(&source, &copy);
                if record.scaling["truncate"] == json!(false) && container != Container::Wf {
                    assert!(written.unwrap_err().to_string().contains("truncate"));
                    continue;
                }
                written.unwrap();
                let found = frequencies(&open(&copy), record.length);
                assert_eq!(found, expected, "{} in {container:?}", record.scaling);
            }
        }
    }
}

#[test]
fn scalings_that_cannot_be_computed_are_errors_that_name_the_key() {
    let golden = golden();
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        (
            json!({"rope_type": "spiral"}),
            "rope_scaling.rope_type: \"spiral\", must be one of default",
        ),
        (json!({"rope_type": "linear"}), "rope_scaling.factor: missing"),
        (json!({"rope_type": "linear", "factor": 0.0}), "rotary factor: 0, must be a positive"),
        (json!({"rope_type": "linear", "factor": -2.0}), "rotary factor: -2, must be a positive"),
        (json!({"rope_type": "yarn", "factor": 2.0, "beta_fast": 1.0, "beta_slow": 3.0}), "betas"),
        (
            json!({"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}),
            "rotary divisors: 1 short ones, must be 32: one per pair",
        ),
        (json!({"rope_type": "longrope", "short_factor": [1.0]}), "long_factor: missing"),
        (
            json!({"rope_type": "longrope", "short_factor": "x", "long_factor": []}),
            "must be a list of numbers",
        ),
        (
            json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0}),
            "rotary frequency factors: 4 and 4",
        ),
    ];
    for (scaling, expected) in cases {
        let mut config = config(&golden);
        config["rope_scaling"] = scaling;
        write_checkpoint(folder.path(), golden.head_dim, &config);
        let error = ModelFile::open(folder.path(), &OpenOptions::default()).err().unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
