//! Predictions of tokens that are not part of the completion yet, with the confidence in them.

use wf_model::{Candidate, LogitsRow, TokenLogit, math};

use super::Sampler;
use crate::decode::Confidence;
use crate::logits::confidence;
use crate::output::SampledToken;

/// A token that may be written, and the confidence in it.
#[derive(Debug)]
pub(crate) struct Prediction {
    pub(crate) sampled: SampledToken,
    pub(crate) confidence: Confidence,
}

impl Sampler {
    /// Predicts token `index` of the completion, at `position`. It is not part of the completion until it is
    /// committed. Returns `None` if no logit is finite.
    pub(crate) fn predict(
        &mut self,
        logits: &mut [f32],
        position: usize,
        index: usize,
        with_entropy: bool,
    ) -> Option<Prediction> {
        let sampled = self.choose(LogitsRow::All(logits), position, index)?;
        let confidence = if self.params.temperature == 0.0 {
            confidence(logits, sampled.token, with_entropy)
        } else {
            self.draw(position).truncate(finite(logits), &mut self.candidates);
            let total: f64 = self.candidates.iter().map(|c| c.weight).sum();
            let share = |c: &Candidate| c.weight / total;
            let own = self.candidates.iter().find(|c| c.token == sampled.token).map_or(0.0, share);
            let terms = self.candidates.iter().map(share).filter(|p| *p > 0.0);
            let entropy: f64 = terms.map(|p| -p * math::ln(p)).sum();
            Confidence { probability: own as f32, entropy: entropy as f32 }
        };
        Some(Prediction { sampled, confidence })
    }
}

/// Returns the finite logits.
fn finite(logits: &[f32]) -> impl Iterator<Item = TokenLogit> + Clone + '_ {
    let rows = logits.iter().zip(0..).map(|(&logit, token)| TokenLogit { token, logit });
    rows.filter(|row| row.logit.is_finite())
}
