//! `hf:owner/repo`: models on the Hugging Face Hub, where they are kept, and what is made of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use wf_formats::{Container, Encoding, Existing, ModelFile, OpenOptions, Rounding, Target};
use wf_hub::{Conversions, Fetched, Hub, HubSettings, Reference};

use crate::convert::bar;
use crate::environment::variable;
use crate::{open, report, verify};

/// Counts what a converter can change in a file it makes: another number makes all conversions anew.
const CONVERTER: &str = "2";

/// The path of a model that is named as a path or on the hub. What is named on the hub is fetched.
pub(crate) fn original(model: &Path) -> Result<PathBuf> {
    match reference(model)? {
        None => Ok(model.to_owned()),
        Some(reference) => Ok(fetch(&reference)?.path),
    }
}

/// The same, as it is best run: master weights from the hub are rounded once, and kept so.
pub(crate) fn ready(model: &Path) -> Result<PathBuf> {
    let Some(reference) = reference(model)? else { return Ok(model.to_owned()) };
    let fetched = fetch(&reference)?;
    let Some(digest) = &fetched.digest else { return Ok(fetched.path) };
    let source = ModelFile::open(&fetched.path, &OpenOptions::default())?;
    let is_master = |encoding| matches!(encoding, Encoding::MasterWeights(_));
    if !source.tensors().iter().any(|t| is_master(t.encoding)) {
        return Ok(fetched.path);
    }
    // Nobody else reads it, so it is the file that loads fastest and takes any model.
    let container = Container::Wf;
    let target = Target {
        container,
        head: Target::usual_head(&source, container)?,
        rounding: Rounding::Exact,
        name: None,
        existing: Existing::Keep,
        threads: open::cores(),
    };
    let kind = format!("WrinkleFree, {}, head {}", container.trits(), target.head);
    let name = format!("{reference} at {}", fetched.commit);
    conversions()?.get_or_make(&name, digest, &kind, "model.wf", |out| {
        report::note(&format!("converting {reference} once; kept in {}", out_folder(out)));
        make(&source, &target, out)
    })
}

fn out_folder(out: &Path) -> String {
    out.parent().and_then(Path::parent).unwrap_or(out).display().to_string()
}

/// Writes a conversion, and compares every number of it with the source.
fn make(source: &ModelFile, target: &Target, out: &Path) -> Result<()> {
    let bar = bar::bytes("converting", source.tensors().iter().map(|t| t.size).sum());
    let staged = target.stage(source, out, &mut |done| bar.set_position(done));
    bar.finish_and_clear();
    let staged = staged?;
    let written = ModelFile::open(staged.path(), &OpenOptions::default())?;
    if let Some(fault) = verify::compare_numbers(source, &written)?.fault() {
        bail!("what was written is not what was read, and is not kept: {fault}");
    }
    Ok(staged.settle()?)
}

fn reference(model: &Path) -> Result<Option<Reference>> {
    let reference = model.to_str().and_then(Reference::parse);
    Ok(reference.transpose()?)
}

fn fetch(reference: &Reference) -> Result<Fetched> {
    let hub = Hub::new(settings()?);
    let mut current: Option<(String, ProgressBar)> = None;
    let fetched = hub.fetch(reference, &mut |progress| {
        if current.as_ref().is_none_or(|(file, _)| file != progress.file) {
            let bar = bar::bytes("fetching", progress.total);
            bar.set_message(progress.file.to_owned());
            current = Some((progress.file.to_owned(), bar));
        }
        if let Some((_, bar)) = &current {
            bar.set_position(progress.done);
        }
    })?;
    Ok(fetched)
}

/// Conversions that are kept on this machine.
pub(crate) fn conversions() -> Result<Conversions> {
    let root = match variable("WF_CACHE") {
        Some(root) => PathBuf::from(root),
        None => cache_folder()?.join("wrinklefree"),
    };
    Ok(Conversions::new(root.join("models"), CONVERTER))
}

/// Where the hub is and where its files lie, by the variables that `huggingface_hub` reads.
fn settings() -> Result<HubSettings> {
    let home = match variable("HF_HOME") {
        Some(home) => PathBuf::from(home),
        None => cache_folder()?.join("huggingface"),
    };
    let cache = variable("HF_HUB_CACHE").map_or_else(|| home.join("hub"), PathBuf::from);
    let token_file = variable("HF_TOKEN_PATH").map_or_else(|| home.join("token"), PathBuf::from);
    let token = text("HF_TOKEN")?.or_else(|| std::fs::read_to_string(token_file).ok());
    let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
    let endpoint = text("HF_ENDPOINT")?.unwrap_or_else(|| "https://huggingface.co".to_owned());
    let offline = text("HF_HUB_OFFLINE")?.is_some_and(|value| {
        matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
    });
    Ok(HubSettings { endpoint, cache, token, offline })
}

/// The folder for what can be made or fetched again.
fn cache_folder() -> Result<PathBuf> {
    if let Some(folder) = variable("XDG_CACHE_HOME") {
        return Ok(folder.into());
    }
    let (name, below) = if cfg!(windows) { ("LOCALAPPDATA", "") } else { ("HOME", ".cache") };
    let home =
        variable(name).with_context(|| format!("neither XDG_CACHE_HOME nor {name} is set"))?;
    Ok(Path::new(&home).join(below))
}

fn text(name: &str) -> Result<Option<String>> {
    let text = variable(name).map(OsString::into_string).transpose();
    text.map_err(|_| anyhow::anyhow!("the value of {name} is not UTF-8"))
}
