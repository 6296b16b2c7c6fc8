//! Any model → SGLBITNT, with its tokenizer files beside it.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::config_json::config_json;
use super::file::{Existing, Staged, write_bytes};
use super::target::{Container, Target};
use super::tokenizer::tokenizer_files;
use super::{Progress, dims, tensor};
use crate::companions::directory_of;
use crate::config::RotaryPairs;
use crate::encoding::{FloatEncoding, Rounding, TernaryEncoding};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::sglbitnt::{write_header, write_record};
use crate::size;

/// Writes a model as one `.bin`, and its tokenizer files into the same directory, in place of what is
/// there.
pub fn write_sglbitnt(source: &ModelFile, head: FloatEncoding, out: &Path) -> Result<(), Error> {
    let (rounding, existing) = (Rounding::Exact, Existing::Replace);
    let container = Container::Sglbitnt;
    let target = Target { container, head, rounding, name: None, existing, threads: 1 };
    target.write(source, out)
}

/// Writes a model as SGLBITNT. The tokenizer comes first: where the `.bin` is, everything is.
pub(super) fn stage(
    source: &ModelFile,
    target: &Target,
    out: &Path,
    progress: &mut Progress<'_>,
) -> Result<Staged, Error> {
    let plan = target.plan(source)?;
    let config = config_json(source.config(), target);
    let mut beside = Vec::new();
    for (name, bytes) in tokenizer_files(source)? {
        let path = directory_of(out).join(name);
        // Another model of the same family may have put it there, or the source may be this very file.
        if fs::read(&path).is_ok_and(|there| there == bytes) {
            continue;
        }
        write_bytes(&path, target.existing, &bytes)?;
        beside.push(path);
    }
    let io = |e| Error::io(out, e);
    let trits = TernaryEncoding::SglPacked;
    let mut carrier = target.carrier(source, RotaryPairs::Halves, progress);
    let staged = Staged::file(out, target.existing, |file| {
        write_header(file, &config, plan.len()).map_err(io)?;
        for planned in plan {
            let info = tensor(source, planned.name);
            let name = planned.name.hugging_face();
            if planned.name.is_linear() {
                let projection = carrier.projection(info, trits)?;
                let (dims, scale) = ([info.rows, info.cols / 4], Some(projection.scale));
                let len = size::widen(projection.packed.len());
                write_record(file, &name, None, &dims, scale, len).map_err(io)?;
                file.write_all(&projection.packed).map_err(io)?;
            } else {
                let float = planned.float();
                let (float_type, dims) = (Some(float), dims(info));
                write_record(file, &name, float_type, &dims, None, planned.size).map_err(io)?;
                carrier.copy_floats(info, float, |bytes| file.write_all(bytes).map_err(io))?;
            }
        }
        source.check_unchanged()
    })?;
    Ok(staged.with(beside))
}
