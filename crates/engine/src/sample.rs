//! The sampler: logits become a token, always in the same order: bias, penalties, grammar, temperature,
//! top-k, top-p, min-p, draw.

use std::collections::HashMap;
use std::time::Duration;

use wf_core::SamplingParams;
use wf_model::{Scoring, TokenId, math};

use crate::decode::Confidence;
use crate::grammar::{DeadEnd, Follower, Grammar};
use crate::logits::{Candidate, best, confidence, keep_top_k, keep_top_p, logprobs};
use crate::output::{FinishReason, Limits, SampledToken};
use crate::rng::uniform;

/// Maximum number of best tokens worth searching for: for more, nearly all logits are computed anyway.
const MAX_SCANNED: usize = 1024;

/// Returns the logits that sampling reads if no token was seen before. Greedy sampling and `top_k`
/// read the best alone, unless a parameter can raise others among them.
pub fn required_logits(params: &SamplingParams) -> Scoring {
    let raises = params.repetition_penalty < 1.0
        || params.presence_penalty < 0.0
        || params.frequency_penalty < 0.0
        || !params.logit_bias.is_empty();
    let wanted = if params.temperature == 0.0 { Some(1) } else { params.top_k_limit() };
    match wanted {
        Some(wanted) if !raises && wanted <= MAX_SCANNED => Scoring::Top(wanted),
        _ => Scoring::All,
    }
}

/// A token that may be written, and the confidence in it.
#[derive(Debug)]
pub(crate) struct Prediction {
    pub(crate) sampled: SampledToken,
    pub(crate) confidence: Confidence,
}

/// Turns the logits of one sequence into its tokens.
///
/// Every sampled token is part of the completion: a decoder never takes one back.
pub struct Sampler {
    params: SamplingParams,
    min_tokens: usize,
    stop_tokens: Vec<TokenId>,
    /// Number of occurrences in the completion of each token of prompt and completion.
    seen: HashMap<TokenId, u32>,
    /// Number of tokens of the completion.
    generated: usize,
    /// Number of alternatives to report with each token, if logprobs are requested.
    pub(crate) logprobs: Option<usize>,
    grammar: Option<Follower>,
    /// True if the grammar allowed no token.
    dead_end: bool,
    candidates: Vec<Candidate>,
}

impl Sampler {
    /// Creates a sampler for the completion of `prompt`.
    pub fn new(params: SamplingParams, limits: &Limits, prompt: &[TokenId]) -> Self {
        Self {
            params,
            min_tokens: limits.min_tokens,
            stop_tokens: limits.stop_tokens.clone(),
            seen: prompt.iter().map(|&token| (token, 0)).collect(),
            generated: 0,
            logprobs: None,
            grammar: None,
            dead_end: false,
            candidates: Vec::new(),
        }
    }

    /// Constrains the completion by a grammar.
    #[must_use]
    pub fn with_grammar(self, grammar: Option<&Grammar>) -> Self {
        Self { grammar: grammar.map(Follower::new), ..self }
    }

    /// Returns the logits that the next `tokens` samples read. Penalised and forbidden tokens may drop out of
    /// the best ones, so as many others are needed. Logprobs need all logits, and so does a grammar whose next
    /// tokens are not known yet.
    pub fn scoring(&self, tokens: usize) -> Scoring {
        if self.logprobs.is_some() || (self.grammar.is_some() && self.allowed().is_empty()) {
            return Scoring::All;
        }
        self.plain_scoring(tokens)
    }

    /// Returns the same for tokens without logprobs and grammar, such as draft tokens.
    pub(crate) fn plain_scoring(&self, tokens: usize) -> Scoring {
        let Scoring::Top(wanted) = required_logits(&self.params) else { return Scoring::All };
        let seen = if self.params.penalizes() { self.seen.len() + tokens } else { 0 };
        let stops = if self.generated < self.min_tokens { self.stop_tokens.len() } else { 0 };
        match wanted + seen + stops {
            many if many > MAX_SCANNED => Scoring::All,
            few => Scoring::Top(few),
        }
    }

    /// Computes the tokens that the grammar allows next, so that only their logits are needed.
    pub(crate) fn prepare_mask(&mut self, vocab_len: usize) {
        if let (Some(grammar), None) = (&mut self.grammar, self.logprobs) {
            grammar.prepare_mask(vocab_len, &self.stop_tokens);
        }
    }

    /// Returns and resets the time that the grammar took beyond the usual.
    pub(crate) fn take_excess_time(&mut self) -> Duration {
        self.grammar.as_mut().map_or(Duration::ZERO, Follower::take_excess_time)
    }

    /// Returns the tokens that may come next, one bit per token; empty if that is unknown or all may.
    pub(crate) fn allowed(&self) -> &[u32] {
        let grammar = self.grammar.as_ref().filter(|_| self.logprobs.is_none());
        grammar.and_then(Follower::prepared_mask).unwrap_or_default()
    }

    /// Samples the token at `position`. Returns `None` if no allowed token has a finite logit.
    pub fn sample(&mut self, logits: &mut [f32], position: usize) -> Option<SampledToken> {
        let sampled = self.choose(logits, position, self.generated)?;
        self.commit(sampled.token);
        Some(sampled)
    }

