//! Cached conversions of master weights, which would otherwise be rounded at every start.
//!
//! A conversion of a model on the Hub is known by the digests of its files. One of a local checkpoint is known
//! by their paths, sizes and times, so that no start has to read all of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Result, bail};
use wf_formats::{Container, Encoding, IfExists, ModelFile, OpenOptions, Rounding, Target};
use wf_hub::{COMPANIONS, ConversionCache};

use crate::env::variable;
use crate::verify::compare_values;
use crate::{cpu, hub, output, progress};

/// Version of the converter's output. A new version invalidates all cached conversions.
const CONVERTER_VERSION: &str = "2";
/// Minimum size of local master weights that are worth a file: less is rounded in a fraction of a second.
const MIN_LOCAL_BYTES: u64 = 64 << 20;

/// Returns the path of a model to run. A model on the Hub is downloaded; master weights are converted once.
pub(crate) fn ready(model: &Path) -> Result<PathBuf> {
    match hub::reference(model)? {
        None => Ok(local(model)),
        Some(reference) => {
            let fetched = hub::fetch(&reference)?;
            let Some(digest) = &fetched.digest else { return Ok(fetched.path) };
            let source = ModelFile::open(&fetched.path, &OpenOptions::default())?;
            if master_bytes(&source) == 0 {
                return Ok(fetched.path);
            }
            let name = format!("{reference} at {}", fetched.commit);
            convert(&cache()?, &source, &name, digest)
        }
    }
}

pub(crate) fn cache() -> Result<ConversionCache> {
    let root = match variable("WF_CACHE") {
        Some(root) => PathBuf::from(root),
        None => hub::cache_dir()?.join("wrinklefree"),
    };
    Ok(ConversionCache::new(root.join("models"), CONVERTER_VERSION))
}

/// Returns the conversion of a local checkpoint, or its own path if there is nothing to gain. A conversion that
/// fails, for example because the disk is full, is no error: the checkpoint itself runs, too.
fn local(model: &Path) -> PathBuf {
    let is_checkpoint = model.is_dir() || model.extension().is_some_and(|e| e == "safetensors");
    // Errors are reported when the model is opened to run.
    let source = is_checkpoint.then(|| ModelFile::open(model, &OpenOptions::default()).ok());
    let Some(source) = source.flatten().filter(|file| master_bytes(file) >= MIN_LOCAL_BYTES) else {
        return model.to_owned();
    };
    let converted = || {
        let name = model.canonicalize()?.display().to_string();
        let cache = cache()?;
        let path = convert(&cache, &source, &name, &stamp(model, &source)?)?;
        // Conversions of earlier contents of the same files will never be used again.
        cache.remove_others(&name, &path);
        Ok(path)
    };
    converted().unwrap_or_else(|error: anyhow::Error| {
        let error = output::explain(&error);
        output::note(&format!("the conversion of {} is not kept: {error}", model.display()));
        model.to_owned()
    })
}

fn master_bytes(source: &ModelFile) -> u64 {
    let is_master = |encoding| matches!(encoding, Encoding::MasterWeights(_));
    source.tensors().iter().filter(|t| is_master(t.encoding)).map(|t| t.size).sum()
}

/// Describes the files of a checkpoint by path, size and times. A file that changes gets another time.
fn stamp(model: &Path, source: &ModelFile) -> Result<String> {
    let directory = if model.is_dir() { Some(model) } else { model.parent() };
    let beside = COMPANIONS.iter().filter_map(|name| Some(directory?.join(name)));
    let weights = source.format().files.iter().map(|file| PathBuf::from(&file.path));
    let mut stamp = String::new();
    for path in weights.chain(beside.filter(|path| path.exists())) {
        let path = path.canonicalize()?;
        let file = fs::metadata(&path)?;
        let modified = file.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let (len, changed) = (file.len(), changed(&file));
        stamp.push_str(&format!("{} {len} {modified} {changed}\n", path.display()));
    }
    Ok(stamp)
}

/// Returns the time at which the system last changed a file, which programs cannot set, and its number.
#[cfg(unix)]
fn changed(file: &fs::Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    format!("{}.{} {}", file.ctime(), file.ctime_nsec(), file.ino())
}

#[cfg(not(unix))]
fn changed(_file: &fs::Metadata) -> String {
    String::new()
}

fn convert(
    cache: &ConversionCache,
    source: &ModelFile,
    name: &str,
    digest: &str,
) -> Result<PathBuf> {
    // Only `wf` reads it, so it has the format that loads fastest and holds any model.
    let container = Container::Wf;
    let target = Target {
        container,
        head: Target::default_head(source, container)?,
        rounding: Rounding::Exact,
        name: None,
        if_exists: IfExists::Fail,
        threads: cpu::default_threads(),
    };
    let kind = format!("WrinkleFree, {}, head {}", container.trits(), target.head);
    cache.get_or_create(name, digest, &kind, "model.wf", |out| {
        let dir = out.parent().and_then(Path::parent).unwrap_or(out).display();
        output::note(&format!("converting {name} once; cached in {dir}"));
        write(source, &target, out)
    })
}

/// Writes a conversion and compares every value with the source.
fn write(source: &ModelFile, target: &Target, out: &Path) -> Result<()> {
    let staged = progress::stage(source, target, out)?;
    let written = ModelFile::open(staged.path(), &OpenOptions::default())?;
    if let Some(fault) = compare_values(source, &written)?.fault() {
        bail!("the conversion differs from its source and was discarded: {fault}");
    }
    Ok(staged.commit()?)
}
