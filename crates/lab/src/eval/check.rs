//! Compares a model with a recording: what to run before an upgrade of the program, the machine or the model.

use std::fmt;

use anyhow::{Context, Result};
use serde::Serialize;
use wf_engine::{NUMERICS, RunOptions, TokenId, load_model};
use wf_formats::ModelFile;
use wf_model::math;

use super::Windows;
use super::divergence::Tally;
use super::recording::{Recording, each_prediction};
use super::settings::{Settings, of_logits};

/// Limits that a model has to keep.
#[derive(Clone, Copy, Debug)]
pub struct CheckLimits {
    /// Maximum mean divergence from the recording, in nats per token.
    pub max_kl: f64,
    /// Maximum increase of perplexity, as a fraction.
    pub max_perplexity_change: f64,
    /// Minimum fraction of tokens whose best token is the recorded one.
    pub min_agreement: f64,
    /// Requires that all logits have the recorded bits.
    pub exact: bool,
}

/// A model compared with a recording.
#[derive(Serialize)]
pub struct CheckReport {
    recorded: Origin,
    now: Origin,
    /// Number of predicted tokens.
    tokens: usize,
    /// Number of the first predicted token whose logits differ, from 0.
    first_difference: Option<usize>,
    recorded_perplexity: f64,
    perplexity: f64,
    perplexity_change: f64,
    /// Mean divergence over the recorded tokens: a lower bound of that over all.
    kl_mean: f64,
    kl_max: f64,
    agreement: f64,
    /// Limits that are not kept, in words.
    failures: Vec<String>,
}

/// The origin of predictions.
#[derive(PartialEq, Eq, Serialize)]
struct Origin {
    wf: String,
    numerics: u32,
    model: String,
    digest: String,
    settings: String,
}

/// Runs a model over the text of a recording, with the recorded settings and the changes `settings`.
///
/// Fails if the text cannot be run; limits that are not kept are part of the report.
pub fn check(
    file: &ModelFile,
    options: &RunOptions,
    settings: &Settings,
    recording: &Recording,
    limits: CheckLimits,
) -> Result<CheckReport> {
    let recorded: Settings = recording.settings.parse().map_err(anyhow::Error::msg)?;
    let options = RunOptions { context_len: Some(recording.context_len), ..options.clone() };
    let options = settings.apply(&recorded.apply(&options)?)?;
    let windows = Windows::new(file, &options, &recording.text, Some(recording.window))?;
    same_tokens(&recording.tokens, &windows.ids)?;
    let mut model = load_model(file, &options, &mut |_| {}).context("the recorded settings")?;
    recording.check_vocabulary(file.network().vocab_len)?;

    let mut tally = Tally::default();
    let mut first_difference = None;
    let mut recorded = recording.predictions.iter();
    each_prediction(&mut model, &windows, |now, logits| {
        let Some(before) = recorded.next() else { return };
        let at = tally.tokens;
        let agrees = before.best() == now.best();
        tally.add((before.nll, now.nll), before.divergence(logits), agrees);
        if !before.is_identical(&now) {
            first_difference = first_difference.or(Some(at));
        }
    })?;
    let difference = tally.difference();
    let mut report = CheckReport {
        recorded: Origin {
            wf: recording.wf.clone(),
            numerics: recording.numerics,
            model: recording.model.clone(),
            digest: recording.digest.clone(),
            settings: recording.settings.clone(),
        },
        now: Origin {
            wf: env!("CARGO_PKG_VERSION").to_owned(),
            numerics: NUMERICS,
            model: file.info().name.clone().unwrap_or_default(),
            digest: file.digest(),
            settings: of_logits(&options),
        },
        tokens: tally.tokens,
        first_difference,
        recorded_perplexity: math::exp(difference.mean_nll_a),
        perplexity: math::exp(difference.mean_nll_b),
        perplexity_change: difference.perplexity_change,
        kl_mean: difference.kl_mean,
        kl_max: difference.kl_max,
        agreement: difference.agreement,
        failures: Vec::new(),
    };
    report.failures = report.failures(limits);
    Ok(report)
}

/// Fails unless the tokenizer splits the text as it did.
fn same_tokens(recorded: &[Vec<TokenId>], now: &[Vec<TokenId>]) -> Result<()> {
    let (recorded, now) = (recorded.concat(), now.concat());
    let first = recorded.iter().zip(&now).position(|(recorded, now)| recorded != now);
    if let Some(at) = first {
        anyhow::bail!(
            "the tokenizer splits the text differently: token {at} was {}, is {}",
            recorded[at],
            now[at]
        );
    }
    anyhow::ensure!(
        recorded.len() == now.len(),
        "the tokenizer splits the text differently: {} tokens, recorded are {}",
        now.len(),
        recorded.len()
    );
    Ok(())
}