    /// Predicts token `index` of the completion, at `position`. It is not part of the completion until it is
    /// committed. Returns `None` if no logit is finite.
    pub(crate) fn predict(
        &mut self,
        logits: &mut [f32],
        position: usize,
        index: usize,
        with_entropy: bool,
    ) -> Option<Prediction> {
        let sampled = self.choose(logits, position, index)?;
        let confidence = if self.params.temperature == 0.0 {
            confidence(logits, sampled.token, with_entropy)
        } else {
            let total: f64 = self.candidates.iter().map(|c| c.weight).sum();
            let share = |c: &Candidate| c.weight / total;
            let own = self.candidates.iter().find(|c| c.token == sampled.token).map_or(0.0, share);
            let terms = self.candidates.iter().map(share).filter(|p| *p > 0.0);
            let entropy: f64 = terms.map(|p| -p * math::ln(p)).sum();
            Confidence { probability: own as f32, entropy: entropy as f32 }
        };
        Some(Prediction { sampled, confidence })
    }

    /// Samples token `index` of the completion from a draft model's logits, with the random number of that
    /// position. The grammar is not applied: it has not advanced that far.
    pub(crate) fn sample_draft(
        &mut self,
        logits: &mut [f32],
        position: usize,
        index: usize,
    ) -> Option<TokenId> {
        self.adjust(logits, index);
        self.draw_or_best(logits, position)
    }

    pub(crate) fn commit(&mut self, token: TokenId) {
        *self.seen.entry(token).or_default() += 1;
        self.generated += 1;
        let is_stop = self.is_stop(token);
        if let Some(grammar) = self.grammar.as_mut().filter(|_| !is_stop) {
            grammar.consume(token);
        }
    }

    /// Returns `true` if the completion ends with this token, which was just committed.
    pub(crate) fn ends(&self, token: TokenId) -> bool {
        self.is_stop(token) || self.is_complete()
    }

    pub(crate) fn is_stop(&self, token: TokenId) -> bool {
        self.stop_tokens.contains(&token)
    }

    /// Returns `true` if the grammar allows the completion only to end.
    pub(crate) fn is_complete(&self) -> bool {
        self.grammar.as_ref().is_some_and(Follower::is_complete)
    }

    /// Returns the finish reason after no token could be sampled. A completion that the grammar accepts ends
    /// normally: its stop tokens may be ruled out, or it may have none.
    pub(crate) fn failure(&self) -> FinishReason {
        match &self.grammar {
            Some(_) if self.dead_end => FinishReason::DeadEnd,
            Some(grammar) if grammar.accepts => FinishReason::Stop,
            _ => FinishReason::NonFiniteLogits,
        }
    }

    fn choose(
        &mut self,
        logits: &mut [f32],
        position: usize,
        index: usize,
    ) -> Option<SampledToken> {
        let model_logits = self.logprobs.map(|top| (top, logits.to_vec()));
        self.adjust(logits, index);
        if let Some(grammar) = &mut self.grammar
            && let Err(DeadEnd) = grammar.mask(logits, &self.stop_tokens)
        {
            self.dead_end = true;
            return None;
        }
        let token = self.draw_or_best(logits, position)?;
        let logprobs = model_logits.map(|(top, logits)| logprobs(&logits, token, top));
        Some(SampledToken { token, logprobs })
    }

    fn draw_or_best(&mut self, logits: &[f32], position: usize) -> Option<TokenId> {
        match self.params.temperature {
            0.0 => best(logits),
            _ => self.draw(logits, position),
        }
    }

    /// Applies bias and penalties, and forbids stop tokens before `min_tokens`.
    fn adjust(&self, logits: &mut [f32], index: usize) {
        let p = &self.params;
        for &(token, bias) in &p.logit_bias {
            logits[token as usize] += bias;
        }
        if p.penalizes() {
            // Each logit changes independently, so the order of the map does not matter.
            for (&token, &times) in &self.seen {
                let logit = &mut logits[token as usize];
                let factor = p.repetition_penalty;
                *logit = if *logit > 0.0 { *logit / factor } else { *logit * factor };
                if times > 0 {
                    *logit -= p.presence_penalty + p.frequency_penalty * times as f32;
                }
            }
        }
        if index < self.min_tokens {
            for &token in &self.stop_tokens {
                logits[token as usize] = f32::NEG_INFINITY;
            }
        }
    }

    fn draw(&mut self, logits: &[f32], position: usize) -> Option<TokenId> {
        let max = logits[best(logits)? as usize];
        let inverse = 1.0 / f64::from(self.params.temperature);
        let kept = &mut self.candidates;
        kept.clear();
        kept.extend(logits.iter().zip(0..).filter(|(logit, _)| logit.is_finite()).map(
            |(&logit, token)| {
                let weight = math::exp((f64::from(logit) - f64::from(max)) * inverse);
                Candidate { token, logit, weight }
            },
        ));
        keep_top_k(kept, self.params.top_k_limit());
        keep_top_p(kept, f64::from(self.params.top_p));
        // The best candidate weighs 1, so min-p applies to the weight itself.
        kept.retain(|c| c.weight >= f64::from(self.params.min_p));

        let total: f64 = kept.iter().map(|c| c.weight).sum();
        let target = uniform(self.params.seed, self.params.choice, position) * total;
        let mut sum = 0.0;
        let drawn = kept.iter().find(|c| {
            sum += c.weight;
            sum > target
        });
        // Rounding can leave `target` slightly above the last sum.
        drawn.or(kept.last()).map(|c| c.token)
    }
}

#[cfg(test)]
mod tests;
