//! `wf doctor`: check that this machine and this program compute right.
//!
//! It answers the question behind most bug reports, whether a strange reply comes from a weak
//! model or a broken engine, by computing known answers on this very machine.

mod kernels;
mod machine;
mod reference;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::report;

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  wf doctor                                 every kernel against the scalar one, the demo's scores
                                            against their record
  wf doctor --json                          the same for a program, or for a bug report")]
pub(crate) struct DoctorArgs {
    /// Print one JSON object
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,
}

/// One thing looked at.
#[derive(Serialize)]
pub(crate) struct Finding {
    what: String,
    found: String,
    /// Whether it is as it should be; nothing for a mere fact.
    ok: Option<bool>,
}

impl Finding {
    fn fact(what: &str, found: impl Into<String>) -> Self {
        Self { what: what.to_owned(), found: found.into(), ok: None }
    }

    fn check(what: impl Into<String>, outcome: Result<String, String>) -> Self {
        let ok = Some(outcome.is_ok());
        Self { what: what.into(), found: outcome.unwrap_or_else(|fault| fault), ok }
    }
}

#[derive(Serialize)]
struct Diagnosis {
    healthy: bool,
    findings: Vec<Finding>,
}

/// Runs the command.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<()> {
    let mut findings = machine::facts();
    findings.extend(kernels::checks());
    findings.extend(reference::checks());
    let faults = findings.iter().filter(|finding| finding.ok == Some(false)).count();
    let diagnosis = Diagnosis { healthy: faults == 0, findings };
    if args.json {
        report::json(&diagnosis)?;
    } else {
        print_text(&diagnosis)?;
    }
    match faults {
        0 => Ok(()),
        _ => bail!("{faults} checks failed: do not trust this machine's replies"),
    }
}

fn print_text(diagnosis: &Diagnosis) -> Result<()> {
    let mark = |finding: &Finding| match finding.ok {
        None => finding.found.clone(),
        Some(true) => format!("ok    {}", finding.found),
        Some(false) => format!("WRONG {}", finding.found),
    };
    let rows: Vec<_> = diagnosis.findings.iter().map(|f| (f.what.as_str(), mark(f))).collect();
    report::table(&rows)?;
    report::stream(if diagnosis.healthy { "\nall is well\n" } else { "\n" })
}