impl CheckReport {
    /// Returns an error that names the limits that are not kept, if any.
    pub fn verdict(&self) -> Result<()> {
        anyhow::ensure!(
            self.failures.is_empty(),
            "differs from the recording: {}",
            self.failures.join("; ")
        );
        Ok(())
    }

    /// A number that is not a number keeps no limit.
    fn failures(&self, limits: CheckLimits) -> Vec<String> {
        let mut failures = Vec::new();
        let mut require = |kept: bool, failure: String| failures.extend((!kept).then_some(failure));
        require(
            self.kl_mean <= limits.max_kl,
            format!("mean KL divergence is {:.6}: must be at most {}", self.kl_mean, limits.max_kl),
        );
        require(
            self.perplexity_change <= limits.max_perplexity_change,
            format!(
                "perplexity rose by {:.3} %: must be at most {} %",
                100.0 * self.perplexity_change,
                100.0 * limits.max_perplexity_change
            ),
        );
        require(
            self.agreement >= limits.min_agreement,
            format!(
                "{:.2} % of the best tokens are the recorded ones: must be at least {} %",
                100.0 * self.agreement,
                100.0 * limits.min_agreement
            ),
        );
        if let (true, Some(at)) = (limits.exact, self.first_difference) {
            require(false, format!("logits of token {at} do not have the recorded bits"));
        }
        failures
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "recorded    {}", self.recorded)?;
        writeln!(f, "now         {}", self.now)?;
        match self.first_difference {
            None => writeln!(f, "logits      the same bits")?,
            Some(at) => writeln!(f, "logits      differ from token {at} on")?,
        }
        writeln!(
            f,
            "perplexity  {:.4}, recorded {:.4} ({:+.3} %)",
            self.perplexity,
            self.recorded_perplexity,
            100.0 * self.perplexity_change
        )?;
        writeln!(f, "KL          mean {:.6}, largest {:.4}", self.kl_mean, self.kl_max)?;
        writeln!(f, "same best   {:.2} % of {} tokens", 100.0 * self.agreement, self.tokens)?;
        writeln!(f, "{}", if self.failures.is_empty() { "passed" } else { "FAILED" })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wf, numerics, model, digest, settings } = self;
        let digest: String = digest.chars().take(12).collect();
        write!(f, "wf {wf}, numerics {numerics}, {model} {digest}, {settings}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CheckLimits = CheckLimits {
        max_kl: 0.01,
        max_perplexity_change: 0.01,
        min_agreement: 0.99,
        exact: false,
    };

    fn report(kl_mean: f64, perplexity_change: f64, agreement: f64) -> CheckReport {
        let origin = || Origin {
            wf: String::new(),
            numerics: 3,
            model: String::new(),
            digest: String::new(),
            settings: String::new(),
        };
        CheckReport {
            recorded: origin(),
            now: origin(),
            tokens: 10,
            first_difference: Some(4),
            recorded_perplexity: 2.0,
            perplexity: 2.0,
            perplexity_change,
            kl_mean,
            kl_max: 1.0,
            agreement,
            failures: Vec::new(),
        }
    }

    #[test]
    fn each_limit_can_fail() {
        assert!(report(0.01, 0.01, 0.99).failures(LIMITS).is_empty());
        assert!(report(0.0, -0.5, 1.0).failures(LIMITS).is_empty(), "better is no failure");
        for (report, words) in [
            (report(0.011, 0.0, 1.0), "mean KL divergence is 0.011000: must be at most 0.01"),
            (report(f64::NAN, 0.0, 1.0), "mean KL divergence"),
            (report(0.0, 0.02, 1.0), "perplexity rose by 2.000 %: must be at most 1 %"),
            (report(0.0, 0.0, 0.98), "98.00 % of the best tokens"),
        ] {
            let failures = report.failures(LIMITS);
            assert!(failures.len() == 1 && failures[0].contains(words), "{failures:?}");
        }
        let exact = CheckLimits { exact: true, ..LIMITS };
        assert!(report(0.0, 0.0, 1.0).failures(exact)[0].contains("token 4"));
    }

    #[test]
    fn another_split_of_the_text_is_an_error() {
        assert!(same_tokens(&[vec![1, 2]], &[vec![1, 2]]).is_ok());
        let error = same_tokens(&[vec![1, 2]], &[vec![1, 3]]).unwrap_err().to_string();
        assert!(error.contains("token 1 was 2, is 3"), "{error}");
        let error = same_tokens(&[vec![1, 2]], &[vec![1]]).unwrap_err().to_string();
        assert!(error.contains("1 tokens, recorded are 2"), "{error}");
    }
}
