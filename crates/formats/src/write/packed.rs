//! Writes a model as a packed Hugging Face checkpoint for `transformers`.

use std::path::Path;

use serde_json::Value;

use super::config_json::config_json;
use super::copy::{Copier, one_scale};
use super::file::{IfExists, Staged, write_bytes};
use super::tokenizer::{self, tokenizer_files};
use super::{Job, dims};
use crate::encoding::{FloatEncoding, TernaryEncoding, encode_floats};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::safetensors::write::SafetensorsWriter;
use crate::tensor::{Encoding, TensorInfo};

/// The files of a checkpoint, without those of its tokenizer.
pub(super) const NAMES: [&str; 2] = ["model.safetensors", "config.json"];

/// The file of recommended sampling parameters.
pub(super) const GENERATION: &str = "generation_config.json";

/// Writes `model.safetensors`, configuration and tokenizer files to a directory, and replaces an existing
/// one that contains nothing else.
pub(super) fn stage(job: &Job<'_>, copier: Copier<'_>) -> Result<Staged, Error> {
    let tokenizer = tokenizer_files(job.source)?;
    let config = config_json(job.source, job.target);
    let sampling = generation_file(job.source);
    let known: Vec<&'static str> =
        NAMES.into_iter().chain(tokenizer::NAMES).chain([GENERATION]).collect();
    Staged::directory(job.out, job.target.if_exists, known, |directory| {
        let write =
            |name: &str, bytes: &[u8]| write_bytes(&directory.join(name), IfExists::Fail, bytes);
        write_weights(job, copier, &directory.join("model.safetensors"))?;
        write("config.json", config.as_bytes())?;
        if let Some(sampling) = sampling {
            write(GENERATION, &sampling)?;
        }
        tokenizer.iter().try_for_each(|(name, bytes)| write(name, bytes))
    })
}

/// Returns the contents of `generation_config.json`, if the model recommends sampling parameters.
pub(super) fn generation_file(source: &ModelFile) -> Option<Vec<u8>> {
    let sampling = source.generation_defaults().to_json();
    (!sampling.is_empty()).then(|| format!("{:#}\n", Value::Object(sampling)).into_bytes())
}

fn write_weights(job: &Job<'_>, mut copier: Copier<'_>, out: &Path) -> Result<(), Error> {
    let source = job.source;
    let io = |e| Error::io(out, e);
    let mut writer = SafetensorsWriter::new();
    for (planned, info) in job.tensors() {
        let name = planned.name.hugging_face();
        if planned.name.is_linear() {
            writer.declare_bytes(&name, &[info.rows / 4, info.cols]).map_err(io)?;
            let float = scale_encoding(source, info)?;
            writer.declare(&format!("{name}_scale"), &[1], float).map_err(io)?;
        } else {
            writer.declare(&name, &dims(info), planned.float()).map_err(io)?;
        }
    }
    let staged = Staged::file(out, IfExists::Fail, |file| {
        let mut body = writer.begin(file).map_err(io)?;
        for (planned, info) in job.tensors() {
            if planned.name.is_linear() {
                let projection = copier.projection(info, TernaryEncoding::HF_PACKED)?;
                body.append(&projection.packed).map_err(io)?;
                let float = scale_encoding(source, info)?;
                let scale = encode_floats(float, &[projection.scale]);
                body.append(&scale.map_err(|e| source.fault(info, e))?).map_err(io)?;
            } else {
                let append = |bytes: &[u8]| body.append(bytes).map_err(io);
                copier.copy_floats(info, planned.float(), append)?;
            }
        }
        body.finish().map(drop).map_err(io)?;
        source.check_unchanged()
    })?;
    staged.commit()
}

/// Returns bf16, as published checkpoints have it, if that is exact. The scale of master weights is not
/// computed here: it is hardly ever exact in bf16.
fn scale_encoding(source: &ModelFile, info: &TensorInfo) -> Result<FloatEncoding, Error> {
    if matches!(info.encoding, Encoding::MasterWeights(_)) {
        return Ok(FloatEncoding::F32);
    }
    let is_bf16 = one_scale(&source.scales(info)?).to_bits() & 0xffff == 0;
    Ok(if is_bf16 { FloatEncoding::BF16 } else { FloatEncoding::F32 })
}
