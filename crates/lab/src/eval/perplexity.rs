//! Perplexity: how well a model predicts a text.

use std::fmt;

use anyhow::Result;
use serde::Serialize;
use wf_engine::{RunOptions, load_model};
use wf_formats::ModelFile;
use wf_model::math;

use super::Windows;

/// The perplexity of a text.
#[derive(Serialize)]
pub struct PerplexityReport {
    perplexity: f64,
    mean_nll: f64,
    tokens: usize,
    window: usize,
}

/// Measures how well a model predicts `text`, cut into windows of `window` tokens (by default, the
/// context length) that do not overlap.
pub fn perplexity(
    file: &ModelFile,
    options: &RunOptions,
    text: &str,
    window: Option<usize>,
) -> Result<PerplexityReport> {
    let windows = Windows::new(file, options, text, window)?;
    let mean_nll = windows.mean_nll(&mut load_model(file, options, &mut |_| {})?)?;
    Ok(PerplexityReport {
        perplexity: math::exp(mean_nll),
        mean_nll,
        tokens: windows.predicted(),
        window: windows.len,
    })
}

impl fmt::Display for PerplexityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { perplexity, mean_nll, tokens, window } = self;
        writeln!(
            f,
            "perplexity {perplexity:.4} (mean_nll {mean_nll:.6} over {tokens} tokens, windows of {window})"
        )
    }
}
