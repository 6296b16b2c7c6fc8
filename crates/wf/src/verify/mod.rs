//! `wf verify`: checks that two files are the same model, by their values and their logits.

mod compare;
mod config;
mod probe;
mod tensors;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;

pub(crate) use self::compare::{Comparison, compare, compare_values};
use crate::args::{FileArgs, parse_threads};
use crate::{cpu, open, output};

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    after_help = "\
Trits must be equal. Scales may differ by rounding to f16 if a file stores them so, and the embedding
by the rounding of its type; --exact allows neither. The exit code is 1 if the models differ.

Examples:
  wf verify checkpoint/ bitnet-2b.gguf                 is it the same model
  wf verify bitnet-2b.gguf copy.gguf --exact           equal to the last bit"
)]
pub(crate) struct VerifyArgs {
    /// First model
    #[arg(value_name = "A")]
    first: PathBuf,

    /// Second model
    #[arg(value_name = "B")]
    second: PathBuf,

    /// Require all values to be equal, without rounding
    #[arg(long)]
    exact: bool,

    /// Number of threads [default: all cores, or OMP_NUM_THREADS if it is less]
    #[arg(long, short, value_name = "N", value_parser = parse_threads)]
    threads: Option<usize>,

    /// Print a JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    file: FileArgs,
}

pub(crate) fn verify(args: &VerifyArgs) -> Result<()> {
    let options = args.file.options();
    let first = open::file(&open::original(Some(&args.first))?, &options)?;
    let second = open::file(&open::original(Some(&args.second))?, &options)?;
    let comparison = compare(&first, &second, args.threads.unwrap_or_else(cpu::default_threads))?;
    let fault = match comparison.fault() {
        None if args.exact => comparison.tensors.rounding(),
        fault => fault,
    };
    if args.json {
        output::json(&comparison)?;
    } else {
        print_text(&comparison, fault.is_none())?;
    }
    match fault {
        None => Ok(()),
        Some(fault) => {
            let (first, second) = (args.first.display(), args.second.display());
            bail!("{first} and {second} differ: {fault}")
        }
    }
}

fn print_text(c: &Comparison, same: bool) -> Result<()> {
    let mut rows = Vec::new();
    rows.extend(c.settings.iter().map(|text| ("setting", text.clone())));
    rows.extend(c.notes.iter().map(|text| ("note", text.clone())));
    rows.extend(c.tensors.different.iter().map(|text| ("differs", text.clone())));
    if c.settings.is_empty() {
        rows.push(("tensors", c.tensors.summary()));
    }
    rows.extend(c.probe.iter().map(|probe| ("logits", probe.summary())));
    rows.push(("same model", if same { "yes" } else { "no" }.to_owned()));
    output::table(&rows)
}
