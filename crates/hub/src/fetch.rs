//! A reference becomes a path: which files of a repository a model is, and where they are.

use std::fs;
use std::path::{Path, PathBuf};

use crate::api::{Api, Listing, RemoteFile};
use crate::digest::sha256_of;
use crate::download::{Origin, download};
use crate::error::HubError;
use crate::reference::Reference;
use crate::store::RepoStore;

/// The small files that belong to a checkpoint, where a repository has them.
const COMPANIONS: [&str; 8] = [
    "config.json",
    "generation_config.json",
    "dlm_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "model.safetensors.index.json",
    "kernel_config.ini",
];

/// Where the hub is, and where its files are kept.
#[derive(Debug, Clone)]
pub struct HubSettings {
    /// The hub or a mirror, for example `https://huggingface.co`.
    pub endpoint: String,
    /// The folder of downloaded files, in the order of `huggingface_hub`.
    pub cache: PathBuf,
    /// For models that not everyone may read.
    pub token: Option<String>,
    /// Whether only what is on this machine may be used.
    pub offline: bool,
}

/// How far the download of a file is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Its name in the repository.
    pub file: &'a str,
    /// Bytes that have arrived.
    pub done: u64,
    /// Bytes it has.
    pub total: u64,
}

/// A model on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// A file, or the folder of a checkpoint.
    pub path: PathBuf,
    /// The commit it is of.
    pub commit: String,
    /// Stands for the content of all its files: the same for the same bytes. Nothing if it is not known
    /// without reading all of them.
    pub digest: Option<String>,
}

/// The Hugging Face Hub.
pub struct Hub {
    settings: HubSettings,
    api: Api,
}

impl Hub {
    /// A hub to fetch from. No connection is made yet.
    pub fn new(settings: HubSettings) -> Self {
        let api = Api::new(&settings.endpoint, settings.token.as_deref());
        Self { settings, api }
    }

    /// Finds a model here, or fetches what is missing of it.
    pub fn fetch(
        &self,
        reference: &Reference,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Fetched, HubError> {
        let store = RepoStore::new(&self.settings.cache, &reference.repo);
        if self.settings.offline {
            return self.find(reference, &store);
        }
        let listing = self.api.list(reference)?;
        let files = wanted(reference, &listing)?;
        let commit = listing.commit.as_str();
        let origin = Origin { api: &self.api, repo: &reference.repo, commit };
        for file in &files {
            download(&origin, &store, file, progress)?;
            store.link(commit, &file.name, &file.digest)?;
        }
        store.remember(reference, commit)?;
        let contents = files.iter().map(|file| (file.name.clone(), file.digest.name().to_owned()));
        let digest = Some(digest_of(contents.collect()));
        let path = place(&store.snapshot(commit), reference, &files);
        Ok(Fetched { path, commit: listing.commit, digest })
    }

    /// Finds a model without asking anyone.
    fn find(&self, reference: &Reference, store: &RepoStore) -> Result<Fetched, HubError> {
        let looked = self.settings.cache.display().to_string();
        let missing = HubError::Offline { repo: reference.to_string(), looked };
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
        Ok(Fetched { path, commit, digest })
    }
}

/// What stands for the content of some files, each with its digest.
fn digest_of(mut contents: Vec<(String, String)>) -> String {
    contents.sort();
    let lines = contents.iter().map(|(name, digest)| format!("{digest} {name}\n"));
    sha256_of(&lines.collect::<String>())
}

/// The files of a checkpoint with their digests, which the names of what they link to are; `None`
/// where files are not links.
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

/// The path of a model whose files are all there.
fn place(snapshot: &Path, reference: &Reference, files: &[RemoteFile]) -> PathBuf {
    match (&reference.file, files) {
        (Some(file), _) => snapshot.join(file),
        (None, [one]) => snapshot.join(&one.name),
        (None, _) => snapshot.to_owned(),
    }
}

/// The files that a model is made of.
fn wanted(reference: &Reference, listing: &Listing) -> Result<Vec<RemoteFile>, HubError> {
    let fault = |what: String| HubError::Repo { repo: reference.repo.clone(), what };
    let ending =
        |end: &'static str| listing.files.iter().filter(move |file| file.name.ends_with(end));
    let companions =
        || listing.files.iter().filter(|file| COMPANIONS.contains(&file.name.as_str()));
    if let Some(name) = &reference.file {
        let Some(file) = listing.files.iter().find(|file| file.name == *name) else {
            return Err(fault(format!("no file {name:?}; {}", models_in(listing))));
        };
        // A GGUF file has everything in it.
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
        _ => Err(fault(format!("which file is meant? {}", models_in(listing)))),
    }
}

/// The files of a repository that could be models, for messages.
fn models_in(listing: &Listing) -> String {
    const SHOWN: usize = 12;
    let is_model =
        |name: &&str| [".gguf", ".safetensors", ".bin"].iter().any(|ending| name.ends_with(ending));
    let names = listing.files.iter().map(|file| file.name.as_str()).filter(is_model);
    let names: Vec<&str> = names.take(SHOWN).collect();
    match names.as_slice() {
        [] => "it has neither .gguf nor .safetensors files".to_owned(),
        names => format!("it has {}: name one as hf:owner/repo:file", names.join(", ")),
    }
}
