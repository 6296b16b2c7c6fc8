//! The sampler: logits become a token, always in the same order: bias, penalties, grammar, temperature,
//! top-k, top-p, min-p, draw. The draw itself is in `wf_model`, which finds the token without most logits.

mod adjustments;
mod constrained;
mod penalized;
mod predict;

use wf_core::SamplingParams;
use wf_model::{Candidate, Draw, DrawQuery, LogitsRow, Scoring, TokenId};

use crate::grammar::{DeadEnd, Follower};
use crate::logits::logprobs;
use crate::output::{Limits, SampledToken};
use crate::rng::noise_key;
use crate::thinking::OpenThinking;
use penalized::Penalized;
pub(crate) use predict::Prediction;

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

/// Turns the logits of one sequence into its tokens.
///
/// Every sampled token is part of the completion: a decoder never takes one back.
pub struct Sampler {
    params: SamplingParams,
    min_tokens: usize,
    stop_tokens: Vec<TokenId>,
    /// Tokens of prompt and completion that penalties consider.
    penalized: Penalized,
    /// Number of tokens of the completion.
    generated: usize,
    /// Number of alternatives to report with each token, if logprobs are requested.
    pub(crate) logprobs: Option<usize>,
    grammar: Option<Follower>,
    /// Thinking that has not ended. The grammar is that of the answer.
    thinking: Option<OpenThinking>,
    /// True if the grammar allowed no token.
    dead_end: bool,
    candidates: Vec<Candidate>,
}

impl Sampler {
    /// Creates a sampler for the completion of `prompt`.
    pub fn new(params: SamplingParams, limits: &Limits, prompt: &[TokenId]) -> Self {
        Self {
            penalized: Penalized::new(params.penalty_window(), prompt),
            params,
            min_tokens: limits.min_tokens,
            stop_tokens: limits.stop_tokens.clone(),
            generated: 0,
            logprobs: None,
            grammar: None,
            thinking: None,
            dead_end: false,
            candidates: Vec::new(),
        }
    }

    /// Returns the logits that the next samples read. Logprobs need all logits, and so does a grammar whose next
    /// tokens are not known yet.
    pub fn scoring(&self) -> Scoring {
        let follows_grammar = self.grammar.is_some() && self.thinking.is_none();
        if self.logprobs.is_some() || (follows_grammar && self.allowed().is_empty()) {
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

    /// Samples the token at `position`. Returns `None` if no allowed token has a finite logit.
    pub fn sample(&mut self, row: LogitsRow<'_>, position: usize) -> Option<SampledToken> {
        let sampled = self.choose(row, position, self.generated)?;
        self.commit(sampled.token);
        Some(sampled)
    }

    pub(crate) fn commit(&mut self, token: TokenId) {
        self.penalized.push(token);
        self.generated += 1;
        if let Some(thinking) = &mut self.thinking {
            if thinking.push(token) {
                self.thinking = None;
            }
            return;
        }
        let is_stop = self.is_stop(token);
        if let Some(grammar) = self.grammar.as_mut().filter(|_| !is_stop) {
            grammar.consume(token);
        }
    }

    pub(crate) fn is_stop(&self, token: TokenId) -> bool {
        self.stop_tokens.contains(&token)
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
        let logprobs_of =
            |token| model_logits.as_ref().map(|(top, logits)| logprobs(logits, token, *top));
        if let Some(token) = self.thinking.as_ref().and_then(OpenThinking::forced) {
            return Some(SampledToken { token, logprobs: logprobs_of(token) });
        }
        if let Some(grammar) = self.grammar.as_mut().filter(|_| self.thinking.is_none())
            && let Err(DeadEnd) = grammar.mask(&mut row, &self.stop_tokens)
        {
            self.dead_end = true;
            return None;
        }
        let query = self.draw_query(position, index, &[]);
        let token = query.token(row, &mut self.candidates)?;
        Some(SampledToken { token, logprobs: logprobs_of(token) })
    }
}

#[cfg(test)]
mod tests;
