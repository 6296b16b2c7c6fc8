//! Activation sparsity of a model on a text: chooses limits and shares for each layer and projection, and measures what
//! each setting costs in likelihood and gains in speed.
//!
//! Magnitudes for `threshold` are quantiles of what the text's tokens have. Shares for `adaptive` follow from a
//! measurement of each input alone: with the loss at half of the row proportional to the square of the share of zeros,
//! all inputs get the zeros at which a byte less to read costs the same likelihood. One factor for all of them is then
//! searched so that the loss of the whole stays within the limit.

use std::fmt;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde::Serialize;
use serde_json::{Value, json};
use wf_engine::{Calibration, PerInput, RunOptions, Shares, Thresholds, load_model, topk};
use wf_formats::ModelFile;
use wf_model::{Forward, LayerZeros, Logits, Model, PageId, Segment, Zeroing, math};

use super::Windows;
use crate::svg::{self, BLUE, Bar, Panel, RED};
use crate::table;

/// Shares of `topk` that are measured.
const KEPT: [f32; 6] = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4];

/// Share of a row that is kept where an input is measured alone.
const HALF: f32 = 0.5;

/// Tokens of the text on which inputs are measured alone.
const SAMPLE: usize = 256;

/// Steps of the search for the factor of all shares.
const SEARCH_STEPS: usize = 8;

/// Smallest loss that is told from none.
const MIN_LOSS: f64 = 1e-5;

/// Largest share of zeros that is chosen.
const MAX_ZEROS: f64 = 0.9;

/// Tokens that are decoded to measure speed.
const DECODE_STEPS: usize = 24;

/// Goals of a calibration.
#[derive(Clone, Copy, Debug)]
pub struct SparsityGoals {
    /// Share of zeros of `threshold`.
    pub zeros: f32,
    /// Maximum increase of the mean of −ln p with `adaptive`, in nats per token.
    pub max_loss: f64,
}

/// The costs and gains of settings. Displays as a table.
#[derive(Serialize)]
pub struct SparsityReport {
    model: String,
    tokens: usize,
    window: usize,
    settings: Vec<Value>,
}

impl fmt::Display for SparsityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = format!("{}: {} tokens, windows of {}", self.model, self.tokens, self.window);
        let headers = "setting, zeros, perplexity, loss, skipped, decode tok/s, × dense";
        table::write(f, &title, &self.settings, headers)
    }
}

impl SparsityReport {
    /// Draws perplexity and speed of each setting as an SVG image.
    pub fn svg(&self) -> String {
        let legend =
            [(BLUE, "perplexity".to_owned()), (RED, "speed, as a multiple of dense".to_owned())];
        let panel = |title, key: &str, colour| {
            let bar = |row: &Value| Bar {
                value: row[key].as_f64().unwrap_or(0.0),
                colour,
                label: row["setting"].as_str().map(str::to_owned),
                limit: None,
            };
            Panel { title, bars: self.settings.iter().map(bar).collect(), ..Panel::default() }
        };
        let panels = [
            panel("Perplexity, lower is better", "perplexity", BLUE),
            panel("Decode, one sequence, × dense", "ratio", RED),
        ];
        svg::chart(&format!("{}: activation sparsity", self.model), &legend, &panels)
    }
}

/// Calibrates a model on a text, and measures `off`, `topk`, `threshold` and `adaptive` on it.
pub fn sparsity(
    file: &ModelFile,
    options: &RunOptions,
    text: &str,
    window: Option<usize>,
    goals: SparsityGoals,
    progress: &mut dyn FnMut(&str),
) -> Result<(Calibration, SparsityReport)> {
    ensure!(
        (0.05..=0.95).contains(&goals.zeros),
        "zeros is {}: must be 0.05 to 0.95, a share of all activations",
        goals.zeros
    );
    ensure!(
        (0.0001..=1.0).contains(&goals.max_loss),
        "max-loss is {}: must be 0.0001 to 1, in nats per token",
        goals.max_loss
    );
    let windows = Windows::new(file, options, text, window)?;
    let mut model = load_model(file, options, &mut |_| {})?;
    let mut bench = Bench::new(&mut model, &windows)?;
    progress("magnitudes");
    let magnitudes = bench.thresholds(goals.zeros)?;
    let kept = bench.shares(goals.max_loss, progress)?;
    let threshold = Thresholds { zeros: goals.zeros, magnitudes };
    let calibration = Calibration::new(file, threshold, Shares { max_loss: goals.max_loss, kept });
    let mut settings = vec![bench.row("off", &bench.none())?];
    for share in KEPT {
        let setting = format!("topk={share}");
        progress(&setting);
        settings.push(bench.row(&setting, &topk(share, bench.layers()))?);
    }
    progress("threshold and adaptive");
    settings.push(bench.row("threshold", &calibration.thresholds())?);
    settings.push(bench.row("adaptive", &calibration.shares())?);
    let report = SparsityReport {
        model: file.info().name.clone().unwrap_or_else(|| "model".to_owned()),
        tokens: windows.predicted(),
        window: windows.len,
        settings,
    };
    Ok((calibration, report))
}

struct Bench<'a> {
    model: &'a mut Model,
    windows: &'a Windows,
    /// Mean of −ln p without zeros.
    base: f64,
}

impl<'a> Bench<'a> {
    fn new(model: &'a mut Model, windows: &'a Windows) -> Result<Self> {
        let none = vec![[Zeroing::None; 4]; model.zeros().len()];
        model.set_zeros(&none);
        let base = windows.mean_nll(model)?;
        Ok(Self { model, windows, base })
    }

    fn layers(&self) -> usize {
        self.model.zeros().len()
    }

    fn none(&self) -> Vec<LayerZeros> {
        vec![[Zeroing::None; 4]; self.layers()]
    }

