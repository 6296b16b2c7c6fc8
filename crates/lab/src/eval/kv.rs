//! The cost of each K/V type in memory and quality: each compared with f32 on the same weights.
//!
//! Two measures, over the windows that perplexity is measured on. Perplexity and divergence are those of
//! whole passes, where the errors of all layers add up. Cosines are those of one layer at a time:
//! each layer gets the input it has under f32, and the outputs of its heads are compared row by row.

use std::fmt;

use anyhow::{Result, ensure};
use serde::Serialize;
use wf_core::{Attention, Network};
use wf_engine::{RunOptions, TokenId, load_model};
use wf_formats::ModelFile;
use wf_model::{Forward, KvDtype, KvPool, Model, PageId, Segment, math};

use super::compare::kv_bytes_per_1000_tokens;
use super::pair::{Other, Pair};
use super::{Windows, cosine};

/// Every K/V type compared with f32.
#[derive(Serialize)]
pub struct KvReport {
    tokens: usize,
    /// Maximum number of tokens of a window.
    window: usize,
    types: Vec<TypeReport>,
}

#[derive(Serialize)]
struct TypeReport {
    kv: &'static str,
    /// Bytes of 1,000 tokens of context, scales included.
    bytes_per_1000_tokens: usize,
    /// Mean over all rows of all layers.
    cosine: f64,
    /// Minimum over all rows of all layers.
    cosine_min: f64,
    perplexity: f64,
    /// Increase over f32, as a fraction.
    perplexity_change: f64,
    /// Mean divergence from f32, in nats per token.
    kl_mean: f64,
    /// Largest divergence of a token.
    kl_max: f64,
    /// Fraction of tokens with the best token of f32.
    agreement: f64,
}

/// Compares every K/V type with f32 on `text`, whatever type `options` have.
pub fn compare_kv(
    file: &ModelFile,
    options: &RunOptions,
    text: &str,
    window: Option<usize>,
) -> Result<KvReport> {
    ensure!(
        !file.network().is_recurrent(),
        "the model has recurrent layers, whose inner values this comparison does not read: use another model"
    );
    let options = RunOptions { kv: KvDtype::F32, ..options.clone() };
    let windows = Windows::new(file, &options, text, window)?;
    let mut model = load_model(file, &options, &mut |_| {})?;
    let types = compare(&mut model, &windows)?;
    Ok(KvReport { tokens: windows.predicted(), window: windows.len, types })
}

/// Measures every type, f32 first. The model comes with f32 pages and keeps them.
fn compare(model: &mut Model, windows: &Windows) -> Result<Vec<TypeReport>> {
    let network = model.network().clone();
    let mut types: Vec<TypeReport> = Vec::new();
    for dtype in KvDtype::ALL.into_iter().filter(|&dtype| dtype != KvDtype::F32) {
        let mut pages = KvPool::for_mode(&network, dtype, model.pages(), model.attention());
        let cosines = Cosines::measure(model, &mut pages, &windows.ids);
        let mut pair = Pair { a: &mut *model, b: Other::Pages(&mut pages) };
        let difference = pair.measure(windows, false)?.tally.difference();
        if types.is_empty() {
            types.push(TypeReport::of_f32(&network, difference.mean_nll_a));
        }
        types.push(TypeReport {
            kv: KvDtype::name(dtype),
            bytes_per_1000_tokens: kv_bytes_per_1000_tokens(&network, dtype),
            cosine: cosines.sum / cosines.rows as f64,
            cosine_min: cosines.min,
            perplexity: math::exp(difference.mean_nll_b),
            perplexity_change: difference.perplexity_change,
            kl_mean: difference.kl_mean,
            kl_max: difference.kl_max,
            agreement: difference.agreement,
        });
    }
    Ok(types)
}

impl TypeReport {
    /// Returns the row of the type that the others are compared with.
    fn of_f32(network: &Network, mean_nll: f64) -> Self {
        Self {
            kv: KvDtype::F32.name(),
            bytes_per_1000_tokens: kv_bytes_per_1000_tokens(network, KvDtype::F32),
            cosine: 1.0,
            cosine_min: 1.0,
            perplexity: math::exp(mean_nll),
            perplexity_change: 0.0,
            kl_mean: 0.0,
            kl_max: 0.0,
            agreement: 1.0,
        }
    }
}

/// Cosines of the concatenated head outputs of each row with those under f32.
struct Cosines {
    rows: usize,
    sum: f64,
    min: f64,
}

impl Cosines {
    /// Leaves the model with the pages it had.
    fn measure(model: &mut Model, pages: &mut KvPool, windows: &[Vec<TokenId>]) -> Self {
        let mut cosines = Self { rows: 0, sum: 0.0, min: 1.0 };
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
        let (hidden_len, layers) = (model.network().hidden_len, model.network().layers.len());
        let query_len = model.network().max_attention(Attention::query_len);
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
                let cosine = cosine(exact, rough);
                self.rows += 1;
                self.sum += cosine;
                self.min = self.min.min(cosine);
            }
            hidden = exact.output;
        }
    }
}

impl fmt::Display for KvReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<10}{:>16}{:>10}{:>10}{:>12}{:>9}{:>10}{:>11}",
            "K/V", "MB/1000 tokens", "cosine", "lowest", "perplexity", "change", "KL", "same best"
        )?;
        for row in &self.types {
            writeln!(
                f,
                "{:<10}{:>16.3}{:>10.6}{:>10.6}{:>12.4}{:>8.3}%{:>10.6}{:>9.2} %",
                row.kv,
                row.bytes_per_1000_tokens as f64 / 1e6,
                row.cosine,
                row.cosine_min,
                row.perplexity,
                100.0 * row.perplexity_change,
                row.kl_mean,
                100.0 * row.agreement,
            )?;
        }
        writeln!(f, "{} tokens, windows of {}", self.tokens, self.window)
    }
}
