//! An SGLBITNT model, written byte by byte so that every field can be marked.

use serde_json::json;
use wf_formats::encoding::TernaryEncoding;

use crate::sample::{self, HEADS, HIDDEN, Kind, Sample, SampleFile, VOCAB};

/// The `config.json` of the sample network.
pub(crate) fn config() -> serde_json::Value {
    json!({
        "architectures": ["BitNetForCausalLM"],
        "model_type": "bitnet",
        "hidden_act": "relu2",
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": HIDDEN,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": 1,
        "max_position_embeddings": 128,
        "rope_theta": 500_000.0,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": true,
        "bos_token_id": 0,
        "eos_token_id": [1, 2],
        "quantization_config": {
            "quant_method": "bitnet",
            "linear_class": "autobitlinear",
            "quantization_mode": "offline",
        },
    })
}

pub(crate) fn model() -> Sample {
    let mut file = SampleFile::new("model.bin");
    let config = config().to_string();
    let tensors = sample::network();
    file.bytes.extend(b"SGLBITNT");
    file.put(Kind::Type, &1_u32.to_le_bytes());
    file.put(Kind::Length, &(config.len() as u32).to_le_bytes());
    file.put(Kind::Text, config.as_bytes());
    file.put(Kind::Count, &(tensors.len() as u32).to_le_bytes());
    file.header_len = file.bytes.len();
    for (name, rows, cols) in tensors {
        let name_text = name.hugging_face();
        file.put(Kind::Length, &(name_text.len() as u32).to_le_bytes());
        file.put(Kind::Name, name_text.as_bytes());
        let (bytes, dtype, dims) = if name.is_linear() {
            (sample::ternary(TernaryEncoding::SGL_PACKED, rows, cols), 0_u32, vec![rows, cols / 4])
        } else if rows == 1 {
            (sample::floats(cols), 1, vec![cols])
        } else {
            (sample::floats(rows * cols), 1, vec![rows, cols])
        };
        file.put(Kind::Type, &dtype.to_le_bytes());
        file.put(Kind::DimCount, &(dims.len() as u32).to_le_bytes());
        for dim in dims {
            file.put(Kind::Dim, &(dim as u32).to_le_bytes());
        }
        file.put(Kind::Type, &u32::from(name.is_linear()).to_le_bytes());
        if name.is_linear() {
            file.bytes.extend(&1.5_f32.to_le_bytes()[..2]);
            file.put(Kind::Float, &1.5_f32.to_le_bytes()[2..]);
        }
        file.put(Kind::Length, &(bytes.bytes.len() as u64).to_le_bytes());
        file.put_data(&bytes);
    }
    Sample { files: vec![file], open: Some("model.bin") }
}
