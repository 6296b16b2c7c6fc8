//! Multi-token prediction heads in files: read whole, left out with a reason, or rejected.

use std::path::Path;

use serde_json::json;
use wf_formats::encoding::encode_floats;
use wf_formats::{
    FloatEncoding, LayerTensor, ModelFile, OpenOptions, SafetensorsWriter, TensorName,
};

use crate::patched::{after, data, open, rejected, rename, set};

const FILE: &str = "qwen35/mtp.gguf";

#[track_caller]
fn left_out(file: &ModelFile, why: &str) {
    assert!(file.network().mtp.is_none(), "{why}");
    assert_eq!(file.network().layers.len(), 2);
    let notes = file.format().decisions.join("; ");
    let expected = format!("the multi-token prediction head is not used: {why}");
    assert!(notes.contains(&expected), "{notes}\nmust contain {expected}");
    assert!(file.extra_tensors().len() >= 10, "{:?}", file.extra_tensors());
}

#[test]
fn a_head_is_a_layer_behind_the_others() {
    let file = open(&data(FILE)).unwrap();
    let (network, notes) = (file.network(), file.format().decisions.join("; "));
    assert_eq!(network.mtp.unwrap().layer, network.layers[1]);
    assert_eq!(network.layers.len(), 2);
    assert!(!notes.contains("prediction head"), "{notes}");
    let of_head = TensorName::all(network).filter(|name| name.layer() == Some(2));
    assert_eq!(of_head.count(), 15);
}

#[test]
fn a_head_that_cannot_run_is_left_out_with_the_reason() {
    for part in ["eh_proj", "enorm", "hnorm", "shared_head_norm"] {
        let mut bytes = data(FILE);
        let name = format!("blk.2.nextn.{part}.weight");
        rename(&mut bytes, &name, &format!("blk.2.nextx.{part}.weight"));
        left_out(&open(&bytes).unwrap(), &format!("{name} is missing"));
    }
    let mut bytes = data(FILE);
    set(&mut bytes, "qwen35.nextn_predict_layers", &0_u32.to_le_bytes());
    rejected(&bytes, "is not part of this network");
    set(&mut bytes, "qwen35.nextn_predict_layers", &3_u32.to_le_bytes());
    rejected(&bytes, "nextn_predict_layers: 3, must be less than the number of layers");
}

#[test]
fn a_head_of_other_shapes_is_rejected() {
    let dims = |name: &str, at: usize, len: u64, expected: &str| {
        let mut bytes = data(FILE);
        let at = after(&bytes, name) + 4 + 8 * at;
        bytes[at..at + 8].copy_from_slice(&len.to_le_bytes());
        rejected(&bytes, expected);
    };
    for part in ["enorm", "hnorm", "shared_head_norm"] {
        let name = format!("blk.2.nextn.{part}.weight");
        dims(&name, 0, 64, "has shape 1 x 64, the network requires 1 x 128");
    }
    let norm = "has shape 1 x 32, the network requires 1 x 64";
    dims("blk.2.attn_k_norm.weight", 0, 32, norm);
    let mut bytes = data("qwen35/mtp-float.gguf");
    let at = after(&bytes, "blk.2.nextn.eh_proj.weight") + 4;
    bytes[at..at + 8].copy_from_slice(&128_u64.to_le_bytes());
    rejected(&bytes, "has shape 128 x 128, the network requires 128 x 256");
    let mut bytes = data(FILE);
    rename(&mut bytes, "blk.2.ffn_up.weight", "blk.2.ffn_ux.weight");
    rejected(&bytes, "(\"blk.2.ffn_up.weight\" in GGUF) is missing from a model of 2 layers");
}

/// Writes the tensors of the file as a checkpoint, those of the head under `mtp.`. `values` may change them.
fn checkpoint(folder: &Path, layers: usize, change: impl Fn(TensorName, &mut [f32])) {
    let file = open(&data(FILE)).unwrap();
    let named = |name: TensorName| match name {
        TensorName::Layer(2, tensor) => {
            let part = TensorName::Layer(2, tensor).hugging_face();
            let part = part.replace("model.layers.2.", "");
            if part.starts_with("mtp.") { part } else { format!("mtp.layers.0.{part}") }
        }
        name => name.hugging_face(),
    };
    let mut writer = SafetensorsWriter::new();
    let all: Vec<TensorName> = TensorName::all(file.network()).collect();
    for &name in &all {
        let info = file.tensor(name).unwrap();
        let shape = match name {
            TensorName::Layer(_, LayerTensor::DeltaConv) => vec![info.rows, 1, info.cols],
            name if name.is_vector() => vec![info.cols],
            _ => vec![info.rows, info.cols],
        };
        writer.declare(&named(name), &shape, FloatEncoding::F32).unwrap();
    }
    let weights = std::fs::File::create(folder.join("model.safetensors")).unwrap();
    let mut body = writer.begin(weights).unwrap();
    for name in all {
        let info = file.tensor(name).unwrap();
        let data = file.read(info).unwrap();
        let mut values = vec![0.0; info.rows * info.cols];
        match info.encoding.is_ternary() {
            true => data.weights(&data.scales().unwrap(), 0..info.rows, &mut values).unwrap(),
            false => data.floats(0..info.rows, &mut values).unwrap(),
        }
        change(name, &mut values);
        body.append(&encode_floats(FloatEncoding::F32, &values).unwrap()).unwrap();
    }
    body.finish().unwrap();
    let config = json!({
        "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "hidden_act": "silu", "vocab_size": 259,
        "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 1024, "rope_theta": 1e7,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": false, "layer_types": ["linear_attention", "full_attention"],
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 32,
        "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "mtp_num_hidden_layers": layers,
    });
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
}

#[test]
fn a_checkpoint_has_the_head_under_a_name_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let read = || ModelFile::open(folder.path(), &OpenOptions::default()).unwrap();
    checkpoint(folder.path(), 1, |_, _| {});
    let (file, gguf) = (read(), open(&data(FILE)).unwrap());
    assert_eq!(file.network().mtp, gguf.network().mtp);
    assert!(file.extra_tensors().is_empty());
    let norm = TensorName::Layer(2, LayerTensor::MtpNorm);
    let mut values = [vec![0.0; 128], vec![0.0; 128]];
    for (file, values) in [&file, &gguf].into_iter().zip(&mut values) {
        file.floats(file.tensor(norm).unwrap(), 0..1, values).unwrap();
    }
    let [of_checkpoint, of_gguf] = values;
    assert_eq!(of_checkpoint, of_gguf.iter().map(|v| v + 1.0).collect::<Vec<_>>(), "norms add 1");

    checkpoint(folder.path(), 2, |_, _| {});
    left_out(&read(), "it has 2 layers, one is supported");
    let up = TensorName::Layer(2, LayerTensor::Up);
    checkpoint(folder.path(), 1, |name, values| {
        if name == up {
            (values[0], values[1]) = (0.125, 0.5);
        }
    });
    left_out(&read(), "mtp.layers.0.mlp.up_proj.weight is F32, which is not ternary");
    // The input projection may be of floats.
    checkpoint(folder.path(), 1, |name, values| {
        if name == TensorName::Layer(2, LayerTensor::MtpInput) {
            (values[0], values[1]) = (0.125, 0.5);
        }
    });
    assert!(read().network().mtp.is_some());
}
