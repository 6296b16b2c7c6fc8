//! Any model → a packed Hugging Face checkpoint, as `transformers` loads it.

use std::fs;
use std::path::Path;

use super::config_json::config_json;
use super::file::write_whole;
use super::sglbitnt::one_scale;
use super::tokenizer::write_tokenizer_files;
use super::{float_pieces, projection, tensor};
use crate::config::RotaryPairs;
use crate::encoding::{FloatEncoding, Rounding, TernaryEncoding, encode_floats, encode_trits};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::names::TensorName;
use crate::safetensors::write::SafetensorsWriter;

/// Writes `model.safetensors`, `config.json` and the tokenizer files into a directory, which is made if
/// it is not there.
pub fn write_packed_dir(
    source: &ModelFile,
    head: FloatEncoding,
    directory: &Path,
) -> Result<(), Error> {
    fs::create_dir_all(directory).map_err(|e| Error::io(directory, e))?;
    write_weights(source, head, &directory.join("model.safetensors"))?;
    let config_path = directory.join("config.json");
    write_whole(&config_path, |file| {
        std::io::Write::write_all(file, config_json(source.config()).as_bytes())
            .map_err(|e| Error::io(&config_path, e))
    })?;
    write_tokenizer_files(source, directory)
}

fn write_weights(source: &ModelFile, head: FloatEncoding, out: &Path) -> Result<(), Error> {
    let config = source.config();
    let io = |e| Error::io(out, e);
    let mut writer = SafetensorsWriter::new();
    let mut scales = Vec::new();
    for name in config.tensor_names() {
        let info = tensor(source, name);
        let (rows, cols) = (info.rows, info.cols);
        if name.is_linear() {
            let scale = one_scale(&source.scales(info)?);
            let float = scale_encoding(scale);
            writer.declare_bytes(&name.hugging_face(), &[rows / 4, cols]).map_err(io)?;
            let scale_name = format!("{}_scale", name.hugging_face());
            writer.declare(&scale_name, &[1], float).map_err(io)?;
            scales.push((scale, float));
        } else if name.is_norm() {
            writer
                .declare(&name.hugging_face(), &[cols], norm_encoding(source, name))
                .map_err(io)?;
        } else {
            writer.declare(&name.hugging_face(), &[rows, cols], head).map_err(io)?;
        }
    }
    let mut scales = scales.into_iter();
    write_whole(out, |file| {
        let mut body = writer.begin(file).map_err(io)?;
        for name in config.tensor_names() {
            let info = tensor(source, name);
            let fault = |e| Error::tensor(source.name(), &info.source_name, info.offset, e);
            if !name.is_linear() {
                let float = if name.is_norm() { norm_encoding(source, name) } else { head };
                float_pieces(source, info, float, |bytes| body.append(bytes).map_err(io))?;
                continue;
            }
            let (trits, all_scales) = projection(source, info, RotaryPairs::Halves)?;
            let encoding = TernaryEncoding::HfPacked;
            let (rows, cols) = (info.rows, info.cols);
            let bytes = encode_trits(encoding, &trits, rows, cols, &all_scales, Rounding::Exact)
                .map_err(fault)?;
            body.append(&bytes).map_err(io)?;
            let (scale, float) = scales.next().expect("one was declared for every projection");
            let bytes = encode_floats(float, &[scale]).map_err(fault)?;
            body.append(&bytes).map_err(io)?;
        }
        body.finish().map(drop).map_err(io)
    })
}

/// bf16 as published checkpoints have it, where that loses nothing.
fn scale_encoding(scale: f32) -> FloatEncoding {
    if scale.to_bits() & 0xffff == 0 { FloatEncoding::Bf16 } else { FloatEncoding::F32 }
}

/// Norms keep the encoding they come in: they are small.
fn norm_encoding(source: &ModelFile, name: TensorName) -> FloatEncoding {
    match tensor(source, name).encoding.float() {
        Some(float @ (FloatEncoding::Bf16 | FloatEncoding::F16)) => float,
        _ => FloatEncoding::F32,
    }
}
