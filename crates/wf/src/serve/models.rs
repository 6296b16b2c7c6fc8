//! Loads the models of `wf serve`: the first at once, the others when a request needs them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use wf_engine::{KvCapacity, OpenedModel, RunOptions, compute};
use wf_formats::ModelFile;
use wf_server::{App, ListedModel, Listing, ServedModel};

use crate::output::{self, UsageError};
use crate::serve::args::ServeArgs;
use crate::serve::model::{self, description};
use crate::serve::names::{Candidate, distinct_names};
use crate::{memory, open};

/// `--served-model-name` that stands for every name.
const ANY_NAME: &str = "*";

/// Facts about the loaded models for people.
pub(crate) struct Loaded {
    /// Names of all models.
    pub(crate) names: Vec<String>,
    /// Number of models that are loaded on demand.
    pub(crate) on_demand: usize,
    pub(crate) isa: String,
    pub(crate) threads: usize,
    pub(crate) context_len: usize,
    pub(crate) kv_tokens: usize,
}

impl Loaded {
    fn new(names: Vec<String>, on_demand: usize, model: &OpenedModel) -> Self {
        let engine = model.frontend.engine();
        Self {
            names,
            on_demand,
            isa: model.isa.to_string(),
            threads: model.threads,
            context_len: engine.context_len(),
            kv_tokens: engine.kv_tokens(),
        }
    }
}

/// Loads the first model, lists the others, and gives them to the server.
pub(crate) fn load(args: &Arc<ServeArgs>, app: &App) -> Result<Loaded> {
    match given(args).as_slice() {
        [] => load_only(args, None, app),
        [one] => load_only(args, Some(one), app),
        several => load_first(args, several, app),
    }
}

/// Returns the models of the command line.
fn given(args: &ServeArgs) -> Vec<PathBuf> {
    let models = if args.model.is_empty() { &args.model_flag } else { &args.model };
    models.clone()
}

fn load_only(args: &ServeArgs, path: Option<&Path>, app: &App) -> Result<Loaded> {
    let options = run_options(args, memory::kv_capacity);
    let model = open::model(path, args.decoding.draft.as_deref(), &options)?;
    let mut listing = model::listing(&model.format, &model.info, path);
    let (any, chosen) = served_names(args);
    if !chosen.is_empty() {
        listing.names = chosen;
    }
    listing.aliases.extend(any);
    let loaded = Loaded::new(listing.names.clone(), 0, &model);
    app.set_model(served(args, model, listing)?);
    Ok(loaded)
}

/// Splits `--served-model-name` into the one that stands for every name, and the others.
fn served_names(args: &ServeArgs) -> (Option<String>, Vec<String>) {
    let (any, chosen): (Vec<_>, Vec<_>) =
        args.served_model_name.iter().cloned().partition(|name| name == ANY_NAME);
    (any.into_iter().next(), chosen)
}

fn load_first(args: &Arc<ServeArgs>, paths: &[PathBuf], app: &App) -> Result<Loaded> {
    if args.decoding.draft.is_some() {
        return Err(UsageError::new("--draft is for one model: serve it alone").into());
    }
    let max_memory = args.limits.memory.or_else(memory::free);
    let threads = run_options(args, memory::kv_capacity).threads;
    let shared = compute(&run_options(args, memory::kv_capacity), threads)?;
    let found = paths.iter().map(|path| Found::open(args, path)).collect::<Result<Vec<_>>>()?;
    let names = names(args, &found)?;
    let mut listed = Vec::new();
    for (found, listing) in found.into_iter().zip(names) {
        let options =
            RunOptions { compute: Some(shared.clone()), ..found.options(args, max_memory) };
        let memory_bytes = memory::expected(&found.file, &options);
        check_fits(&found.path, memory_bytes, args.limits.memory)?;
        let (args, model_listing) = (Arc::clone(args), listing.clone());
        let load = move || {
            let model = open::model(Some(&found.path), None, &options)?;
            served(&args, model, model_listing.clone())
        };
        let load = Box::new(move || load().map_err(|error| output::explain(&error)));
        listed.push(ListedModel { listing, memory_bytes, load });
    }
    let first = listed.first().context("there are several models")?;
    let model = (first.load)().map_err(|error| anyhow!(error))?;
    let loaded = Loaded {
        names: listed.iter().flat_map(|one| one.listing.names.clone()).collect(),
        on_demand: listed.len() - 1,
        isa: model.isa.clone(),
        threads: model.threads,
        context_len: model.context_len(),
        kv_tokens: model.kv_tokens(),
    };
    app.set_models(model, listed, max_memory);
    Ok(loaded)
}

