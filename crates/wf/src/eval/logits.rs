//! `wf eval logits`: the scores a model gives after some tokens.

use anyhow::{Result, ensure};
use serde::Serialize;
use wf_engine::{TokenId, load_model, read_text};

use super::args::LogitsArgs;
use super::{nll, score};
use crate::{open, report};

/// How many of the best scores are shown.
const SHOWN: usize = 20;

#[derive(Serialize)]
struct Scores {
    /// Mean of −ln p over the ids but the first; nothing for a single id.
    mean_nll: Option<f64>,
    top: Vec<Score>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logits: Option<Vec<f32>>,
}

#[derive(Serialize)]
struct Score {
    id: TokenId,
    logit: f32,
    piece: Option<String>,
}

/// Runs the command.
pub(crate) fn logits(args: &LogitsArgs) -> Result<()> {
    let options = args.compute.options(&args.file);
    let file = open::file(&open::source(args.model.as_deref())?, &options.open)?;
    // Scores need no tokenizer; pieces are shown where there is one.
    let text = read_text(&file).ok();
    let mut model = load_model(&file, &options, &mut |_| {})?;
    let context_len = options.context_len.unwrap_or(file.config().context_len);
    let tokens = args.ids.len();
    ensure!(tokens <= context_len, "{tokens} tokens were given: the context holds {context_len}");

    let mut sum = 0.0;
    let mut last = Vec::new();
    score(&mut model, &args.ids, |position, scores| match args.ids.get(position + 1) {
        Some(&next) => sum += nll(scores, next),
        None => last = scores.to_vec(),
    })?;

    let mut best: Vec<TokenId> = (0..last.len() as TokenId).collect();
    let rank =
        |a: &TokenId, b: &TokenId| last[*b as usize].total_cmp(&last[*a as usize]).then(a.cmp(b));
    best.sort_unstable_by(rank);
    let piece = |id| {
        let bytes = text.as_ref()?.tokenizer.piece(id)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    let top = best.iter().take(SHOWN);
    let scores = Scores {
        mean_nll: (args.ids.len() > 1).then(|| sum / (args.ids.len() - 1) as f64),
        top: top.map(|&id| Score { id, logit: last[id as usize], piece: piece(id) }).collect(),
        logits: args.all.then(|| last.clone()),
    };
    if args.json { report::json(&scores) } else { print_text(&scores) }
}

fn print_text(scores: &Scores) -> Result<()> {
    if let Some(mean_nll) = scores.mean_nll {
        report::stream(&format!("mean_nll {mean_nll:.6}\n"))?;
    }
    for Score { id, logit, piece } in &scores.top {
        let piece = piece.as_ref().map_or(String::new(), |piece| format!("{piece:?}"));
        report::stream(&format!("{id:>7}  {logit:>10.5}  {piece}\n"))?;
    }
    for (id, logit) in scores.logits.iter().flatten().enumerate() {
        report::stream(&format!("{id:>7}  {logit:>10.5}\n"))?;
    }
    Ok(())
}
