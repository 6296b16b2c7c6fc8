//! Models on the Hugging Face Hub (`hf:owner/repo`): downloads, and cached conversions.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use wf_formats::{Container, Encoding, IfExists, ModelFile, OpenOptions, Rounding, Target};
use wf_hub::{ConversionCache, FetchedModel, Hub, HubConfig, Reference};

use crate::env::{text, variable};
use crate::verify::compare_values;
use crate::{cpu, models, output, progress};

/// Version of the converter's output. A new version invalidates all cached conversions.
const CONVERTER_VERSION: &str = "2";

/// Returns the path of a model. A model on the Hub is downloaded.
pub(crate) fn original(model: &Path) -> Result<PathBuf> {
    match reference(model)? {
        None => Ok(model.to_owned()),
        Some(reference) => Ok(fetch(&reference)?.path),
    }
}

/// Returns the path of a model to run: master weights from the Hub are converted once and cached.
pub(crate) fn ready(model: &Path) -> Result<PathBuf> {
    let Some(reference) = reference(model)? else { return Ok(model.to_owned()) };
    let fetched = fetch(&reference)?;
    let Some(digest) = &fetched.digest else { return Ok(fetched.path) };
    let source = ModelFile::open(&fetched.path, &OpenOptions::default())?;
    let is_master = |encoding| matches!(encoding, Encoding::MasterWeights(_));
    if !source.tensors().iter().any(|t| is_master(t.encoding)) {
        return Ok(fetched.path);
    }
    // Only `wf` reads it, so it has the format that loads fastest and holds any model.
    let container = Container::Wf;
    let target = Target {
        container,
        head: Target::default_head(&source, container)?,
        rounding: Rounding::Exact,
        name: None,
        if_exists: IfExists::Fail,
        threads: cpu::cores(),
    };
    let kind = format!("WrinkleFree, {}, head {}", container.trits(), target.head);
    let name = format!("{reference} at {}", fetched.commit);
    conversions()?.get_or_create(&name, digest, &kind, "model.wf", |out| {
        let dir = out.parent().and_then(Path::parent).unwrap_or(out).display();
        output::note(&format!("converting {reference} once; cached in {dir}"));
        make(&source, &target, out)
    })
}

/// Writes a conversion and compares every value with the source.
fn make(source: &ModelFile, target: &Target, out: &Path) -> Result<()> {
    let staged = progress::stage(source, target, out)?;
    let written = ModelFile::open(staged.path(), &OpenOptions::default())?;
    if let Some(fault) = compare_values(source, &written)?.fault() {
        bail!("the conversion differs from its source and was discarded: {fault}");
    }
    Ok(staged.commit()?)
}

/// Returns the reference to a model on the Hub, given as such or by its short name; `None` for a path.
fn reference(model: &Path) -> Result<Option<Reference>> {
    if let Some(published) = models::find(model) {
        output::note(&published.announce());
        return Ok(Reference::parse(published.reference).transpose()?);
    }
    let reference = model.to_str().and_then(Reference::parse);
    Ok(reference.transpose()?)
}

fn fetch(reference: &Reference) -> Result<FetchedModel> {
    let hub = Hub::new(settings()?);
    let mut current: Option<(String, ProgressBar)> = None;
    let fetched = hub.fetch(reference, &mut |update| {
        if current.as_ref().is_none_or(|(file, _)| file != update.file) {
            let bar = progress::bytes("downloading", update.total);
            bar.set_message(update.file.to_owned());
            current = Some((update.file.to_owned(), bar));
        }
        if let Some((_, bar)) = &current {
            bar.set_position(update.done);
        }
    })?;
    Ok(fetched)
}

pub(crate) fn conversions() -> Result<ConversionCache> {
    let root = match variable("WF_CACHE") {
        Some(root) => PathBuf::from(root),
        None => cache_dir()?.join("wrinklefree"),
    };
    Ok(ConversionCache::new(root.join("models"), CONVERTER_VERSION))
}

/// Returns the settings of the Hub, from the variables that `huggingface_hub` reads.
fn settings() -> Result<HubConfig> {
    let home = match variable("HF_HOME") {
        Some(home) => PathBuf::from(home),
        None => cache_dir()?.join("huggingface"),
    };
    let cache = variable("HF_HUB_CACHE").map_or_else(|| home.join("hub"), PathBuf::from);
    let token_file = variable("HF_TOKEN_PATH").map_or_else(|| home.join("token"), PathBuf::from);
    let token = text("HF_TOKEN")?.or_else(|| std::fs::read_to_string(token_file).ok());
    let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
    let endpoint = text("HF_ENDPOINT")?.unwrap_or_else(|| "https://huggingface.co".to_owned());
    let offline = text("HF_HUB_OFFLINE")?.is_some_and(|value| {
        matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
    });
    Ok(HubConfig { endpoint, cache, token, offline })
}

/// Returns the directory for files that can be downloaded or made again.
fn cache_dir() -> Result<PathBuf> {
    if let Some(dir) = variable("XDG_CACHE_HOME") {
        return Ok(dir.into());
    }
    let (name, below) = if cfg!(windows) { ("LOCALAPPDATA", "") } else { ("HOME", ".cache") };
    let home =
        variable(name).with_context(|| format!("neither XDG_CACHE_HOME nor {name} is set"))?;
    Ok(Path::new(&home).join(below))
}
