//! `wf doctor`: checks that this machine computes correctly.
//!
//! It tells a weak model from a broken engine by computing known results on this machine.

mod kernels;
mod machine;
mod reference;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use serde::Serialize;
use serde_json::json;

use crate::output;

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  wf doctor                                 compare every kernel with the scalar one, and the
                                            demo model with known logits
  wf doctor --json                          the same as JSON, for a bug report")]
pub(crate) struct DoctorArgs {
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The result of a check, or a property of the machine.
#[derive(Serialize)]
pub(crate) struct Finding {
    what: String,
    found: String,
    /// `None` for a property.
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

pub(crate) fn doctor(args: &DoctorArgs) -> Result<()> {
    let mut findings = machine::facts();
    findings.extend(kernels::checks());
    findings.extend(reference::checks());
    let faults = findings.iter().filter(|finding| finding.ok == Some(false)).count();
    if args.json {
        output::json(&json!({"healthy": faults == 0, "findings": findings}))?;
    } else {
        let mark = |finding: &Finding| match finding.ok {
            None => finding.found.clone(),
            Some(true) => format!("ok    {}", finding.found),
            Some(false) => format!("WRONG {}", finding.found),
        };
        let rows: Vec<_> = findings.iter().map(|f| (f.what.as_str(), mark(f))).collect();
        output::table(&rows)?;
        output::stream(if faults == 0 { "\nall checks passed\n" } else { "\n" })?;
    }
    match faults {
        0 => Ok(()),
        _ => bail!("{faults} checks failed: results of this machine are not reliable"),
    }
}
