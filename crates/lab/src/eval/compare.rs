//! Two settings of a model over the same text: quality, speed and memory.

use anyhow::Result;
use serde::Serialize;
use wf_core::{KvDtype, Network};
use wf_engine::{RunOptions, load_model};
use wf_formats::ModelFile;
use wf_model::{Forward, KvPool, PAGE_LEN, math};

use super::Windows;
use super::pair::{Measured, Other, Pair, Side};
use super::settings::{Settings, compute_alike, differ_in_kv_only, of_logits};
use crate::stats::{Timing, quantile};

/// Number of bins of positions that divergences are averaged over.
const BINS: usize = 24;

/// Two settings compared.
#[derive(Serialize)]
pub struct Comparison {
    pub(super) model: String,
    /// Number of predicted tokens.
    pub(super) tokens: usize,
    /// Maximum number of tokens of a window.
    pub(super) window: usize,
    pub(super) a: SideReport,
    pub(super) b: SideReport,
    /// Increase from a to b, as a fraction.
    pub(super) perplexity_change: f64,
    /// Standard error of the change.
    pub(super) perplexity_change_stderr: f64,
    /// Mean divergence of b from a, in nats per token.
    pub(super) kl_mean: f64,
    /// Largest divergence of a token.
    pub(super) kl_max: f64,
    /// Number of that token among the predicted ones, from 0.
    pub(super) kl_max_at: usize,
    /// Mean divergence by position in the window, in equal parts of it.
    pub(super) kl_by_position: Vec<f64>,
    /// Fraction of tokens for which both have the same best token.
    pub(super) agreement: f64,
    /// True if all logits have the same bits.
    pub(super) identical: bool,
    /// Speed of b with prompts, as a multiple of that of a.
    pub(super) prompt_speedup: f64,
    /// Speed of b with single tokens, as a multiple: the median over pairs of adjacent measurements.
    pub(super) decode_speedup: f64,
}

/// One of the two settings.
#[derive(Default, Serialize)]
pub(super) struct SideReport {
    /// The settings as given.
    pub(super) settings: String,
    /// All settings that logits depend on.
    pub(super) logits_depend_on: String,
    pub(super) perplexity: f64,
    pub(super) mean_nll: f64,
    pub(super) prompt_tok_s: f64,
    pub(super) decode_tok_s: f64,
    pub(super) weights_bytes: usize,
    pub(super) kv_bytes_per_1000_tokens: usize,
}

/// Runs settings `a` and `b`, changes of `options`, over `text`.
pub fn compare(
    file: &ModelFile,
    options: &RunOptions,
    (a, b): (&Settings, &Settings),
    text: &str,
    window: Option<usize>,
) -> Result<Comparison> {
    let windows = Windows::new(file, options, text, window)?;
    let (options_a, mut options_b) = (a.apply(options)?, b.apply(options)?);
    let mut model_a = load_model(file, &options_a, &mut |_| {})?;
    let (measured, weights_b);
    if differ_in_kv_only(&options_a, &options_b) {
        // One copy of the weights serves both.
        let mut pages = KvPool::new(file.network(), options_b.kv, model_a.pages());
        let b = Other::Pages(&mut pages);
        measured = Pair { a: &mut model_a, b }.measure(&windows, true)?;
        weights_b = model_a.size_bytes();
    } else {
        if compute_alike(&options_a, &options_b) {
            options_b.compute = Some(model_a.compute().clone());
        }
        let mut model_b = load_model(file, &options_b, &mut |_| {})?;
        let b = Other::Model(&mut model_b);
        measured = Pair { a: &mut model_a, b }.measure(&windows, true)?;
        weights_b = model_b.size_bytes();
    }
    let side = |side: Side, settings: &Settings, options: &RunOptions, weights_bytes| SideReport {
        settings: settings.text(),
        logits_depend_on: of_logits(options),
        prompt_tok_s: measured.prompt_tok_s(side),
        decode_tok_s: measured.decode_tok_s(side),
        weights_bytes,
        kv_bytes_per_1000_tokens: kv_bytes_per_1000_tokens(file.network(), options.kv),
        ..SideReport::of_quality(&measured, side)
    };
    let sides = [
        side(Side::A, a, &options_a, model_a.size_bytes()),
        side(Side::B, b, &options_b, weights_b),
    ];
    Ok(Comparison::new(file, &windows, &measured, sides))
}

/// Returns the size of the K/V of 1,000 tokens, scales included.
pub(super) fn kv_bytes_per_1000_tokens(network: &Network, kv: KvDtype) -> usize {
    KvPool::size_bytes(network, kv, 1) * 1000 / PAGE_LEN
}

impl SideReport {
    /// Returns the perplexity of a side; other fields are empty.
    fn of_quality(measured: &Measured, side: Side) -> Self {
        let difference = measured.tally.difference();
        let mean_nll = match side {
            Side::A => difference.mean_nll_a,
            Side::B => difference.mean_nll_b,
        };
        Self { mean_nll, perplexity: math::exp(mean_nll), ..Self::default() }
    }
}

impl Comparison {
    fn new(
        file: &ModelFile,
        windows: &Windows,
        measured: &Measured,
        sides: [SideReport; 2],
    ) -> Self {
        let difference = measured.tally.difference();
        let [a, b] = sides;
        Self {
            model: file.info().name.clone().unwrap_or_else(|| "model".to_owned()),
            tokens: measured.tally.tokens,
            window: windows.len,
            prompt_speedup: b.prompt_tok_s / a.prompt_tok_s,
            decode_speedup: measured.decode_speedup(),
            a,
            b,
            perplexity_change: difference.perplexity_change,
            perplexity_change_stderr: difference.perplexity_change_stderr,
            kl_mean: difference.kl_mean,
            kl_max: difference.kl_max,
            kl_max_at: difference.kl_max_at,
            kl_by_position: by_position(&measured.divergences, windows.longest()),
            agreement: difference.agreement,
            identical: measured.identical,
        }
    }
}

impl Measured {
    fn prompt_tok_s(&self, side: Side) -> f64 {
        self.scored as f64 / self.seconds[side as usize]
    }

    fn decode_tok_s(&self, side: Side) -> f64 {
        Timing::of(self.decode.iter().map(|seconds| seconds[side as usize]).collect()).per_second(1)
    }

    fn decode_speedup(&self) -> f64 {
        let mut ratios: Vec<f64> = self.decode.iter().map(|[a, b]| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        quantile(&ratios, 0.5)
    }
}

/// Returns the means of divergences in equal parts of a window of `len` tokens.
fn by_position(divergences: &[(usize, f64)], len: usize) -> Vec<f64> {
    let bins = BINS.min(len.max(1));
    let mut sums = vec![(0.0, 0_usize); bins];
    for &(position, kl) in divergences {
        let (sum, count) = &mut sums[position * bins / len];
        *sum += kl;
        *count += 1;
    }
    sums.into_iter().map(|(sum, count)| sum / count.max(1) as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divergences_are_averaged_by_part_of_the_window() {
        let of_two_windows: Vec<_> =
            (0..48).chain(0..24).map(|position| (position, (position / 24) as f64)).collect();
        let means = by_position(&of_two_windows, 48);
        assert_eq!((means.len(), means[11], means[12], means[23]), (BINS, 0.0, 1.0, 1.0));
        assert_eq!(by_position(&[(0, 0.5), (2, 0.25)], 3), [0.5, 0.0, 0.25]);
    }
}
