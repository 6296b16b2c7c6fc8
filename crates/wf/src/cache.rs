//! `wf cache`: what is kept of models from the hub.

use anyhow::Result;
use clap::{Args as ClapArgs, Subcommand};
use serde::Serialize;

use crate::{hub, report};

#[derive(ClapArgs)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
}

#[derive(Subcommand)]
pub(crate) enum CacheCommand {
    /// Show every conversion that is kept
    List(ListArgs),
    /// Remove what other versions of this program made, and what was never finished
    Prune(PruneArgs),
}

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  wf cache list                             what is kept, and where
  wf cache list --check                     and whether it is still what was written")]
pub(crate) struct ListArgs {
    /// Read every byte, and say whether it is still what was written
    #[arg(long, env = "WF_CHECK")]
    pub(crate) check: bool,

    /// Print one JSON object
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,
}

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  wf cache prune                            what no command would use again
  wf cache prune --all                      everything")]
pub(crate) struct PruneArgs {
    /// Remove all of them
    #[arg(long = "all")]
    pub(crate) all_kept: bool,

    /// Print one JSON object
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct Listed {
    folder: String,
    models: Vec<Kept>,
}

#[derive(Serialize)]
struct Kept {
    source: String,
    target: String,
    path: String,
    size_bytes: u64,
    age_days: u64,
    current: bool,
    /// Nothing if its bytes were not read.
    sound: Option<bool>,
}

#[derive(Serialize)]
struct Removed {
    models: usize,
    size_bytes: u64,
}

/// Runs the command.
pub(crate) fn cache(args: &CacheArgs) -> Result<()> {
    match &args.command {
        CacheCommand::List(args) => list(args),
        CacheCommand::Prune(args) => prune(args),
    }
}

fn list(args: &ListArgs) -> Result<()> {
    let conversions = hub::conversions()?;
    let models = conversions.list().into_iter().map(|entry| Kept {
        sound: args.check.then(|| conversions.is_sound(&entry)),
        path: entry.path.display().to_string(),
        source: entry.source,
        target: entry.target,
        size_bytes: entry.size_bytes,
        age_days: entry.age.as_secs() / 86_400,
        current: entry.is_current,
    });
    let folder = conversions.root().display().to_string();
    let listed = Listed { folder, models: models.collect() };
    if args.json {
        return report::json(&listed);
    }
    let mut rows = vec![("folder", listed.folder.clone())];
    for model in &listed.models {
        let size = report::megabytes(model.size_bytes);
        let age = report::count(usize::try_from(model.age_days).unwrap_or(usize::MAX), "day");
        let state = match (model.current, model.sound) {
            (_, Some(false)) => ", damaged",
            (false, _) => ", of another version",
            (true, Some(true)) => ", sound",
            (true, None) => "",
        };
        rows.push((
            "model",
            format!("{}: {}, {size}, {age} old{state}", model.source, model.target),
        ));
    }
    report::table(&rows)
}

fn prune(args: &PruneArgs) -> Result<()> {
    let pruned = hub::conversions()?.prune(args.all_kept)?;
    if args.json {
        return report::json(&Removed { models: pruned.entries, size_bytes: pruned.size_bytes });
    }
    let size = report::megabytes(pruned.size_bytes);
    report::table(&[("removed", format!("{}, {size}", report::count(pruned.entries, "model")))])
}
