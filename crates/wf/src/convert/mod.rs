//! `wf convert`: any ternary model into any format, checked before it gets its name.

pub(crate) mod args;
pub(crate) mod bar;
mod choose;

use std::io::ErrorKind;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use wf_formats::{Container, Encoding, ModelFile, OpenOptions, PlannedTensor, Staged, Target};

use self::args::ConvertArgs;
use crate::verify::{self, Comparison};
use crate::{open, report};

/// What was done, or would be.
#[derive(Serialize)]
struct Conversion {
    source: String,
    source_bytes: u64,
    destination: String,
    encoding: String,
    head: String,
    /// Bytes of all tensors as they will lie in the file.
    tensor_bytes: u64,
    decisions: Vec<String>,
    /// Nothing for a dry run.
    seconds: Option<f64>,
    /// Nothing if it was not compared.
    verified: Option<Comparison>,
}

/// Runs the command.
pub(crate) fn convert(args: &ConvertArgs) -> Result<()> {
    let options = OpenOptions { group_len: args.group, naive: args.naive, ..args.file.options() };
    let source = open::original(Some(&args.source))?.open(&options)?;
    check_group(args, &source)?;
    let target = choose::target(args, &source)?;
    let plan = target.plan(&source)?;
    let mut conversion = describe(args, &source, &target, &plan);
    if !args.dry_run {
        check_destination(args, &source, &target)?;
        let started = Instant::now();
        let needed = conversion.tensor_bytes;
        let staged =
            stage(&source, &target, &args.destination).map_err(|error| with_room(error, needed))?;
        conversion.seconds = Some(started.elapsed().as_secs_f64());
        if !args.no_verify {
            let written = ModelFile::open(staged.path(), &OpenOptions::default())
                .context("reading back what was written")?;
            let comparison = verify::compare(&source, &written, target.threads)?;
            if let Some(fault) = comparison.fault() {
                bail!("what was written is not what was read, and is not kept: {fault}");
            }
            conversion.verified = Some(comparison);
        }
        staged.settle()?;
    }
    if args.json { report::json(&conversion) } else { print_text(&conversion, &target) }
}

/// Says how much room is needed where there was too little.
fn with_room(error: wf_formats::Error, needed: u64) -> anyhow::Error {
    let is_full = matches!(&error, wf_formats::Error::Io { source, .. }
        if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded));
    if is_full {
        anyhow!("{error}: {} are needed", report::megabytes(needed))
    } else {
        error.into()
    }
}

fn stage(source: &ModelFile, target: &Target, out: &Path) -> Result<Staged, wf_formats::Error> {
    let bar = bar::bytes("converting", source.tensors().iter().map(|t| t.size).sum());
    let staged = target.stage(source, out, &mut |done| bar.set_position(done));
    bar.finish_and_clear();
    staged
}

fn check_group(args: &ConvertArgs, source: &ModelFile) -> Result<()> {
    let has_masters =
        source.tensors().iter().any(|t| matches!(t.encoding, Encoding::MasterWeights(_)));
    if args.group.is_some() && !has_masters {
        bail!("--group is for master weights: the trits and scales of this model are set already");
    }
    Ok(())
}

/// Refuses to touch what is there, before any work is done.
fn check_destination(args: &ConvertArgs, source: &ModelFile, target: &Target) -> Result<()> {
    let out = &args.destination;
    let same =
        |a: &Path, b: &Path| a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b));
    let files = target.files(source, out);
    if same(out, &args.source)
        || source.format().files.iter().any(|f| files.iter().any(|o| same(o, Path::new(&f.path))))
    {
        bail!("{}: source and destination are the same", out.display());
    }
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        bail!("{}: there is no directory {}", out.display(), parent.display());
    }
    if args.force {
        return Ok(());
    }
    let is_taken = match target.container {
        Container::Packed => out.read_dir().is_ok_and(|mut entries| entries.next().is_some()),
        _ => out.exists(),
    };
    if is_taken {
        bail!("{} exists: --force replaces it", out.display());
    }
    Ok(())
}

fn describe(
    args: &ConvertArgs,
    source: &ModelFile,
    target: &Target,
    plan: &[PlannedTensor],
) -> Conversion {
    let format = source.format();
    let kind = match target.container {
        Container::Gguf(_) => "GGUF",
        Container::Packed => "Hugging Face safetensors",
        Container::Sglbitnt => "SGLBITNT",
        Container::Wf => "WrinkleFree",
    };
    Conversion {
        source: format!("{}, {}", args.source.display(), format.kind),
        source_bytes: format.size_bytes(),
        destination: format!("{}, {kind}", args.destination.display()),
        encoding: target.container.trits().to_string(),
        head: target.head.to_string(),
        tensor_bytes: plan.iter().map(|t| t.size).sum(),
        decisions: format.decisions.clone(),
        seconds: None,
        verified: None,
    }
}

fn print_text(c: &Conversion, target: &Target) -> Result<()> {
    let mut rows = vec![
        ("source", format!("{}, {}", c.source, report::megabytes(c.source_bytes))),
        ("destination", c.destination.clone()),
        ("tensors", format!("{}, {}", c.encoding, report::megabytes(c.tensor_bytes))),
    ];
    let cost = choose::cost_of(target.head);
    let cost =
        cost.map_or(String::new(), |cost| format!(": {cost}, as published for BitNet-b1.58-2B-4T"));
    rows.push(("head", format!("{}{cost}", c.head)));
    rows.extend(c.decisions.iter().map(|decision| ("decided", decision.clone())));
    match c.seconds {
        None => rows.push(("written", "nothing: this was a dry run".to_owned())),
        Some(seconds) => {
            let speed = c.source_bytes as f64 / 1e6 / seconds.max(1e-9);
            rows.push(("written", format!("in {seconds:.1} s, {speed:.0} MB/s of input")));
            let verified = c.verified.as_ref();
            let compared = verified.map_or("no (--no-verify)".to_owned(), Comparison::summary);
            rows.push(("verified", compared));
        }
    }
    report::table(&rows)
}
