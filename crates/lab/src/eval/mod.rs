//! Measures a model: logits, perplexity, the cost of settings, tasks, and recordings to compare later versions with.

mod check;
mod compare;
mod compare_report;
mod divergence;
mod kv;
mod logits;
mod pair;
mod recording;
mod settings;
mod sparsity;
pub mod tasks;

use std::fmt;

use anyhow::{Result, ensure};
use serde::Serialize;
use wf_engine::{RunOptions, TokenId, load_model, read_text};
use wf_formats::ModelFile;
use wf_model::{Forward, Logits, Model, PAGE_LEN, PageId, Segment, math};

pub use self::check::{CheckLimits, CheckReport, check};
pub use self::compare::{Comparison, compare};
pub use self::kv::{KvReport, compare_kv};
pub use self::logits::{LogitsReport, logits};
pub use self::recording::{Recording, record};
pub use self::settings::Settings;
pub use self::sparsity::{SparsityGoals, SparsityReport, sparsity};

/// Runs `ids` from position 0 and calls `each` with every position and its logits.
pub fn score(
    model: &mut Model,
    ids: &[TokenId],
    mut each: impl FnMut(usize, &[f32]),
) -> Result<()> {
    check_ids(model, ids)?;
    let vocab_len = model.network().vocab_len;
    let pages = pages(model, ids.len());
    let mut logits = Logits::new(vocab_len);
    let mut start = 0;
    for tokens in ids.chunks(model.max_batch_tokens()) {
        let want: Vec<usize> = (0..tokens.len()).collect();
        let segment = Segment::causal(tokens, start, &pages, &want);
        model.forward(&[segment], &mut logits);
        for row in 0..tokens.len() {
            each(start + row, logits.row(row));
        }
        start += tokens.len();
    }
    Ok(())
}

/// Returns the pages of the positions below `len`. Pages that a window has slid over are used again.
fn pages(model: &Model, len: usize) -> Vec<PageId> {
    let sinks = model.attention().window().map_or(0, |window| window.sinks.div_ceil(PAGE_LEN));
    let others = model.pages() - sinks;
    let page = |at: usize| if at < sinks { at } else { sinks + (at - sinks) % others };
    (0..len.div_ceil(PAGE_LEN)).map(|at| page(at) as PageId).collect()
}

/// Fails unless the model can run `ids` from position 0.
fn check_ids(model: &Model, ids: &[TokenId]) -> Result<()> {
    let vocab_len = model.network().vocab_len;
    let context_len = model.attention().max_len(model.pages() * PAGE_LEN);
    ensure!(!ids.is_empty(), "no tokens: at least one is required");
    ensure!(
        ids.len() <= context_len,
        "{} tokens do not fit the context of {context_len}",
        ids.len()
    );
    if let Some(id) = ids.iter().find(|&&id| id as usize >= vocab_len) {
        anyhow::bail!("token id {id} is not in the vocabulary: must be 0 to {}", vocab_len - 1);
    }
    Ok(())
}

/// Returns the cosine of the angle between two vectors; 1 for two vectors of zeros.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let (aa, bb) = (dot(a, a), dot(b, b));
    if aa == 0.0 && bb == 0.0 { 1.0 } else { dot(a, b) / (aa * bb).sqrt() }
}

/// Returns −ln of the probability that `logits` give to `token`.
fn nll(logits: &[f32], token: TokenId) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&l| math::exp(f64::from(l) - f64::from(max))).sum();
    math::ln(sum) + f64::from(max) - f64::from(logits[token as usize])
}

/// The perplexity of a text.
#[derive(Serialize)]
pub struct PerplexityReport {
    perplexity: f64,
    mean_nll: f64,
    tokens: usize,
    window: usize,
}

/// Measures how well a model predicts `text`, cut into windows of `window` tokens (by default, the
/// context length) that do not overlap. With a sliding window of attention, the default is the whole text.
pub fn perplexity(
    file: &ModelFile,
    options: &RunOptions,
    text: &str,
    window: Option<usize>,
) -> Result<PerplexityReport> {
    let context_len = options.context_len.unwrap_or(file.info().context_len);
    let windows = Windows::within(options.attention.max_len(context_len), file, text, window)?;
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

/// A text cut into windows that do not overlap, each with the model's prompt prefix before it.
struct Windows {
    /// Maximum number of tokens of a window.
    len: usize,
    ids: Vec<Vec<TokenId>>,
}

impl Windows {
    fn new(file: &ModelFile, options: &RunOptions, text: &str, len: Option<usize>) -> Result<Self> {
        let context_len = options.context_len.unwrap_or(file.info().context_len);
        Self::within(context_len, file, text, len)
    }

    /// Cuts a text into windows of `len` tokens, or of as many as they may have.
    fn within(max_len: usize, file: &ModelFile, text: &str, len: Option<usize>) -> Result<Self> {
        let len = len.unwrap_or(max_len).min(max_len);
        let model_text = read_text(file)?;
        let prefix = &model_text.prompt_prefix;
        let min = prefix.len() + 2;
        ensure!(len >= min, "a window of {len} tokens is too short: must be at least {min}");
        let tokens = model_text.tokenizer.encode(text);
        let ids: Vec<Vec<TokenId>> =
            tokens.chunks(len - prefix.len()).map(|part| [&prefix[..], part].concat()).collect();
        let windows = Self { len, ids };
        let predicted = windows.predicted();
        ensure!(predicted > 0, "the text has {} tokens: at least 2 are required", tokens.len());
        Ok(windows)
    }

    /// Returns the first `len` tokens of the first window.
    fn first(&self, len: usize) -> Self {
        let ids = self.ids.iter().take(1).map(|ids| ids[..ids.len().min(len)].to_vec());
        Self { len: self.len, ids: ids.collect() }
    }

    /// Returns the number of tokens that are predicted: all but the first of each window.
    fn predicted(&self) -> usize {
        self.ids.iter().map(|ids| ids.len() - 1).sum()
    }

    /// Returns the number of tokens of the longest window.
    fn longest(&self) -> usize {
        self.ids.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Returns the mean of −ln p over all predicted tokens.
    fn mean_nll(&self, model: &mut Model) -> Result<f64> {
        let mut sum = 0.0;
        for ids in &self.ids {
            score(model, ids, |position, logits| {
                if let Some(&next) = ids.get(position + 1) {
                    sum += nll(logits, next);
                }
            })?;
        }
        Ok(sum / self.predicted() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_of_known_angles() {
        assert_eq!(cosine(&[3.0, 4.0], &[6.0, 8.0]), 1.0);
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 1.0]), 0.0);
        assert_eq!(cosine(&[1.0, 0.0], &[-2.0, 0.0]), -1.0);
        assert_eq!(cosine(&[0.0; 3], &[0.0; 3]), 1.0);
    }
}
