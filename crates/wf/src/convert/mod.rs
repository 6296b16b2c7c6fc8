//! `wf convert`: converts any ternary model to any format, and verifies the result.

pub(crate) mod args;
mod choose;

use std::io::ErrorKind;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Serialize;
use wf_formats::{
    Container, Encoding, FloatEncoding, ModelFile, OpenOptions, PlannedTensor, Target, TensorInfo,
};

use self::args::ConvertArgs;
use crate::verify::{self, Comparison};
use crate::{open, output, progress};

#[derive(Serialize)]
struct Conversion {
    source: String,
    source_bytes: u64,
    destination: String,
    encoding: String,
    head: String,
    tensor_bytes: u64,
    decisions: Vec<String>,
    /// `None` for a dry run.
    seconds: Option<f64>,
    /// `None` if it was not compared.
    verified: Option<Comparison>,
}

pub(crate) fn convert(args: &ConvertArgs) -> Result<()> {
    let options = OpenOptions { group_len: args.group, naive: args.naive, ..args.file.options() };
    let source = open::original(Some(&args.source))?.open(&options)?;
    let is_master = |t: &TensorInfo| matches!(t.encoding, Encoding::MasterWeights(_));
    ensure!(
        args.group.is_none() || source.tensors().iter().any(is_master),
        "--group requires master weights: this model is quantized already"
    );
    let target = choose::target(args, &source)?;
    let plan = target.plan(&source)?;
    let mut conversion = describe(args, &source, &target, &plan);
    if !args.dry_run {
        check_destination(args, &source, &target)?;
        let started = Instant::now();
        let needed = conversion.tensor_bytes;
        let staged = progress::stage(&source, &target, &args.destination)
            .map_err(|error| with_needed_space(error, needed))?;
        conversion.seconds = Some(started.elapsed().as_secs_f64());
        if !args.no_verify {
            let written = ModelFile::open(staged.path(), &OpenOptions::default())
                .context("reading the result back")?;
            let comparison = verify::compare(&source, &written, target.threads)?;
            if let Some(fault) = comparison.fault() {
                bail!("the conversion differs from its source and was discarded: {fault}");
            }
            conversion.verified = Some(comparison);
        }
        staged.commit()?;
    }
    if args.json { output::json(&conversion) } else { print_text(&conversion, &target) }
}

/// Adds the required size to an error about a full disk.
fn with_needed_space(error: wf_formats::Error, needed: u64) -> anyhow::Error {
    let is_full = matches!(&error, wf_formats::Error::Io { source, .. }
        if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded));
    if is_full {
        anyhow!("{error}: {} are required", output::megabytes(needed))
    } else {
        error.into()
    }
}

/// Checks before any work that the destination can be written.
fn check_destination(args: &ConvertArgs, source: &ModelFile, target: &Target) -> Result<()> {
    let out = &args.destination;
    let same =
        |a: &Path, b: &Path| a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b));
    let files = target.files(source, out);
    let is_written = |path: &str| files.iter().any(|file| same(file, Path::new(path)));
    ensure!(
        !same(out, &args.source) && !source.format().files.iter().any(|f| is_written(&f.path)),
        "{}: source and destination are the same",
        out.display()
    );
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        bail!("{}: directory {} does not exist", out.display(), parent.display());
    }
    let is_taken = match target.container {
        Container::Packed => out.read_dir().is_ok_and(|mut entries| entries.next().is_some()),
        _ => out.exists(),
    };
    ensure!(args.force || !is_taken, "{} exists: use --force to replace it", out.display());
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
        ("source", format!("{}, {}", c.source, output::megabytes(c.source_bytes))),
        ("destination", c.destination.clone()),
        ("tensors", format!("{}, {}", c.encoding, output::megabytes(c.tensor_bytes))),
    ];
    let cost = target.head.float().and_then(FloatEncoding::cost);
    let cost =
        cost.map_or(String::new(), |cost| format!(": {cost}, as published for BitNet-b1.58-2B-4T"));
    rows.push(("head", format!("{}{cost}", c.head)));
    rows.extend(c.decisions.iter().map(|decision| ("decided", decision.clone())));
    match c.seconds {
        None => rows.push(("written", "nothing (dry run)".to_owned())),
        Some(seconds) => {
            let speed = c.source_bytes as f64 / 1e6 / seconds.max(1e-9);
            rows.push(("written", format!("in {seconds:.1} s, {speed:.0} MB/s of input")));
            let verified = c.verified.as_ref();
            let compared = verified.map_or("no (--no-verify)".to_owned(), Comparison::summary);
            rows.push(("verified", compared));
        }
    }
    output::table(&rows)
}
