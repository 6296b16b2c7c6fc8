//! The logits of a model after given tokens.

use std::fmt;

use anyhow::{Result, ensure};
use serde::Serialize;
use wf_engine::{RunOptions, TokenId, load_model, read_text};
use wf_formats::ModelFile;

use super::{nll, score};

/// Number of tokens with the highest logits that are reported.
const TOP: usize = 20;

/// The logits of the last position, and how well the model predicts the tokens before it.
#[derive(Serialize)]
pub struct LogitsReport {
    /// Mean of −ln p over all ids but the first; `None` for a single id.
    mean_nll: Option<f64>,
    top: Vec<TopToken>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logits: Option<Vec<f32>>,
}

#[derive(Serialize)]
struct TopToken {
    id: TokenId,
    logit: f32,
    piece: Option<String>,
}

/// Runs `ids` and reports the highest logits of the last position, or all of them.
pub fn logits(
    file: &ModelFile,
    options: &RunOptions,
    ids: &[TokenId],
    all: bool,
) -> Result<LogitsReport> {
    let context_len = options.context_len.unwrap_or(file.info().context_len);
    let context_len = options.attention.max_len(context_len);
    ensure!(
        ids.len() <= context_len,
        "{} tokens do not fit the context of {context_len}",
        ids.len()
    );
    // Logits need no tokenizer; pieces are shown if there is one.
    let text = read_text(file).ok();
    let mut model = load_model(file, options, &mut |_| {})?;

    let mut sum = 0.0;
    let mut last = Vec::new();
    score(&mut model, ids, |position, logits| match ids.get(position + 1) {
        Some(&next) => sum += nll(logits, next),
        None => last = logits.to_vec(),
    })?;

    let mut best: Vec<TokenId> = (0..last.len() as TokenId).collect();
    let rank =
        |a: &TokenId, b: &TokenId| last[*b as usize].total_cmp(&last[*a as usize]).then(a.cmp(b));
    best.sort_unstable_by(rank);
    let piece = |id| {
        let bytes = text.as_ref()?.tokenizer.token_bytes(id)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    let top = best.iter().take(TOP);
    Ok(LogitsReport {
        mean_nll: (ids.len() > 1).then(|| sum / (ids.len() - 1) as f64),
        top: top.map(|&id| TopToken { id, logit: last[id as usize], piece: piece(id) }).collect(),
        logits: all.then_some(last),
    })
}

impl fmt::Display for LogitsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(mean_nll) = self.mean_nll {
            writeln!(f, "mean_nll {mean_nll:.6}")?;
        }
        for TopToken { id, logit, piece } in &self.top {
            let piece = piece.as_ref().map_or(String::new(), |piece| format!("{piece:?}"));
            writeln!(f, "{id:>7}  {logit:>10.5}  {piece}")?;
        }
        for (id, logit) in self.logits.iter().flatten().enumerate() {
            writeln!(f, "{id:>7}  {logit:>10.5}")?;
        }
        Ok(())
    }
}
