//! `wf cache`: manages cached conversions of models.

use anyhow::Result;
use clap::{Args as ClapArgs, Subcommand};
use serde_json::json;

use crate::{conversions, output};

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
    #[arg(long)]
    pub(crate) check: bool,

    /// Print a JSON object
    #[arg(long)]
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
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn cache(command: &CacheCommand) -> Result<()> {
    match command {
        CacheCommand::List(args) => list(args),
        CacheCommand::Prune(args) => prune(args),
    }
}

fn list(args: &ListArgs) -> Result<()> {
    let cache = conversions::cache()?;
    let folder = cache.root().display().to_string();
    let (mut models, mut rows) = (Vec::new(), vec![("folder", folder.clone())]);
    for entry in cache.list() {
        let is_intact = args.check.then(|| cache.is_intact(&entry));
        let days = entry.age.as_secs() / 86_400;
        let state = match (entry.is_current, is_intact) {
            (_, Some(false)) => ", damaged",
            (false, _) => ", of another version of wf",
            (true, Some(true)) => ", intact",
            (true, None) => "",
        };
        let (source, target) = (&entry.source, &entry.target);
        let size = output::megabytes(entry.size_bytes);
        let age = output::count(usize::try_from(days).unwrap_or(usize::MAX), "day");
        rows.push(("model", format!("{source}: {target}, {size}, {age} old{state}")));
        models.push(json!({
            "source": source,
            "target": target,
            "path": entry.path.display().to_string(),
            "size_bytes": entry.size_bytes,
            "age_days": days,
            "current": entry.is_current,
            "sound": is_intact,
        }));
    }
    match args.json {
        true => output::json(&json!({"folder": folder, "models": models})),
        false => output::table(&rows),
    }
}

fn prune(args: &PruneArgs) -> Result<()> {
    let pruned = conversions::cache()?.prune(args.all_kept)?;
    if args.json {
        return output::json(&json!({"models": pruned.entries, "size_bytes": pruned.size_bytes}));
    }
    let size = output::megabytes(pruned.size_bytes);
    output::table(&[("removed", format!("{}, {size}", output::count(pruned.entries, "model")))])
}
