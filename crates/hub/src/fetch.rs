//! Resolves a reference to a local path, and selects the files that belong to a model.

use std::fs;
use std::path::{Path, PathBuf};

use crate::api::{Api, Listing, RemoteFile};
use crate::digest::sha256_of;
use crate::download::{Progress, Request};
use crate::error::HubError;
use crate::reference::Reference;
use crate::store::RepoStore;

/// Files of a checkpoint besides its weights.
pub const COMPANIONS: [&str; 8] = [
    "config.json",
    "generation_config.json",
    "dlm_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "model.safetensors.index.json",
    "kernel_config.ini",
];

/// Configuration of a [`Hub`].
#[derive(Debug, Clone)]
pub struct HubConfig {
    /// URL of the hub or a mirror, for example `https://huggingface.co`.
    pub endpoint: String,
    /// Directory of downloads, in the layout of `huggingface_hub`.
    pub cache: PathBuf,
    /// Access token for private and gated models.
    pub token: Option<String>,
    /// Disables downloads.
    pub offline: bool,
}

/// A model in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedModel {
    /// A file, or the directory of a checkpoint.
    pub path: PathBuf,
    /// Commit of the repository.
    pub commit: String,
    /// Digest of the content of all its files; `None` if it is not known without reading them.
    pub digest: Option<String>,
}

/// A client of the Hugging Face Hub.
pub struct Hub {
    config: HubConfig,
    api: Api,
}

impl Hub {
    /// Creates a client. It does not connect yet.
    pub fn new(config: HubConfig) -> Self {
        let api = Api::new(&config.endpoint, config.token.as_deref());
        Self { config, api }
    }

    /// Returns a model, after downloading the files that are not in the cache.
    pub fn fetch(
        &self,
        reference: &Reference,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<FetchedModel, HubError> {
        let store = RepoStore::new(&self.config.cache, &reference.repo);
        if self.config.offline {
            return self.find(reference, &store);
        }
        let listing = self.api.list(reference)?;
        let files = files_of(reference, &listing)?;
        let commit = listing.commit.as_str();
        for file in &files {
            let request = Request { api: &self.api, repo: &reference.repo, commit, file };
            request.download(&store, progress)?;
            store.link(commit, &file.name, &file.digest)?;
        }
        store.remember(reference, commit)?;
        let contents = files.iter().map(|file| (file.name.clone(), file.digest.name().to_owned()));
        let digest = Some(digest_of(contents.collect()));
        let path = model_path(&store.snapshot(commit), reference, &files);
        Ok(FetchedModel { path, commit: listing.commit, digest })
    }

    fn find(&self, reference: &Reference, store: &RepoStore) -> Result<FetchedModel, HubError> {
        let looked = self.config.cache.display().to_string();
        let what = format!("not in the cache {looked}, and HF_HUB_OFFLINE disables downloads");
        let missing = HubError::new(reference, what);
        let Some(commit) = store.known_commit(reference) else { return Err(missing) };
        let snapshot = store.snapshot(&commit);
        let path = match &reference.file {
            Some(file) => snapshot.join(file),
            None if snapshot.join("config.json").exists() => snapshot,
            None => match ggufs_in(&snapshot).as_slice() {
                [one] => one.clone(),
                _ => return Err(missing),
            },
        };
        if !path.exists() {
            return Err(missing);
        }
        let digest = if path.is_dir() { linked_contents(&path).map(digest_of) } else { None };
        Ok(FetchedModel { path, commit, digest })
    }
}

/// Computes the digest of files from their names and digests.
fn digest_of(mut contents: Vec<(String, String)>) -> String {
    contents.sort();
    let lines = contents.iter().map(|(name, digest)| format!("{digest} {name}\n"));
    sha256_of(&lines.collect::<String>())
}

/// Returns the files of a checkpoint with their digests, which are the names of their link targets;
/// `None` if files are not links.
fn linked_contents(snapshot: &Path) -> Option<Vec<(String, String)>> {
    let belongs = |name: &str| COMPANIONS.contains(&name) || name.ends_with(".safetensors");
    let mut contents = Vec::new();
    for entry in fs::read_dir(snapshot).ok()?.flatten() {
        let name = entry.file_name().to_str()?.to_owned();
        if belongs(&name) {
            let content = fs::read_link(entry.path()).ok()?;
            contents.push((name, content.file_name()?.to_str()?.to_owned()));
        }
    }
    Some(contents)
}

fn ggufs_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "gguf")).collect()
}

fn model_path(snapshot: &Path, reference: &Reference, files: &[RemoteFile]) -> PathBuf {
    match (&reference.file, files) {
        (Some(file), _) => snapshot.join(file),
        (None, [one]) => snapshot.join(&one.name),
        (None, _) => snapshot.to_owned(),
    }
}

/// Returns the files of a model.
fn files_of(reference: &Reference, listing: &Listing) -> Result<Vec<RemoteFile>, HubError> {
    let fault = |what: String| HubError::new(&reference.repo, what);
    let ending =
        |end: &'static str| listing.files.iter().filter(move |file| file.name.ends_with(end));
    let companions =
        || listing.files.iter().filter(|file| COMPANIONS.contains(&file.name.as_str()));
    if let Some(name) = &reference.file {
        let Some(file) = listing.files.iter().find(|file| file.name == *name) else {
            return Err(fault(format!("file {name:?} does not exist; {}", models_in(listing))));
        };
        // A GGUF file is complete.
        let alone = name.ends_with(".gguf");
        let others = companions().filter(|_| !alone);
        return Ok(others.chain([file]).cloned().collect());
    }
    let top = |file: &&RemoteFile| !file.name.contains('/');
    let shards: Vec<&RemoteFile> = ending(".safetensors").filter(top).collect();
    let has_config = listing.files.iter().any(|file| file.name == "config.json");
    if has_config && !shards.is_empty() {
        return Ok(companions().chain(shards).cloned().collect());
    }
    match ending(".gguf").collect::<Vec<_>>().as_slice() {
        [one] => Ok(vec![(*one).clone()]),
        _ => Err(fault(format!("ambiguous: {}", models_in(listing)))),
    }
}

/// Lists the files of a repository that may be models, for messages.
fn models_in(listing: &Listing) -> String {
    const SHOWN: usize = 12;
    let is_model =
        |name: &&str| [".gguf", ".safetensors", ".bin"].iter().any(|ending| name.ends_with(ending));
    let names = listing.files.iter().map(|file| file.name.as_str()).filter(is_model);
    let names: Vec<&str> = names.take(SHOWN).collect();
    if names.is_empty() {
        return "the repository has neither .gguf nor .safetensors files".to_owned();
    }
    format!("the repository has {}: choose one with hf:owner/repo:file", names.join(", "))
}
