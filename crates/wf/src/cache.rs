//! `wf cache`: manages cached conversions of models from the Hub.

use anyhow::Result;
use clap::{Args as ClapArgs, Subcommand};
use serde::Serialize;

use crate::{hub, output};

#[derive(ClapArgs)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
}

#[derive(Subcommand)]
pub(crate) enum CacheCommand {
    /// List cached conversions
    List(ListArgs),
    /// Remove conversions of other versions of wf, and unfinished ones
    Prune(PruneArgs),
}

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  wf cache list                             cached conversions, and their directory
  wf cache list --check                     also verify their checksums")]
pub(crate) struct ListArgs {
    /// Read every file and verify its checksum
    #[arg(long, env = "WF_CHECK")]
    pub(crate) check: bool,

    /// Print a JSON object
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,
}

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  wf cache prune                            conversions that no command would use
  wf cache prune --all                      all conversions")]
pub(crate) struct PruneArgs {
    /// Remove all conversions
    #[arg(long = "all")]
    pub(crate) all_kept: bool,

    /// Print a JSON object
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct CacheList {
    folder: String,
    models: Vec<CachedModel>,
}

#[derive(Serialize)]
struct CachedModel {
    source: String,
    target: String,
    path: String,
    size_bytes: u64,
    age_days: u64,
    current: bool,
    /// `None` if the file was not read.
    sound: Option<bool>,
}

#[derive(Serialize)]
struct Removed {
    models: usize,
    size_bytes: u64,
}

pub(crate) fn cache(args: &CacheArgs) -> Result<()> {
    match &args.command {
        CacheCommand::List(args) => list(args),
        CacheCommand::Prune(args) => prune(args),
    }
}

fn list(args: &ListArgs) -> Result<()> {
    let conversions = hub::conversions()?;
    let models = conversions.list().into_iter().map(|entry| CachedModel {
        sound: args.check.then(|| conversions.is_intact(&entry)),
        path: entry.path.display().to_string(),
        source: entry.source,
        target: entry.target,
        size_bytes: entry.size_bytes,
        age_days: entry.age.as_secs() / 86_400,
        current: entry.is_current,
    });
    let folder = conversions.root().display().to_string();
    let listed = CacheList { folder, models: models.collect() };
    if args.json {
        return output::json(&listed);
    }
    let mut rows = vec![("folder", listed.folder.clone())];
    for model in &listed.models {
        let size = output::megabytes(model.size_bytes);
        let age = output::count(usize::try_from(model.age_days).unwrap_or(usize::MAX), "day");
        let state = match (model.current, model.sound) {
            (_, Some(false)) => ", damaged",
            (false, _) => ", of another version of wf",
            (true, Some(true)) => ", intact",
            (true, None) => "",
        };
        rows.push((
            "model",
            format!("{}: {}, {size}, {age} old{state}", model.source, model.target),
        ));
    }
    output::table(&rows)
}

fn prune(args: &PruneArgs) -> Result<()> {
    let pruned = hub::conversions()?.prune(args.all_kept)?;
    if args.json {
        return output::json(&Removed { models: pruned.entries, size_bytes: pruned.size_bytes });
    }
    let size = output::megabytes(pruned.size_bytes);
    output::table(&[("removed", format!("{}, {size}", output::count(pruned.entries, "model")))])
}
