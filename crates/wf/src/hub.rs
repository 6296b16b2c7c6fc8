//! Models on the Hugging Face Hub (`hf:owner/repo`): references and downloads.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use wf_hub::{FetchedModel, Hub, HubConfig, Reference};

use crate::env::{text, variable};
use crate::{models, output, progress};

/// Returns the path of a model. A model on the Hub is downloaded.
pub(crate) fn original(model: &Path) -> Result<PathBuf> {
    match reference(model)? {
        None => Ok(model.to_owned()),
        Some(reference) => Ok(fetch(&reference)?.path),
    }
}

/// Returns the reference to a model on the Hub, given as such or by its short name; `None` for a path.
pub(crate) fn reference(model: &Path) -> Result<Option<Reference>> {
    if let Some(published) = models::find(model) {
        output::note(&published.announce());
        return Ok(Reference::parse(published.reference).transpose()?);
    }
    let reference = model.to_str().and_then(Reference::parse);
    Ok(reference.transpose()?)
}

pub(crate) fn fetch(reference: &Reference) -> Result<FetchedModel> {
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
pub(crate) fn cache_dir() -> Result<PathBuf> {
    if let Some(dir) = variable("XDG_CACHE_HOME") {
        return Ok(dir.into());
    }
    let (name, below) = if cfg!(windows) { ("LOCALAPPDATA", "") } else { ("HOME", ".cache") };
    let home =
        variable(name).with_context(|| format!("neither XDG_CACHE_HOME nor {name} is set"))?;
    Ok(Path::new(&home).join(below))
}
