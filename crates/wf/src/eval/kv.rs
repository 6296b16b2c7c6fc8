//! `wf eval kv`: what each type of keys and values costs, in memory and in quality.
//!
//! Two measures against f32, over the same windows as `wf eval perplexity`. Perplexity is that of
//! whole passes, where errors of all layers add up. Cosines are those of one layer at a time: each
//! layer gets the input it has under f32, and what its heads give is compared, row by row.

use std::path::Path;

use anyhow::{Result, ensure};
use serde::Serialize;
use wf_engine::{TokenId, load_model, read_text};
use wf_model::{Forward, KvDtype, KvPool, Model, PAGE_LEN, PageId, Segment, math};

use super::args::KvArgs;
use super::{nll, score};
use crate::{open, report};

#[derive(Serialize)]
struct KvReport {
    /// Tokens that were predicted.
    tokens: usize,
    /// Tokens of a window, at most.
    window: usize,
    types: Vec<TypeReport>,
}

/// One type of keys and values.
#[derive(Serialize)]
struct TypeReport {
    kv: &'static str,
    /// Bytes of 1,000 tokens of context, scales included.
    bytes_per_1000_tokens: usize,
    /// Mean of all rows of all layers.
    cosine: f64,
    /// The lowest of all rows of all layers.
    cosine_min: f64,
    perplexity: f64,
    /// How much higher than with f32, as a fraction of 1.
    perplexity_change: f64,
}

/// Runs the command.
pub(crate) fn kv(args: &KvArgs) -> Result<()> {
    let mut options = args.compute.options(&args.file);
    options.kv = KvDtype::F32;
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
    let windows: Vec<Vec<TokenId>> =
        ids.chunks(window - prefix.len()).map(|part| [&prefix[..], part].concat()).collect();
    let tokens = windows.iter().map(|window| window.len() - 1).sum();
    ensure!(tokens > 0, "the text has {} tokens: at least 2 are needed", ids.len());

    let types = compare(&mut model, &windows)?;
    let report = KvReport { tokens, window, types };
    if args.json { report::json(&report) } else { report::stream(&table(&report)) }
}

/// Every type, f32 first. The model comes with pages of f32 and keeps them.
fn compare(model: &mut Model, windows: &[Vec<TokenId>]) -> Result<Vec<TypeReport>> {
    let config = model.config().clone();
    let exact = perplexity(model, windows)?;
    let bytes_per_1000_tokens = |dtype| KvPool::size_bytes(&config, dtype, 1) * 1000 / PAGE_LEN;
    let mut types = vec![TypeReport {
        kv: KvDtype::F32.name(),
        bytes_per_1000_tokens: bytes_per_1000_tokens(KvDtype::F32),
        cosine: 1.0,
        cosine_min: 1.0,
        perplexity: exact,
        perplexity_change: 0.0,
    }];
    for dtype in KvDtype::ALL.into_iter().filter(|&dtype| dtype != KvDtype::F32) {
        let mut pages = KvPool::new(&config, dtype, model.pages());
        let cosines = Cosines::measure(model, &mut pages, windows);
        model.swap_kv(&mut pages);
        let perplexity = perplexity(model, windows)?;
        model.swap_kv(&mut pages);
        types.push(TypeReport {
            kv: dtype.name(),
            bytes_per_1000_tokens: bytes_per_1000_tokens(dtype),
            cosine: cosines.sum / cosines.rows as f64,
            cosine_min: cosines.lowest,
            perplexity,
            perplexity_change: perplexity / exact - 1.0,
        });
    }
    Ok(types)
}

fn perplexity(model: &mut Model, windows: &[Vec<TokenId>]) -> Result<f64> {
    let (mut sum, mut tokens) = (0.0, 0);
    for ids in windows {
        score(model, ids, |position, scores| {
            if let Some(&next) = ids.get(position + 1) {
                sum += nll(scores, next);
                tokens += 1;
            }
        })?;
    }
    Ok(math::exp(sum / f64::from(tokens)))
}

/// Of the heads of a row, all together, with what they are under f32.
struct Cosines {
    rows: usize,
    sum: f64,
    lowest: f64,
}

impl Cosines {
    /// Leaves the model with the pages it had.
    fn measure(model: &mut Model, pages: &mut KvPool, windows: &[Vec<TokenId>]) -> Self {
        let mut cosines = Self { rows: 0, sum: 0.0, lowest: 1.0 };
        let page_ids: Vec<PageId> = (0..model.pages() as PageId).collect();
        for ids in windows {
            let mut start = 0;
            for tokens in ids.chunks(model.max_batch_tokens()) {
                cosines.measure_chunk(model, pages, Segment::causal(tokens, start, &page_ids, &[]));
                start += tokens.len();
            }
        }
        cosines
    }

    fn measure_chunk(&mut self, model: &mut Model, pages: &mut KvPool, segment: Segment<'_>) {
        let (hidden_len, layers) = (model.config().hidden_len, model.config().layers);
        let query_len = model.config().heads * model.config().head_dim;
        let mut hidden = vec![0.0; segment.tokens.len() * hidden_len];
        for (token, row) in segment.tokens.iter().zip(hidden.chunks_exact_mut(hidden_len)) {
            model.weights().embedding.row(*token as usize, row);
        }
        for layer in 0..layers {
            let exact = model.trace_layer(layer, &[segment], &hidden);
            model.swap_kv(pages);
            let rough = model.trace_layer(layer, &[segment], &hidden);
            model.swap_kv(pages);
            let rows = exact.heads.chunks_exact(query_len).zip(rough.heads.chunks_exact(query_len));
            for (exact, rough) in rows {
                self.note(cosine(exact, rough));
            }
            hidden = exact.output;
        }
    }

    fn note(&mut self, cosine: f64) {
        self.rows += 1;
        self.sum += cosine;
        self.lowest = self.lowest.min(cosine);
    }
}

/// 1 for two rows of zeros, which are equal.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let (aa, bb) = (dot(a, a), dot(b, b));
    if aa == 0.0 && bb == 0.0 { 1.0 } else { dot(a, b) / (aa * bb).sqrt() }
}

fn table(report: &KvReport) -> String {
    let mut text = format!(
        "{:<10}{:>16}{:>10}{:>10}{:>12}{:>9}\n",
        "K/V", "MB/1000 tokens", "cosine", "lowest", "perplexity", "change"
    );
    for row in &report.types {
        text += &format!(
            "{:<10}{:>16.3}{:>10.6}{:>10.6}{:>12.4}{:>8.3}%\n",
            row.kv,
            row.bytes_per_1000_tokens as f64 / 1e6,
            row.cosine,
            row.cosine_min,
            row.perplexity,
            100.0 * row.perplexity_change,
        );
    }
    text + &format!("{} tokens, windows of {}\n", report.tokens, report.window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cosine_is_that_of_the_angle() {
        assert_eq!(cosine(&[3.0, 4.0], &[6.0, 8.0]), 1.0);
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 1.0]), 0.0);
        assert_eq!(cosine(&[1.0, 0.0], &[-2.0, 0.0]), -1.0);
        assert_eq!(cosine(&[0.0; 3], &[0.0; 3]), 1.0);
    }
}
