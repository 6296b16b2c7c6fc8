//! Compares two models.

use anyhow::Result;
use serde::Serialize;
use wf_formats::ModelFile;

use super::config;
use super::probe::{self, Probe};
use super::tensors::{self, Tensors};

#[derive(Serialize)]
pub(crate) struct Comparison {
    /// Settings and tokens that differ.
    pub(super) settings: Vec<String>,
    /// Differences that do not change logits.
    pub(super) notes: Vec<String>,
    #[serde(flatten)]
    pub(super) tensors: Tensors,
    /// `None` if the models were not run.
    pub(super) probe: Option<Probe>,
}

/// Compares settings, tokens, all tensors, and the logits of a few tokens.
pub(crate) fn compare(first: &ModelFile, second: &ModelFile, threads: usize) -> Result<Comparison> {
    let mut found = compare_values(first, second)?;
    if found.fault().is_none() {
        found.probe = Some(probe::compare(first, second, &found.tensors, threads)?);
    }
    Ok(found)
}

/// Compares settings, tokens and all tensors.
pub(crate) fn compare_values(first: &ModelFile, second: &ModelFile) -> Result<Comparison> {
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
    /// Returns the first difference that matters.
    pub(crate) fn fault(&self) -> Option<String> {
        let setting = self.settings.first().cloned();
        setting
            .or_else(|| self.tensors.fault())
            .or_else(|| self.probe.as_ref().and_then(Probe::fault))
    }

    /// Returns a summary in one line.
    pub(crate) fn summary(&self) -> String {
        let probe = self.probe.as_ref().map(Probe::summary);
        [Some(self.tensors.summary()), probe].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}
