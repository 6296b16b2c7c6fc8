//! Opens the model that arguments name.

use std::path::Path;

use anyhow::{Result, ensure};
use wf_core::SamplingOverrides;
use wf_engine::{ModelSource, OpenedModel, RunOptions, open_with_draft};
use wf_formats::{GenerationDefaults, ModelFile, ModelInfo, OpenOptions};

use crate::progress::LoadingBar;
use crate::{conversions, demo, hub, memory, missing};

/// Returns the model to run, or the demo. A model on the Hub is downloaded, and converted if needed.
pub(crate) fn source(model: Option<&Path>) -> Result<ModelSource> {
    Ok(match model {
        None => demo::source(),
        Some(model) => ModelSource::Path(conversions::ready(model)?),
    })
}

/// Returns the model as it was published, for commands that examine files.
pub(crate) fn original(model: Option<&Path>) -> Result<ModelSource> {
    Ok(match model {
        None => demo::source(),
        Some(model) => ModelSource::Path(hub::original(model)?),
    })
}

/// Opens a model file. The error for a missing one suggests others.
pub(crate) fn file(source: &ModelSource, options: &OpenOptions) -> Result<ModelFile> {
    if let ModelSource::Path(path) = source {
        // Other errors are reported when the file is opened.
        ensure!(!matches!(path.try_exists(), Ok(false)), "{}", missing::explain(path));
    }
    Ok(source.open(options)?)
}

/// Loads a model, and its draft model if there is one.
pub(crate) fn model(
    model: Option<&Path>,
    draft: Option<&Path>,
    options: &RunOptions,
) -> Result<OpenedModel> {
    let main = source(model)?;
    let main_file = file(&main, &options.open)?;
    let draft = draft.map(|draft| source(Some(draft))).transpose()?;
    let draft_file = draft.as_ref().map(|draft| file(draft, &options.open)).transpose()?;
    memory::check(&main_file, draft_file.as_ref(), options)?;
    let mut bar = LoadingBar::new();
    let show = &mut |loading| bar.update(loading);
    let opened = open_with_draft(&main, draft.as_ref(), options, show);
    bar.finish();
    Ok(opened?)
}

/// Returns the name of a model: that of its file's metadata, or of the file.
pub(crate) fn name(info: &ModelInfo, path: Option<&Path>) -> Option<String> {
    let name = info.name.clone().filter(|name| !name.trim().is_empty());
    name.or_else(|| Some(path?.file_stem()?.to_string_lossy().into_owned()))
}

/// Returns the sampling parameters that a model recommends.
pub(crate) fn recommended_sampling(defaults: &GenerationDefaults) -> SamplingOverrides {
    let float = |value: Option<f64>| value.map(|value| value as f32);
    SamplingOverrides {
        temperature: float(defaults.temperature),
        top_k: defaults.top_k.map(|k| k as i64),
        top_p: float(defaults.top_p),
        min_p: float(defaults.min_p),
        repetition_penalty: float(defaults.repetition_penalty),
        ..SamplingOverrides::default()
    }
}
