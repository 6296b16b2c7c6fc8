//! Writes a model as a packed Hugging Face checkpoint for `transformers`.

use std::path::Path;

use wf_core::RotaryPairs;

use super::config_json::config_json;
use super::file::{IfExists, Staged, write_bytes};
use super::target::{Container, PlannedTensor, Target};
use super::tokenizer::{self, tokenizer_files};
use super::{Progress, dims, one_scale, tensor};
use crate::encoding::{FloatEncoding, Rounding, TernaryEncoding, encode_floats};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::safetensors::write::SafetensorsWriter;
use crate::tensor::{Encoding, TensorInfo};

/// The files of a checkpoint, without those of its tokenizer.
pub(super) const NAMES: [&str; 2] = ["model.safetensors", "config.json"];

/// Writes `model.safetensors`, `config.json` and tokenizer files to a directory, and replaces an existing
/// one that contains nothing else.
pub fn write_packed_dir(
    source: &ModelFile,
    head: FloatEncoding,
    directory: &Path,
) -> Result<(), Error> {
    let (rounding, if_exists) = (Rounding::Exact, IfExists::Replace);
    let container = Container::Packed;
    let target = Target { container, head, rounding, name: None, if_exists, threads: 1 };
    target.write(source, directory)
}

/// Writes a model as a packed checkpoint.
pub(super) fn stage(
    source: &ModelFile,
    target: &Target,
    directory: &Path,
    progress: &mut Progress<'_>,
) -> Result<Staged, Error> {
    let plan = target.plan(source)?;
    let tokenizer = tokenizer_files(source)?;
    let config = config_json(source, target);
    let known: Vec<&'static str> = NAMES.into_iter().chain(tokenizer::NAMES).collect();
    Staged::directory(directory, target.if_exists, known, |directory| {
        let write =
            |name: &str, bytes: &[u8]| write_bytes(&directory.join(name), IfExists::Fail, bytes);
        write_weights(source, target, &plan, &directory.join("model.safetensors"), progress)?;
        write("config.json", config.as_bytes())?;
        tokenizer.iter().try_for_each(|(name, bytes)| write(name, bytes))
    })
}

fn write_weights(
    source: &ModelFile,
    target: &Target,
    plan: &[PlannedTensor],
    out: &Path,
    progress: &mut Progress<'_>,
) -> Result<(), Error> {
    let io = |e| Error::io(out, e);
    let mut writer = SafetensorsWriter::new();
    for planned in plan {
        let name = planned.name;
        let info = tensor(source, name);
        let hf_name = name.hugging_face();
        if name.is_linear() {
            writer.declare_bytes(&hf_name, &[info.rows / 4, info.cols]).map_err(io)?;
            let float = scale_encoding(source, info)?;
            writer.declare(&format!("{hf_name}_scale"), &[1], float).map_err(io)?;
        } else {
            writer.declare(&hf_name, &dims(info), planned.float()).map_err(io)?;
        }
    }
    let trits = TernaryEncoding::HF_PACKED;
    let mut copier = target.copier(source, RotaryPairs::Halves, progress);
    let staged = Staged::file(out, IfExists::Fail, |file| {
        let mut body = writer.begin(file).map_err(io)?;
        for planned in plan {
            let info = tensor(source, planned.name);
            if planned.name.is_linear() {
                let projection = copier.projection(info, trits)?;
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
