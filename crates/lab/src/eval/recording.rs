//! A recording: the predictions of a model for a text, to compare a later version with.
//!
//! Of each position it has a checksum of all logits, and the likeliest tokens with their probabilities. All
//! logits would take gigabytes.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use wf_engine::{NUMERICS, RunOptions, TokenId, load_model};
use wf_formats::{ModelFile, checksum};
use wf_model::{Model, math};

use super::divergence::{Prediction, term};
use super::settings::of_logits;
use super::{Windows, score};

/// Number of the likeliest tokens of each position that are recorded.
const TOP: usize = 32;

/// Version of the format.
const FORMAT: &str = "wf-recording-1";

/// Predictions of a model for a text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    format: String,
    /// Version of the program.
    pub(super) wf: String,
    /// Version of the numerics.
    pub(super) numerics: u32,
    /// Name of the model.
    pub(super) model: String,
    /// SHA-256 of the model's file.
    pub(super) digest: String,
    /// Settings that logits depend on.
    pub(super) settings: String,
    /// Maximum number of tokens of prompt and completion.
    pub(super) context_len: usize,
    /// Maximum number of tokens of a window.
    pub(super) window: usize,
    pub(super) text: String,
    /// Tokens of the text, by window.
    pub(super) tokens: Vec<Vec<TokenId>>,
    /// Predictions of all tokens but the first of each window.
    pub(super) predictions: Vec<Recorded>,
}

/// The prediction of one token.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recorded {
    /// Checksum of the bits of all logits, in hexadecimal.
    logits: String,
    /// −ln p of the token of the text.
    pub(super) nll: f64,
    /// The likeliest tokens and their log probabilities, best first.
    top: Vec<(TokenId, f64)>,
    /// Probability of all other tokens together.
    rest: f64,
}

/// Runs a model over `text` and records its predictions.
pub fn record(
    file: &ModelFile,
    options: &RunOptions,
    text: &str,
    window: Option<usize>,
) -> Result<Recording> {
    let windows = Windows::new(file, options, text, window)?;
    let mut model = load_model(file, options, &mut |_| {})?;
    let mut predictions = Vec::with_capacity(windows.predicted());
    each_prediction(&mut model, &windows, |prediction, _| predictions.push(prediction))?;
    Ok(Recording {
        format: FORMAT.to_owned(),
        wf: env!("CARGO_PKG_VERSION").to_owned(),
        numerics: NUMERICS,
        model: file.info().name.clone().unwrap_or_default(),
        digest: file.digest(),
        settings: of_logits(options),
        context_len: options.context_len.unwrap_or(file.info().context_len),
        window: windows.len,
        text: text.to_owned(),
        predictions,
        tokens: windows.ids,
    })
}

/// Calls `each` with the predictions of all tokens but the first of each window, and their logits.
pub(super) fn each_prediction(
    model: &mut Model,
    windows: &Windows,
    mut each: impl FnMut(Recorded, &[f32]),
) -> Result<()> {
    for ids in &windows.ids {
        score(model, ids, |position, logits| {
            if let Some(&next) = ids.get(position + 1) {
                each(Recorded::new(logits, next), logits);
            }
        })?;
    }
    Ok(())
}

impl Recorded {
    fn new(logits: &[f32], next: TokenId) -> Self {
        let bytes: Vec<u8> =
            logits.iter().flat_map(|logit| logit.to_bits().to_le_bytes()).collect();
        let prediction = Prediction::new(logits);
        let log = |token: TokenId| prediction.log_probability(token);
        let mut tokens: Vec<TokenId> = (0..logits.len() as TokenId).collect();
        let rank = |a: &TokenId, b: &TokenId| {
            logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b))
        };
        let top_len = TOP.min(tokens.len());
        if top_len < tokens.len() {
            tokens.select_nth_unstable_by(top_len, rank);
        }
        let rest = tokens[top_len..].iter().map(|&token| math::exp(log(token))).sum();
        tokens.truncate(top_len);
        tokens.sort_unstable_by(rank);
        Self {
            logits: format!("{:016x}", checksum(&bytes)),
            nll: -log(next),
            top: tokens.into_iter().map(|token| (token, log(token))).collect(),
            rest,
        }
    }

    /// True if all logits have the same bits.
    pub(super) fn is_identical(&self, other: &Self) -> bool {
        self.logits == other.logits
    }

    /// Returns the likeliest token.
    pub(super) fn best(&self) -> Option<TokenId> {
        self.top.first().map(|(token, _)| *token)
    }

    /// Returns the divergence of other logits from this prediction, over the tokens that it lists, and all others
    /// taken as one. Never more than the divergence over all tokens.
    pub(super) fn divergence(&self, logits: &[f32]) -> f64 {
        let now = Prediction::new(logits);
        let listed: HashSet<TokenId> = self.top.iter().map(|(token, _)| *token).collect();
        let others = (0..logits.len() as TokenId).filter(|token| !listed.contains(token));
        let rest: f64 = others.map(|token| math::exp(now.log_probability(token))).sum();
        let of_listed = |(token, log): &(TokenId, f64)| {
            term(math::exp(*log), *log, now.log_probability(*token))
        };
        let sum: f64 = self.top.iter().map(of_listed).sum();
        (sum + term(self.rest, math::ln(self.rest), math::ln(rest))).max(0.0)
    }
}

