//! `wf eval perplexity`: how well a model predicts a text.
//!
//! The text is cut into windows that do not overlap; each starts with what the model puts before
//! any text, and every token after that counts once.

use std::path::Path;

use anyhow::{Result, ensure};
use serde::Serialize;
use wf_engine::{RunOptions, TokenId, load_model, read_text};
use wf_model::math;

use super::args::PerplexityArgs;
use super::{nll, score};
use crate::{open, report};

#[derive(Serialize)]
struct Perplexity {
    perplexity: f64,
    mean_nll: f64,
    tokens: usize,
    window: usize,
}

/// Runs the command.
pub(crate) fn perplexity(args: &PerplexityArgs) -> Result<()> {
    let options = RunOptions { head: args.head.head, ..args.compute.options(&args.file) };
    let (model, text) = args.words.split("file")?;
    let text = open::read_text_file(Path::new(text))?;
    let file = open::file(&open::source(model)?, &options.open)?;
    let text_side = read_text(&file)?;
    let ids = text_side.tokenizer.encode(&text);
    let prefix = &text_side.prompt_prefix;

    let mut model = load_model(&file, &options, &mut |_| {})?;
    let context_len = options.context_len.unwrap_or(file.config().context_len);
    let window = args.window.unwrap_or(context_len).min(context_len);
    let least = prefix.len() + 2;
    ensure!(
        window >= least,
        "a window of {window} is too short: at least {least} tokens are needed"
    );

    let (mut sum, mut tokens) = (0.0, 0);
    for part in ids.chunks(window - prefix.len()) {
        let window_ids: Vec<TokenId> = [&prefix[..], part].concat();
        score(&mut model, &window_ids, |position, scores| {
            if let Some(&next) = window_ids.get(position + 1) {
                sum += nll(scores, next);
                tokens += 1;
            }
        })?;
    }
    ensure!(tokens > 0, "the text has {} tokens: at least 2 are needed", ids.len());

    let mean_nll = sum / tokens as f64;
    let result = Perplexity { perplexity: math::exp(mean_nll), mean_nll, tokens, window };
    if args.json {
        return report::json(&result);
    }
    let Perplexity { perplexity, mean_nll, tokens, window } = result;
    report::stream(&format!(
        "perplexity {perplexity:.4} (mean_nll {mean_nll:.6} over {tokens} tokens, windows of {window})\n"
    ))
}
