//! Hugging Face checkpoints: `config.json` and one or more safetensors files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use crate::checkpoint::Checkpoint;
use crate::companions::{Companions, read_config, read_limited};
use crate::config::hugging_face::weight_scheme;
use crate::error::{Error, quote_safely};
use crate::map::SourceFile;
use crate::parts::{FormatKind, OpenOptions, Parts};
use crate::safetensors;

/// Maximum size of a list of shards.
const MAX_INDEX_LEN: u64 = 4 * 1024 * 1024;
const MAX_SHARDS: usize = 1024;

pub(crate) fn open_directory(directory: &Path, options: &OpenOptions) -> Result<Parts, Error> {
    let single = directory.join("model.safetensors");
    if single.is_file() {
        return open_files(directory, vec![SourceFile::map(&single)?], options);
    }
    let index_path = directory.join("model.safetensors.index.json");
    let Some(json) = read_limited(&index_path, MAX_INDEX_LEN)? else {
        let what = "directory without model.safetensors or model.safetensors.index.json: weights must be in \
             safetensors";
        return Err(Error::unsupported(directory.display(), what));
    };
    let index_name = index_path.display().to_string();
    let index = Index::parse(&index_name, &json)?;
    let mut files = Vec::new();
    for shard in index.shards(&index_name)? {
        files.push(SourceFile::map(&directory.join(shard))?);
    }
    open_files(directory, files, options)
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Index {
    fn parse(file: &str, json: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(json).map_err(|e| Error::unsupported(file, e))
    }

    /// Returns each shard name once. Names must be plain file names, so that a checkpoint cannot reach
    /// outside its directory.
    fn shards(&self, file: &str) -> Result<BTreeSet<&str>, Error> {
        let shards: BTreeSet<&str> = self.weight_map.values().map(String::as_str).collect();
        if shards.is_empty() || shards.len() > MAX_SHARDS {
            let what = format!("{} shards, must be between 1 and {MAX_SHARDS}", shards.len());
            return Err(Error::setting(file, "weight_map", what));
        }
        let is_plain = |name: &str| {
            name.ends_with(".safetensors")
                && !name.contains(['/', '\\', ':'])
                && !name.contains(char::is_control)
        };
        match shards.iter().find(|name| !is_plain(name)) {
            None => Ok(shards),
            Some(name) => {
                let what =
                    format!("\"{}\" is not the name of a safetensors file", quote_safely(name));
                Err(Error::setting(file, "weight_map", what))
            }
        }
    }
}

/// Opens the safetensors files of a checkpoint with a `config.json` beside them.
pub(crate) fn open_files(
    directory: &Path,
    files: Vec<SourceFile>,
    options: &OpenOptions,
) -> Result<Parts, Error> {
    let companions = Companions::read(directory, read_config(directory)?)?;
    let mut entries = Vec::new();
    for (at, file) in files.iter().enumerate() {
        entries.extend(safetensors::read(&file.name, at, file.bytes())?);
    }
    let mut decisions = Vec::new();
    let scheme = weight_scheme(&companions.config, options.naive, &mut decisions)?;
    let (kind, version) = (FormatKind::HuggingFace, None);
    Checkpoint { kind, version, files, entries, scheme, companions, decisions }.open(options)
}
