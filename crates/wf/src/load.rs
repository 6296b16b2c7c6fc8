//! `wf load` and `wf validate`: test a running server.

use anyhow::{Result, bail};
use wf_lab::load::{self, LoadArgs, PrefixReport};
use wf_lab::validate::{self, ValidateArgs};

use crate::input;
use crate::output::{self, UsageError};

pub(crate) fn load(args: &LoadArgs) -> Result<()> {
    args.check().map_err(UsageError::new)?;
    if let Some(tokens) = args.prefix {
        return print_prefix(&load::measure_prefix(args, tokens)?, args.json);
    }
    if args.fairness {
        let report = load::measure_fairness(args)?;
        return if args.json { output::json(&report) } else { output::table(&report.rows()) };
    }
    let report = load::run(args, prompts(args)?.as_deref())?;
    if !args.shared && !report.has_server_counts() {
        output::note("the server has no /metrics: its counts are not compared");
    }
    if let Some(path) = &args.plot {
        output::write_file(path, report.svg())?;
    }
    match args.json {
        true => output::json(&report)?,
        false => output::table(&report.rows())?,
    }
    match report.errors() {
        errors if errors.is_empty() => Ok(()),
        errors => bail!("{}", errors.join("; ")),
    }
}

/// Reads the prompts of the file, if one is given.
fn prompts(args: &LoadArgs) -> Result<Option<Vec<String>>> {
    let Some(path) = args.prompts() else { return Ok(None) };
    let text = input::read_text_file(path)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let prompts: Vec<String> = lines.map(str::to_owned).collect();
    if prompts.is_empty() {
        return Err(UsageError::new(format!("--prompts {}: no prompts", path.display())).into());
    }
    Ok(Some(prompts))
}

fn print_prefix(report: &PrefixReport, json: bool) -> Result<()> {
    let PrefixReport { tokens, cached_tokens, first_ms, second_ms, difference } = report;
    let speedup = first_ms / second_ms;
    match json {
        true => output::json(report)?,
        false => output::table(&[
            ("prefix", format!("{tokens} shared tokens, {cached_tokens} of them cached")),
            ("first token", format!("{first_ms:.1} ms with an empty cache")),
            ("", format!("{second_ms:.1} ms with the prefix cached: {speedup:.1} times as fast")),
        ])?,
    }
    match difference {
        None => Ok(()),
        Some(difference) => bail!("the responses differ: {difference:?}"),
    }
}

pub(crate) fn validate(args: &ValidateArgs) -> Result<()> {
    let mut print = |line: &str| if args.json { Ok(()) } else { output::stream(line) };
    let validation = validate::validate(args, &mut print)?;
    if args.json {
        output::json(&validation)?;
    }
    match validation.failed() {
        (0, _) => Ok(()),
        (failed, all) => bail!("{failed} of {all} checks failed"),
    }
}
