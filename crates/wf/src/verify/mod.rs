//! `wf verify`: checks that two files are the same model, by their values and their logits.

pub(crate) mod args;
mod compare;
mod config;
mod probe;
mod tensors;

use anyhow::{Result, bail};

use self::args::VerifyArgs;
pub(crate) use self::compare::{Comparison, compare, compare_values};
use crate::{cpu, open, output};

pub(crate) fn verify(args: &VerifyArgs) -> Result<()> {
    let options = args.file.options();
    let first = open::file(&open::original(Some(&args.first))?, &options)?;
    let second = open::file(&open::original(Some(&args.second))?, &options)?;
    let comparison = compare(&first, &second, args.threads.unwrap_or_else(cpu::cores))?;
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
