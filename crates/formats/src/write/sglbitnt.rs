//! Writes a model as SGLBITNT, with tokenizer files in the same directory.

use std::fs;
use std::io::Write;
use std::path::Path;

use wf_core::RotaryPairs;

use super::config_json::config_json;
use super::file::{IfExists, Staged, write_bytes};
use super::target::{Container, Target};
use super::tokenizer::tokenizer_files;
use super::{Progress, dims, tensor};
use crate::companions::directory_of;
use crate::encoding::{FloatEncoding, Rounding, TernaryEncoding};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::sglbitnt::{write_header, write_record};
use crate::size;

/// Writes a model as a `.bin`, with tokenizer files in the same directory, and replaces existing files.
pub fn write_sglbitnt(source: &ModelFile, head: FloatEncoding, out: &Path) -> Result<(), Error> {
    let (rounding, if_exists) = (Rounding::Exact, IfExists::Replace);
    let container = Container::Sglbitnt;
    let target = Target { container, head, rounding, name: None, if_exists, threads: 1 };
    target.write(source, out)
}

/// Writes a model as SGLBITNT. The tokenizer comes first, so that a `.bin` is never without it.
pub(super) fn stage(
    source: &ModelFile,
    target: &Target,
    out: &Path,
    progress: &mut Progress<'_>,
) -> Result<Staged, Error> {
    let plan = target.plan(source)?;
    let config = config_json(source, target);
    let mut beside = Vec::new();
    for (name, bytes) in tokenizer_files(source)? {
        let path = directory_of(out).join(name);
        // It may belong to another model of the same family, or to the source.
        if fs::read(&path).is_ok_and(|there| there == bytes) {
            continue;
        }
        write_bytes(&path, target.if_exists, &bytes)?;
        beside.push(path);
    }
    let io = |e| Error::io(out, e);
    let trits = TernaryEncoding::SGL_PACKED;
    let mut copier = target.copier(source, RotaryPairs::Halves, progress);
    let staged = Staged::file(out, target.if_exists, |file| {
        write_header(file, &config, plan.len()).map_err(io)?;
        for planned in plan {
            let info = tensor(source, planned.name);
            let name = planned.name.hugging_face();
            if planned.name.is_linear() {
                let projection = copier.projection(info, trits)?;
                let (dims, scale) = ([info.rows, info.cols / 4], Some(projection.scale));
                let len = size::widen(projection.packed.len());
                write_record(file, &name, None, &dims, scale, len).map_err(io)?;
                file.write_all(&projection.packed).map_err(io)?;
            } else {
                let float = planned.float();
                let (float_type, dims) = (Some(float), dims(info));
                write_record(file, &name, float_type, &dims, None, planned.size).map_err(io)?;
                copier.copy_floats(info, float, |bytes| file.write_all(bytes).map_err(io))?;
            }
        }
        source.check_unchanged()
    })?;
    Ok(staged.with(beside))
}