impl Recording {
    /// Reads a recording and checks that it is complete.
    pub fn parse(text: &str) -> Result<Self> {
        let recording: Self = serde_json::from_str(text).context("not a recording")?;
        ensure!(
            recording.format == FORMAT,
            "format {:?} is not known: must be {FORMAT:?}",
            recording.format
        );
        let predicted: usize = recording.tokens.iter().map(|ids| ids.len().saturating_sub(1)).sum();
        ensure!(
            recording.predictions.len() == predicted && predicted > 0,
            "{} predictions of {predicted} tokens: both must be equal, and at least 1",
            recording.predictions.len()
        );
        Ok(recording)
    }

    /// Returns the recording as JSON.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Fails unless all listed tokens are in a vocabulary of this size.
    pub(super) fn check_vocabulary(&self, vocab_len: usize) -> Result<()> {
        let mut listed = self.predictions.iter().flat_map(|one| &one.top).map(|(token, _)| *token);
        if let Some(token) = listed.find(|token| *token as usize >= vocab_len) {
            anyhow::bail!("the recording has token {token}: must be 0 to {}", vocab_len - 1);
        }
        Ok(())
    }

    /// Number of predicted tokens.
    pub fn predicted(&self) -> usize {
        self.predictions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logits(seed: u32) -> Vec<f32> {
        (0..100_u32).map(|at| ((at * 37 + seed * 11) % 101) as f32 / 20.0).collect()
    }

    #[test]
    fn a_recorded_divergence_is_a_lower_bound() {
        for seed in 1..20 {
            let (a, b) = (logits(0), logits(seed));
            let exact = Prediction::new(&a).divergence(&Prediction::new(&b));
            let recorded = Recorded::new(&a, 0).divergence(&b);
            assert!(recorded <= exact + 1e-9 && recorded > 0.0, "{seed}: {recorded}, {exact}");
        }
        let same = Recorded::new(&logits(3), 7);
        assert!(same.divergence(&logits(3)) < 1e-12 && same.is_identical(&same));
        assert!(!same.is_identical(&Recorded::new(&logits(4), 7)));
    }

    #[test]
    fn a_vocabulary_smaller_than_the_list_has_no_rest() {
        let few = Recorded::new(&[0.0, 1.0, 0.5], 1);
        assert_eq!((few.top.len(), few.rest, few.best()), (3, 0.0, Some(1)));
        let (a, b) = ([0.0, 1.0, 0.5], [1.0, 0.0, 0.5]);
        let exact = Prediction::new(&a).divergence(&Prediction::new(&b));
        assert!((few.divergence(&b) - exact).abs() < 1e-12);
    }

    #[test]
    fn incomplete_recordings_are_rejected() {
        let recording = Recording {
            format: FORMAT.to_owned(),
            wf: "0".to_owned(),
            numerics: NUMERICS,
            model: String::new(),
            digest: String::new(),
            settings: "kv=bf16".to_owned(),
            context_len: 8,
            window: 8,
            text: "a b".to_owned(),
            tokens: vec![vec![0, 1]],
            predictions: vec![Recorded::new(&logits(1), 1)],
        };
        let again = Recording::parse(&recording.to_json().unwrap()).unwrap();
        assert_eq!((&again.tokens, again.predicted()), (&recording.tokens, 1));
        assert!(again.predictions[0].is_identical(&recording.predictions[0]));
        let error = |recording: &Recording| {
            Recording::parse(&recording.to_json().unwrap()).unwrap_err().to_string()
        };
        let fewer = Recording { tokens: vec![vec![0, 1, 2]], ..recording.clone() };
        assert!(error(&fewer).contains("1 predictions of 2 tokens"));
        assert!(recording.check_vocabulary(100).is_ok());
        let error_of_ids = recording.check_vocabulary(50).unwrap_err().to_string();
        assert!(error_of_ids.contains("must be 0 to 49"), "{error_of_ids}");
        let newer = Recording { format: "wf-recording-9".to_owned(), ..recording };
        assert!(error(&newer).contains("wf-recording-9"));
        assert!(Recording::parse("{}").unwrap_err().to_string().contains("not a recording"));
    }
}
