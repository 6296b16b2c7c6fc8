//! The sampler: logits become a token, always in the same order: bias, penalties, grammar, temperature,
//! top-k, top-p, min-p, draw. The draw itself is in `wf_model`, which finds the token without most logits.

use std::collections::HashMap;
use std::time::Duration;

use wf_core::SamplingParams;
use wf_model::{
    Adjustment, Candidate, Draw, DrawQuery, LogitsRow, Scoring, TokenId, TokenLogit, math,
};

use crate::decode::Confidence;
use crate::grammar::{DeadEnd, Follower, Grammar};
use crate::logits::{confidence, logprobs};
use crate::output::{FinishReason, Limits, SampledToken};
use crate::rng::noise_key;

/// Maximum number of best tokens worth searching for: for more, nearly all logits are computed anyway.
const MAX_SCANNED: usize = 1024;

/// Temperature below which bounds in f32 could overflow.
const MIN_SEARCHED_TEMPERATURE: f32 = 1e-4;

/// Returns the logits that sampling reads beside those of adjusted tokens, which a query names.
pub fn required_logits(params: &SamplingParams) -> Scoring {
    match params.top_k_limit() {
        _ if params.temperature == 0.0 => Scoring::BEST,
        Some(k) if k <= MAX_SCANNED => Scoring::Top(k),
        None if params.temperature >= MIN_SEARCHED_TEMPERATURE => Scoring::Draw,
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

    /// Returns the logits that the next samples read. Logprobs need all logits, and so does a grammar whose next
    /// tokens are not known yet.
    pub fn scoring(&self) -> Scoring {
        if self.logprobs.is_some() || (self.grammar.is_some() && self.allowed().is_empty()) {
            return Scoring::All;
        }
        self.plain_scoring()
    }

    /// Returns the same for tokens without logprobs and grammar, such as draft tokens.
    pub(crate) fn plain_scoring(&self) -> Scoring {
        required_logits(&self.params)
    }

    /// Returns the draw of token `index` of the completion, at `position`, after the tokens `drafted`, which are not
    /// part of the completion yet.
    pub fn draw_query(&self, position: usize, index: usize, drafted: &[TokenId]) -> DrawQuery {
        DrawQuery { draw: self.draw(position), adjustments: self.adjustments(index, drafted) }
    }

    fn draw(&self, position: usize) -> Draw {
        let p = &self.params;
        Draw {
            temperature: p.temperature,
            top_k: p.top_k_limit(),
            top_p: p.top_p,
            min_p: p.min_p,
            key: noise_key(p.seed, p.choice, position),
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
    pub fn sample(&mut self, row: LogitsRow<'_>, position: usize) -> Option<SampledToken> {
        let sampled = self.choose(row, position, self.generated)?;
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
        mut row: LogitsRow<'_>,
        position: usize,
        index: usize,
    ) -> Option<SampledToken> {
        let model_logits = match (self.logprobs, &row) {
            (Some(top), LogitsRow::All(logits)) => Some((top, logits.to_vec())),
            _ => None,
        };
        if let Some(grammar) = &mut self.grammar
            && let Err(DeadEnd) = grammar.mask(&mut row, &self.stop_tokens)
        {
            self.dead_end = true;
            return None;
        }
        let query = self.draw_query(position, index, &[]);
        let token = query.token(row, &mut self.candidates)?;
        let logprobs = model_logits.map(|(top, logits)| logprobs(&logits, token, top));
        Some(SampledToken { token, logprobs })
    }

    /// Returns bias and penalties, by token. Stop tokens are forbidden before `min_tokens`.
    fn adjustments(&self, index: usize, drafted: &[TokenId]) -> Vec<Adjustment> {
        let p = &self.params;
        let mut tokens: Vec<TokenId> = p.logit_bias.iter().map(|&(token, _)| token).collect();
        if p.penalizes() {
            tokens.extend(self.seen.keys());
            tokens.extend(drafted);
        }
        let forbidden = if index < self.min_tokens { &self.stop_tokens[..] } else { &[] };
        tokens.extend(forbidden);
        tokens.sort_unstable();
        tokens.dedup();
        let adjustment = |token: TokenId| {
            let biases = p.logit_bias.iter().filter(|bias| bias.0 == token);
            let bias = biases.fold(0.0, |sum, bias| sum + bias.1);
            let bias = if forbidden.contains(&token) { f32::NEG_INFINITY } else { bias };
            let times = drafted.iter().filter(|drafted| **drafted == token).count() as u32;
            match self.seen.get(&token).map(|seen| seen + times).or((times > 0).then_some(times)) {
                Some(times) if p.penalizes() => Adjustment {
                    token,
                    bias,
                    repetition: p.repetition_penalty,
                    penalty: match times {
                        0 => 0.0,
                        _ => p.presence_penalty + p.frequency_penalty * times as f32,
                    },
                },
                _ => Adjustment { bias, ..Adjustment::none(token) },
            }
        };
        tokens.into_iter().map(adjustment).collect()
    }
}

/// Returns the finite logits.
fn finite(logits: &[f32]) -> impl Iterator<Item = TokenLogit> + Clone + '_ {
    let rows = logits.iter().zip(0..).map(|(&logit, token)| TokenLogit { token, logit });
    rows.filter(|row| row.logit.is_finite())
}

#[cfg(test)]
mod tests;
