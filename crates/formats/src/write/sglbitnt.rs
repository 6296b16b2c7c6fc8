//! Writes a model as SGLBITNT, with tokenizer files in the same directory.

use std::fs;
use std::io::Write;

use super::config_json::config_json;
use super::copy::Copier;
use super::file::{Staged, write_bytes};
use super::tokenizer::tokenizer_files;
use super::{Job, dims};
use crate::companions::directory_of;
use crate::encoding::TernaryEncoding;
use crate::error::Error;
use crate::sglbitnt::{write_header, write_record};
use crate::size;

/// Writes a model as SGLBITNT. The tokenizer comes first, so that a `.bin` is never without it.
pub(super) fn stage(job: &Job<'_>, mut copier: Copier<'_>) -> Result<Staged, Error> {
    let &Job { source, target, out, .. } = job;
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
    let staged = Staged::file(out, target.if_exists, |file| {
        write_header(file, &config, job.plan.len()).map_err(io)?;
        for (planned, info) in job.tensors() {
            let name = planned.name.hugging_face();
            if planned.name.is_linear() {
                let projection = copier.projection(info, TernaryEncoding::SGL_PACKED)?;
                let (dims, scale) = ([info.rows, info.cols / 4], Some(projection.scale));
                let len = size::widen(projection.packed.len());
                write_record(file, &name, None, &dims, scale, len).map_err(io)?;
                file.write_all(&projection.packed).map_err(io)?;
            } else {
                let (float, dims) = (planned.float(), dims(info));
                write_record(file, &name, Some(float), &dims, None, planned.size).map_err(io)?;
                copier.copy_floats(info, float, |bytes| file.write_all(bytes).map_err(io))?;
            }
        }
        source.check_unchanged()
    })?;
    Ok(staged.with(beside))
}
