//! Recipes of families with keys of their own, and keys that do not fit.

use std::path::Path;

use serde_json::{Value, json};
use wf_core::{Network, RopeScaling};
use wf_formats::{ModelFile, OpenOptions};

use crate::patched::{data, open, rejected, rename, set};

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
fn config(path: &str, change: impl FnOnce(&mut Value)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut config: Value = serde_json::from_slice(&data(path)).unwrap();
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
    let rope = network.layers[0].attention().rope.unwrap();
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