/// A model that is on disk, opened but not loaded.
struct Found {
    path: PathBuf,
    file: ModelFile,
}

impl Found {
    /// Opens a model, which is downloaded and converted first if needed.
    fn open(args: &ServeArgs, path: &Path) -> Result<Self> {
        let source = open::source(Some(path))?;
        let file = open::file(&source, &args.engine.options().open)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Returns the options to run it. Its K/V cache has at most half of the memory that its weights leave.
    fn options(&self, args: &ServeArgs, max_memory: Option<usize>) -> RunOptions {
        let weights = memory::expected_weights(&self.file);
        run_options(args, || KvCapacity::Contexts {
            count: 4,
            max_bytes: max_memory.map(|max| max.saturating_sub(weights) / 2),
        })
    }
}

fn check_fits(path: &Path, memory_bytes: usize, limit: Option<usize>) -> Result<()> {
    let gigabytes = |bytes: usize| format!("{:.2} GB", bytes as f64 / 1e9);
    ensure!(
        limit.is_none_or(|limit| memory_bytes <= limit),
        "--memory is {}: {} needs {} with a K/V cache of one context; --context or --kv-memory makes that smaller",
        gigabytes(limit.unwrap_or_default()),
        path.display(),
        gigabytes(memory_bytes)
    );
    Ok(())
}

/// Names all models: by `--served-model-name`, one each, or after their files.
fn names(args: &ServeArgs, found: &[Found]) -> Result<Vec<Listing>> {
    let (any, chosen) = served_names(args);
    let candidates: Vec<_> = found.iter().map(Found::candidate).collect();
    let names = match chosen.len() {
        0 => distinct_names(&candidates),
        len if len == found.len() => chosen,
        len => {
            let message = format!(
                "--served-model-name has {len} names for {} models: give one for each, in their order",
                found.len()
            );
            return Err(UsageError::new(message).into());
        }
    };
    let mut listings = Vec::new();
    for (at, one) in found.iter().enumerate() {
        let is_free = |alias: &String| {
            let is_other = |(other, candidate): (usize, &Candidate)| {
                other != at && candidate.aliases.contains(alias)
            };
            !names.contains(alias) && !candidates.iter().enumerate().any(is_other)
        };
        let listing = model::listing(one.file.format(), one.file.info(), Some(&one.path));
        let aliases = candidates[at].aliases.iter().filter(|alias| is_free(alias)).cloned();
        let any = any.iter().filter(|_| at == 0).cloned();
        listings.push(Listing {
            names: vec![names[at].clone()],
            aliases: aliases.chain(any).collect(),
            context_len: {
                let compute = &args.engine.compute;
                compute.attention.max_len(compute.context.unwrap_or(listing.context_len))
            },
            ..listing
        });
    }
    Ok(listings)
}

impl Found {
    fn candidate(&self) -> Candidate {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = self.file.info().name.clone().filter(|name| !name.trim().is_empty());
        let given = self.path.display().to_string();
        let aliases = if given == stem { vec![stem.clone()] } else { vec![stem.clone(), given] };
        Candidate { name: name.unwrap_or_else(|| stem.clone()), stem, aliases }
    }
}

fn served(args: &ServeArgs, model: OpenedModel, listing: Listing) -> Result<ServedModel> {
    let decode = args.decoding.mode(&model.frontend)?;
    let defaults = model::defaults(&args.defaults.params, &model.generation_defaults)?;
    let max_running = args.limits.max_running;
    let description = description(&model, listing, &args.engine, decode, defaults, max_running);
    Ok(ServedModel::new(model.frontend, description))
}

fn run_options(args: &ServeArgs, default_capacity: impl FnOnce() -> KvCapacity) -> RunOptions {
    let kv_memory = args.limits.kv_memory.map(KvCapacity::Bytes);
    RunOptions {
        kv_capacity: kv_memory.unwrap_or_else(default_capacity),
        max_running: args.limits.max_running,
        max_waiting: args.limits.max_waiting,
        digest: true,
        disk_cache: super::disk_cache(args),
        ..args.engine.options()
    }
}
