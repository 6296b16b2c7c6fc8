//! Writes a model as SGLBITNT, with tokenizer files in the same directory.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::config_json::config_json;
use super::copy::Copier;
use super::file::{Beside, IfExists, Staged, write_bytes};
use super::packed::{GENERATION, generation_file};
use super::tokenizer::tokenizer_files;
use super::{Job, dims};
use crate::companions::{TEMPLATE_NAME, directory_of};
use crate::encoding::TernaryEncoding;
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::sglbitnt::{write_header, write_record};
use crate::size;

/// Writes a model as SGLBITNT. The tokenizer comes first, so that a `.bin` is never without it.
pub(super) fn stage(job: &Job<'_>, mut copier: Copier<'_>) -> Result<Staged, Error> {
    let &Job { source, target, out, .. } = job;
    let config = config_json(source, target);
    let mut beside = Beside::default();
    for (path, bytes) in missing_companions(source, directory_of(out))? {
        write_bytes(&path, IfExists::Fail, &bytes)?;
        beside.add(path);
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

/// Returns the files that have to be written beside a `.bin`: those of its tokenizer that the directory lacks.
/// Files that differ belong to another model, whose output would change, so they are never replaced.
fn missing_companions(
    source: &ModelFile,
    directory: &Path,
) -> Result<Vec<(PathBuf, Vec<u8>)>, Error> {
    let mut missing = Vec::new();
    let sampling = generation_file(source).map(|bytes| (GENERATION, bytes));
    for (name, bytes) in tokenizer_files(source)?.into_iter().chain(sampling) {
        let path = directory.join(name);
        match fs::read(&path) {
            Ok(found) if found == bytes => {}
            Ok(_) => return Err(belongs_to_another(&path)),
            // Other errors are reported when it is written.
            Err(_) => missing.push((path, bytes)),
        }
    }
    // A reader prefers this file to the template in `tokenizer_config.json`.
    let template = directory.join(TEMPLATE_NAME);
    if fs::read(&template).is_ok_and(|found| Some(&found[..]) != template_of(source)) {
        return Err(belongs_to_another(&template));
    }
    Ok(missing)
}

fn template_of(source: &ModelFile) -> Option<&[u8]> {
    source.chat_template().map(str::as_bytes)
}

fn belongs_to_another(path: &Path) -> Error {
    let what = "belongs to another model and differs from the file of this one: a .bin reads it from its \
                directory, so write to a directory of its own, or remove the file first";
    Error::unsupported(path.display(), what)
}
