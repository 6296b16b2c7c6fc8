//! `wf verify`: whether two files are the same model, number by number and by the scores they give.

pub(crate) mod args;
mod config;
mod probe;
mod tensors;

use anyhow::{Result, bail};
use serde::Serialize;
use wf_formats::ModelFile;

use self::args::VerifyArgs;
use self::probe::Probe;
use self::tensors::Tensors;
use crate::{open, report};

/// What two models have in common, and what not.
#[derive(Serialize)]
pub(crate) struct Comparison {
    /// Settings of the network that differ, and tokens.
    settings: Vec<String>,
    /// What differs and does not change a score.
    notes: Vec<String>,
    #[serde(flatten)]
    tensors: Tensors,
    /// Nothing if the two were not run, or cannot give the same scores anyway.
    probe: Option<Probe>,
}

/// Runs the command.
pub(crate) fn verify(args: &VerifyArgs) -> Result<()> {
    let options = args.file.options();
    let first = open::file(&open::original(Some(&args.first))?, &options)?;
    let second = open::file(&open::original(Some(&args.second))?, &options)?;
    let comparison = compare(&first, &second, args.threads.unwrap_or_else(open::cores))?;
    let fault = match comparison.fault() {
        None if args.exact => comparison.tensors.rounding(),
        fault => fault,
    };
    if args.json {
        report::json(&comparison)?;
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

/// Compares two models: settings, tokens, every tensor, and the scores of a few tokens.
pub(crate) fn compare(first: &ModelFile, second: &ModelFile, threads: usize) -> Result<Comparison> {
    let mut found = compare_numbers(first, second)?;
    if found.fault().is_none() {
        found.probe = Some(probe::compare(first, second, &found.tensors, threads)?);
    }
    Ok(found)
}

/// The same without running the two.
pub(crate) fn compare_numbers(first: &ModelFile, second: &ModelFile) -> Result<Comparison> {
    let settings = config::differences(first, second);
    let mut notes = Vec::new();
    if first.chat_template() != second.chat_template() {
        notes.push("the chat templates differ".to_owned());
    }
    if !settings.is_empty() {
        let tensors = Tensors::default();
        return Ok(Comparison { settings, notes, tensors, probe: None });
    }
    let tensors = tensors::compare(first, second)?;
    Ok(Comparison { settings, notes, tensors, probe: None })
}

impl Comparison {
    /// Why the two are not the same model, if they are not.
    pub(crate) fn fault(&self) -> Option<String> {
        let setting = self.settings.first().cloned();
        setting
            .or_else(|| self.tensors.fault())
            .or_else(|| self.probe.as_ref().and_then(Probe::fault))
    }

    /// What was found, in one line.
    pub(crate) fn summary(&self) -> String {
        let probe = self.probe.as_ref().map(Probe::summary);
        [Some(self.tensors.summary()), probe].into_iter().flatten().collect::<Vec<_>>().join("; ")
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
    rows.extend(c.probe.iter().map(|probe| ("scores", probe.summary())));
    rows.push(("same model", if same { "yes" } else { "no" }.to_owned()));
    report::table(&rows)
}
