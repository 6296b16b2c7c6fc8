//! The cost of each K/V type in memory and quality.
//!
//! Two measures against f32, over the windows that perplexity is measured on. Perplexity is that of
//! whole passes, where the errors of all layers add up. Cosines are those of one layer at a time:
//! each layer gets the input it has under f32, and the outputs of its heads are compared row by row.

use std::fmt;

use anyhow::Result;
use serde::Serialize;
use wf_core::Attention;
use wf_engine::{RunOptions, TokenId, load_model};
use wf_formats::ModelFile;
use wf_model::{Forward, KvDtype, KvPool, Model, PAGE_LEN, PageId, Segment, math};

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
}

/// Compares every K/V type with f32 on `text`, whatever type `options` have.
pub fn compare_kv(
    file: &ModelFile,
    options: &RunOptions,
    text: &str,
    window: Option<usize>,
) -> Result<KvReport> {
    let options = RunOptions { kv: KvDtype::F32, ..options.clone() };
    let windows = Windows::new(file, &options, text, window)?;
    let mut model = load_model(file, &options, &mut |_| {})?;
    let types = compare(&mut model, &windows)?;
    Ok(KvReport { tokens: windows.predicted(), window: windows.len, types })
}

/// Measures every type, f32 first. The model comes with f32 pages and keeps them.
fn compare(model: &mut Model, windows: &Windows) -> Result<Vec<TypeReport>> {
    let network = model.network().clone();
    let exact = math::exp(windows.mean_nll(model)?);
    let report = |dtype, cosines: Cosines, perplexity: f64| TypeReport {
        kv: KvDtype::name(dtype),
        bytes_per_1000_tokens: KvPool::size_bytes(&network, dtype, 1) * 1000 / PAGE_LEN,
        cosine: cosines.sum / cosines.rows as f64,
        cosine_min: cosines.min,
        perplexity,
        perplexity_change: perplexity / exact - 1.0,
    };
    let mut types = vec![report(KvDtype::F32, Cosines { rows: 1, sum: 1.0, min: 1.0 }, exact)];
    for dtype in KvDtype::ALL.into_iter().filter(|&dtype| dtype != KvDtype::F32) {
        let mut pages = KvPool::new(&network, dtype, model.pages());
        let cosines = Cosines::measure(model, &mut pages, &windows.ids);
        model.swap_kv(&mut pages);
        let perplexity = math::exp(windows.mean_nll(model)?);
        model.swap_kv(&mut pages);
        types.push(report(dtype, cosines, perplexity));
    }
    Ok(types)
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
            "{:<10}{:>16}{:>10}{:>10}{:>12}{:>9}",
            "K/V", "MB/1000 tokens", "cosine", "lowest", "perplexity", "change"
        )?;
        for row in &self.types {
            writeln!(
                f,
                "{:<10}{:>16.3}{:>10.6}{:>10.6}{:>12.4}{:>8.3}%",
                row.kv,
                row.bytes_per_1000_tokens as f64 / 1e6,
                row.cosine,
                row.cosine_min,
                row.perplexity,
                100.0 * row.perplexity_change,
            )?;
        }
        writeln!(f, "{} tokens, windows of {}", self.tokens, self.window)
    }
}
