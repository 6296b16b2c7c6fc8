//! Any model → a packed Hugging Face checkpoint, as `transformers` loads it.

use std::fs;
use std::path::Path;

use super::config_json::config_json;
use super::file::{write_bytes, write_whole};
use super::tokenizer::write_tokenizer_files;
use super::{Target, dims, one_scale, tensor};
use crate::config::RotaryPairs;
use crate::encoding::{FloatEncoding, Rounding, TernaryEncoding, encode_floats};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::safetensors::write::SafetensorsWriter;
use crate::tensor::TensorInfo;

/// Writes `model.safetensors`, `config.json` and the tokenizer files into a directory, which is made if
/// it is not there.
pub fn write_packed_dir(
    source: &ModelFile,
    head: FloatEncoding,
    directory: &Path,
) -> Result<(), Error> {
    fs::create_dir_all(directory).map_err(|e| Error::io(directory, e))?;
    write_weights(source, head, &directory.join("model.safetensors"))?;
    write_bytes(&directory.join("config.json"), config_json(source.config()).as_bytes())?;
    write_tokenizer_files(source, directory)
}

fn write_weights(source: &ModelFile, head: FloatEncoding, out: &Path) -> Result<(), Error> {
    let io = |e| Error::io(out, e);
    let names: Vec<_> = source.config().tensor_names().collect();
    let mut writer = SafetensorsWriter::new();
    for &name in &names {
        let info = tensor(source, name);
        let hf_name = name.hugging_face();
        if name.is_linear() {
            writer.declare_bytes(&hf_name, &[info.rows / 4, info.cols]).map_err(io)?;
            let float = scale_encoding(one_scale(source, info)?);
            writer.declare(&format!("{hf_name}_scale"), &[1], float).map_err(io)?;
        } else {
            writer.declare(&hf_name, &dims(info), float_encoding(info, head)).map_err(io)?;
        }
    }
    let target = Target {
        trits: TernaryEncoding::HfPacked,
        rounding: Rounding::Exact,
        pairs: RotaryPairs::Halves,
    };
    write_whole(out, |file| {
        let mut body = writer.begin(file).map_err(io)?;
        for name in names {
            let info = tensor(source, name);
            let float = float_encoding(info, head);
            target.copy(source, info, float, |bytes| body.append(bytes).map_err(io))?;
            if name.is_linear() {
                let scale = one_scale(source, info)?;
                let bytes = encode_floats(scale_encoding(scale), &[scale])
                    .map_err(|e| source.fault(info, e))?;
                body.append(&bytes).map_err(io)?;
            }
        }
        body.finish().map(drop).map_err(io)
    })
}

/// bf16 as published checkpoints have it, where that loses nothing.
fn scale_encoding(scale: f32) -> FloatEncoding {
    if scale.to_bits() & 0xffff == 0 { FloatEncoding::Bf16 } else { FloatEncoding::F32 }
}

/// The embedding and head get the encoding asked for; norms keep theirs, because they are small.
fn float_encoding(info: &TensorInfo, head: FloatEncoding) -> FloatEncoding {
    match info.encoding.float() {
        _ if !info.name.is_norm() => head,
        Some(float @ (FloatEncoding::Bf16 | FloatEncoding::F16)) => float,
        _ => FloatEncoding::F32,
    }
}