    /// Returns how much the mean of −ln p grows.
    fn loss(&mut self, zeros: &[LayerZeros]) -> Result<f64> {
        self.model.set_zeros(zeros);
        Ok(self.windows.mean_nll(self.model)? - self.base)
    }

    /// Returns the magnitudes that a share of the activations of each input does not exceed.
    fn thresholds(&mut self, zeros: f32) -> Result<PerInput> {
        self.model.set_zeros(&self.none());
        self.model.count_magnitudes();
        self.windows.mean_nll(self.model)?;
        let counts = self.model.take_magnitudes();
        let limits =
            counts.iter().map(|layer| layer.each_ref().map(|c| c.quantile(f64::from(zeros))));
        Ok(limits.collect())
    }

    /// Returns the share that each input keeps, with a loss of at most `max_loss`.
    fn shares(&mut self, max_loss: f64, progress: &mut dyn FnMut(&str)) -> Result<PerInput> {
        let sample = self.windows.first(SAMPLE);
        self.model.set_zeros(&self.none());
        let base = sample.mean_nll(self.model)?;
        let mut losses = vec![[0.0; 4]; self.layers()];
        for (layer, losses) in losses.iter_mut().enumerate() {
            progress(&format!("layer {layer} of {}", self.layers()));
            for (input, loss) in losses.iter_mut().enumerate() {
                let mut zeros = self.none();
                zeros[layer][input] = Zeroing::AllBut(HALF);
                self.model.set_zeros(&zeros);
                *loss = (sample.mean_nll(self.model)? - base).max(MIN_LOSS);
            }
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..SEARCH_STEPS {
            let middle = 0.5 * (low + high);
            progress(&format!("shares, factor {middle:.3}"));
            match self.loss(&zeros_of(&shares_of(&losses, middle)))? <= max_loss {
                true => low = middle,
                false => high = middle,
            }
        }
        Ok(shares_of(&losses, low))
    }

    /// Measures a setting on the whole text.
    fn row(&mut self, setting: &str, zeros: &[LayerZeros]) -> Result<Value> {
        self.model.count_magnitudes();
        let loss = self.loss(zeros)?;
        let counts = self.model.take_magnitudes();
        let total: u64 = counts.iter().flatten().map(wf_model::Magnitudes::total).sum();
        let zero = counts.iter().flatten().map(|c| c.zeros() * c.total() as f64).sum::<f64>();
        self.model.skip_columns();
        let skipped: Vec<_> =
            self.model.skipped_columns().map(|input| input.projection()).collect();
        let [dense, sparse] = self.decode(zeros);
        self.model.copy_no_columns();
        Ok(json!({
            "setting": setting,
            "zeros": format!("{:.0} %", 100.0 * zero / total.max(1) as f64),
            "zeros_share": zero / total.max(1) as f64,
            "perplexity": math::exp(self.base + loss),
            "loss": loss,
            "skipped": if skipped.is_empty() { "none".to_owned() } else { skipped.join(" ") },
            "decode_tok_s": 1.0 / sparse,
            "ratio": dense / sparse,
        }))
    }

    /// Returns the median seconds of a token without zeros and with them, alternating.
    fn decode(&mut self, zeros: &[LayerZeros]) -> [f64; 2] {
        let none = self.none();
        let pages: Vec<PageId> = (0..self.model.pages() as PageId).collect();
        let mut logits = Logits::new(self.model.network().vocab_len);
        let mut seconds = [Vec::new(), Vec::new()];
        let ids =
            self.windows.ids.first().map_or(&[][..], |ids| &ids[..ids.len().min(DECODE_STEPS)]);
        for (position, id) in ids.iter().enumerate() {
            for (way, seconds) in seconds.iter_mut().enumerate() {
                self.model.set_zeros(if way == 0 { &none } else { zeros });
                self.model.suspend_columns(way == 0);
                let start = Instant::now();
                let segment = Segment::causal(std::slice::from_ref(id), position, &pages, &[0]);
                self.model.forward(&[segment], &mut logits);
                seconds.push(start.elapsed().as_secs_f64());
            }
        }
        self.model.suspend_columns(false);
        seconds.map(|mut seconds| {
            seconds.sort_by(f64::total_cmp);
            seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN)
        })
    }
}

/// Returns the shares at which the next zero costs every input the same likelihood, scaled by `factor`: 0 keeps
/// everything.
fn shares_of(losses: &[[f64; 4]], factor: f64) -> PerInput {
    let smallest = losses.iter().flatten().copied().fold(f64::INFINITY, f64::min).max(MIN_LOSS);
    let kept = |loss: f64| {
        // From the inverse of the loss, on a scale that the search can pass through evenly.
        let zeros = factor / (1.0 - factor).max(1e-3) * (smallest / loss).sqrt();
        let kept = 1.0 - zeros.min(MAX_ZEROS);
        ((kept * 100.0).round() / 100.0) as f32
    };
    losses.iter().map(|layer| layer.map(kept)).collect()
}

fn zeros_of(shares: &PerInput) -> Vec<LayerZeros> {
    shares.iter().map(|shares| shares.map(Zeroing::AllBut)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_that_cost_more_keep_more() {
        let losses = [[0.001, 0.004, 0.1, 0.001]];
        assert_eq!(shares_of(&losses, 0.0), [[1.0; 4]]);
        let [[a, b, c, d]] = shares_of(&losses, 0.3)[..] else { panic!("one layer") };
        assert!(a == d && a < b && b < c && c < 1.0, "{a} {b} {c}");
        let most = shares_of(&losses, 1.0);
        assert!(most[0].iter().all(|share| (0.1..=1.0).contains(share)), "{most:?}");
    }
}
