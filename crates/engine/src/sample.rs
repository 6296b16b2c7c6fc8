//! Scores become a token, always in the same order: bias, penalties, grammar, temperature, top-k,
//! top-p, min-p, draw.
//!
//! Candidates are ordered by score, falling, then by number, rising, so that equal scores have one
//! order everywhere. Sums run in f64 over that order, `exp` is our own.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Duration;

use wf_model::{Scoring, TokenId, math};

use crate::decode::Guess;
use crate::grammar::{DeadEnd, Follower, Grammar};
use crate::request::{FinishReason, Limits, Logprobs, Picked};
use crate::rng::uniform;

/// How scores become tokens. The default is greedy: the best score wins.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// 0 takes the best token; higher spreads the choice.
    pub temperature: f32,
    /// Only this many of the best tokens; 0 is all.
    pub top_k: usize,
    /// Only the best tokens that together hold this much probability; 1 is all.
    pub top_p: f32,
    /// Only tokens at least this likely, relative to the best; 0 is all.
    pub min_p: f32,
    /// Divides scores (multiplies negative ones) of tokens already in prompt or reply; 1 is off.
    pub repetition_penalty: f32,
    /// Subtracted once from the score of each token already in the reply.
    pub presence_penalty: f32,
    /// Subtracted from a token's score for each time it is in the reply.
    pub frequency_penalty: f32,
    /// Added to the scores of these tokens.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// The same seed gives the same draws.
    pub seed: u64,
    /// Which of several replies to one prompt: each has draws of its own.
    pub choice: u32,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
            choice: 0,
        }
    }
}

/// The most tokens worth searching for: among more, nearly all scores are looked at.
const MOST_SCANNED: usize = 1024;

/// A sampling setting out of range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field} is {value}: {allowed}")]
pub struct BadSampling {
    /// The setting.
    pub field: &'static str,
    /// What it was set to.
    pub value: String,
    /// What it may be.
    pub allowed: &'static str,
}

impl SamplingParams {
    /// Refuses what has no meaning. NaN fails every range.
    pub fn check(&self, vocab_len: usize) -> Result<(), BadSampling> {
        let range = |field, value: f32, ok: bool, allowed| {
            let bad = || BadSampling { field, value: value.to_string(), allowed };
            if ok { Ok(()) } else { Err(bad()) }
        };
        let (t, p, m, r) = (self.temperature, self.top_p, self.min_p, self.repetition_penalty);
        range("temperature", t, (0.0..=100.0).contains(&t), "0 (greedy) to 100 is allowed")?;
        range("top_p", p, p > 0.0 && p <= 1.0, "more than 0 and at most 1 is allowed")?;
        range("min_p", m, (0.0..=1.0).contains(&m), "0 to 1 is allowed")?;
        range("repetition_penalty", r, r > 0.0 && r <= 10.0, "more than 0, at most 10 is allowed")?;
        for (field, value) in [
            ("presence_penalty", self.presence_penalty),
            ("frequency_penalty", self.frequency_penalty),
        ] {
            range(field, value, (-2.0..=2.0).contains(&value), "-2 to 2 is allowed")?;
        }
        for &(token, bias) in &self.logit_bias {
            range("logit_bias", bias, (-100.0..=100.0).contains(&bias), "-100 to 100 is allowed")?;
            if token as usize >= vocab_len {
                let allowed = "only numbers of the model's vocabulary are allowed";
                let value = format!("for token {token}");
                return Err(BadSampling { field: "logit_bias", value, allowed });
            }
        }
        Ok(())
    }
}

impl SamplingParams {
    /// Which scores a pick looks at if no token was seen before. A greedy one and one with `top_k`
    /// look at the best alone, unless a setting can raise others among them.
    pub fn scoring(&self) -> Scoring {
        let raises = self.repetition_penalty < 1.0
            || self.presence_penalty < 0.0
            || self.frequency_penalty < 0.0
            || !self.logit_bias.is_empty();
        let wanted = if self.temperature == 0.0 { 1 } else { self.top_k };
        if raises || wanted == 0 || wanted > MOST_SCANNED {
            Scoring::All
        } else {
            Scoring::Top(wanted)
        }
    }

    fn penalizes(&self) -> bool {
        self.repetition_penalty != 1.0
            || self.presence_penalty != 0.0
            || self.frequency_penalty != 0.0
    }
}

/// A token that may be written, and how sure that is.
#[derive(Debug)]
pub(crate) struct Guessed {
    pub(crate) picked: Picked,
    pub(crate) sure: Guess,
}

/// Turns the scores of one sequence into its tokens.
///
/// Every pick is a token of the reply: a decoder never takes one back.
pub struct Sampler {
    params: SamplingParams,
    min_tokens: usize,
    stop_tokens: Vec<TokenId>,
    /// How often each token of prompt and reply is in the reply.
    seen: HashMap<TokenId, u32>,
    picked: usize,
    /// How many likeliest tokens to tell with each pick, if anything.
    logprobs: Option<usize>,
    grammar: Option<Follower>,
    /// Whether the grammar let nothing follow.
    dead_end: bool,
    candidates: Vec<Candidate>,
}

#[derive(Clone, Copy)]
struct Candidate {
    token: TokenId,
    score: f32,
    weight: f64,
}

impl Sampler {
    /// A sampler for the reply to `prompt`.
    pub fn new(params: SamplingParams, limits: &Limits, prompt: &[TokenId]) -> Self {
        let seen = prompt.iter().map(|&token| (token, 0)).collect();
        Self {
            params,
            min_tokens: limits.min_tokens,
            stop_tokens: limits.stop_tokens.clone(),
            seen,
            picked: 0,
            logprobs: None,
            grammar: None,
            dead_end: false,
            candidates: Vec::new(),
        }
    }

    /// Tells with each pick how likely it was, and `top` of the likeliest in its place.
    #[must_use]
    pub fn with_logprobs(self, top: Option<usize>) -> Self {
        Self { logprobs: top, ..self }
    }

    /// Picks only what this grammar allows.
    #[must_use]
    pub fn with_grammar(self, grammar: Option<&Grammar>) -> Self {
        Self { grammar: grammar.map(Follower::new), ..self }
    }

    /// Which scores the next `picks` picks look at. Tokens that may fall out of the best ones, because
    /// they were seen or must not come yet, make as many others step up. How likely a pick was depends
    /// on every score, and so does a pick of which it is not known what it may be.
    pub fn scoring(&self, picks: usize) -> Scoring {
        if self.logprobs.is_some() || (self.grammar.is_some() && self.allowed().is_empty()) {
            return Scoring::All;
        }
        self.scoring_of_tokens(picks)
    }

    /// Which scores it takes to foresee a token.
    pub(crate) fn scoring_to_foresee(&self) -> Scoring {
        self.scoring_of_tokens(1)
    }

    fn scoring_of_tokens(&self, picks: usize) -> Scoring {
        let Scoring::Top(wanted) = self.params.scoring() else { return Scoring::All };
        let seen = if self.params.penalizes() { self.seen.len() + picks } else { 0 };
        let stops = if self.picked < self.min_tokens { self.stop_tokens.len() } else { 0 };
        match wanted + seen + stops {
            many if many > MOST_SCANNED => Scoring::All,
            few => Scoring::Top(few),
        }
    }

    /// Finds out what the next pick may be: only scores of these are needed then.
    pub(crate) fn look_ahead(&mut self, vocab_len: usize) {
        if let (Some(grammar), None) = (&mut self.grammar, self.logprobs) {
            grammar.look_ahead(vocab_len, &self.stop_tokens);
        }
    }

    /// How much longer than usual a grammar took, since this was last asked.
    pub(crate) fn take_spent(&mut self) -> Duration {
        self.grammar.as_mut().map_or(Duration::ZERO, Follower::take_spent)
    }

    /// What the next pick may be, a bit for every token, if that was found out and is not everything.
    pub(crate) fn allowed(&self) -> &[u32] {
        let grammar = self.grammar.as_ref().filter(|_| self.logprobs.is_none());
        grammar.and_then(Follower::seen_ahead).unwrap_or_default()
    }

    /// The token at `position`, from its scores. Nothing if no score is finite that the grammar allows.
    pub fn pick(&mut self, scores: &mut [f32], position: usize) -> Option<Picked> {
        let picked = self.choose(scores, position, self.picked)?;
        self.note(picked.token);
        Some(picked)
    }

    /// What would be written at `position`, which is token `in_reply` of the reply, and how sure that
    /// is. It is not part of the reply until it is noted. Nothing if no score is finite.
    pub(crate) fn guess(
        &mut self,
        scores: &mut [f32],
        position: usize,
        in_reply: usize,
        with_entropy: bool,
    ) -> Option<Guessed> {
        let picked = self.choose(scores, position, in_reply)?;
        let sure = if self.params.temperature == 0.0 {
            sureness(scores, picked.token, with_entropy)
        } else {
            let total: f64 = self.candidates.iter().map(|c| c.weight).sum();
            let share = |c: &Candidate| c.weight / total;
            let own = self.candidates.iter().find(|c| c.token == picked.token).map_or(0.0, share);
            let terms = self.candidates.iter().map(share).filter(|p| *p > 0.0);
            let entropy: f64 = terms.map(|p| -p * math::ln(p)).sum();
            Guess { probability: own as f32, entropy: entropy as f32 }
        };
        Some(Guessed { picked, sure })
    }

    /// What another model's scores would have written at `position`, which is token `in_reply` of the
    /// reply, with our random number for it. The grammar is not asked: it has not come so far yet.
    pub(crate) fn foresee(
        &mut self,
        scores: &mut [f32],
        position: usize,
        in_reply: usize,
    ) -> Option<TokenId> {
        self.adjust(scores, in_reply);
        self.take_one(scores, position)
    }

    /// A guess became part of the reply.
    pub(crate) fn note(&mut self, token: TokenId) {
        *self.seen.entry(token).or_default() += 1;
        self.picked += 1;
        let is_stop = self.is_stop(token);
        if let Some(grammar) = self.grammar.as_mut().filter(|_| !is_stop) {
            grammar.consume(token);
        }
    }

    /// Whether the reply ends with this token, which was just noted.
    pub(crate) fn ends(&self, token: TokenId) -> bool {
        self.is_stop(token) || self.is_complete()
    }

    /// Whether this token ends a reply.
    pub(crate) fn is_stop(&self, token: TokenId) -> bool {
        self.stop_tokens.contains(&token)
    }

    /// Whether the grammar lets the reply only end.
    pub(crate) fn is_complete(&self) -> bool {
        self.grammar.as_ref().is_some_and(Follower::is_complete)
    }

    /// Why there was nothing to pick. A reply that was whole can just end: its stop tokens may be ruled
    /// out, or it may have none.
    pub(crate) fn why_no_pick(&self) -> FinishReason {
        match &self.grammar {
            Some(_) if self.dead_end => FinishReason::DeadEnd,
            Some(grammar) if grammar.accepted() => FinishReason::Stop,
            _ => FinishReason::NoFiniteScore,
        }
    }

    fn choose(&mut self, scores: &mut [f32], position: usize, in_reply: usize) -> Option<Picked> {
        let own_scores = self.logprobs.map(|top| (top, scores.to_vec()));
        self.adjust(scores, in_reply);
        if let Some(grammar) = &mut self.grammar
            && let Err(DeadEnd) = grammar.mask(scores, &self.stop_tokens)
        {
            self.dead_end = true;
            return None;
        }
        let token = self.take_one(scores, position)?;
        let logprobs = own_scores.map(|(top, scores)| logprobs(&scores, token, top));
        Some(Picked { token, logprobs })
    }

    fn take_one(&mut self, scores: &[f32], position: usize) -> Option<TokenId> {
        match self.params.temperature {
            0.0 => best(scores),
            _ => self.draw(scores, position),
        }
    }

    /// Bias, penalties, and no stop token before its time.
    fn adjust(&self, scores: &mut [f32], in_reply: usize) {
        let p = &self.params;
        for &(token, bias) in &p.logit_bias {
            scores[token as usize] += bias;
        }
        if p.penalizes() {
            // Each token's score changes by itself, so the map's order does not matter.
            for (&token, &times) in &self.seen {
                let score = &mut scores[token as usize];
                let factor = p.repetition_penalty;
                *score = if *score > 0.0 { *score / factor } else { *score * factor };
                if times > 0 {
                    *score -= p.presence_penalty + p.frequency_penalty * times as f32;
                }
            }
        }
        if in_reply < self.min_tokens {
            for &token in &self.stop_tokens {
                scores[token as usize] = f32::NEG_INFINITY;
            }
        }
    }

    fn draw(&mut self, scores: &[f32], position: usize) -> Option<TokenId> {
        let top = scores[best(scores)? as usize];
        let inverse = 1.0 / f64::from(self.params.temperature);
        let kept = &mut self.candidates;
        kept.clear();
        kept.extend(scores.iter().zip(0..).filter(|(score, _)| score.is_finite()).map(
            |(&score, token)| {
                let weight = math::exp((f64::from(score) - f64::from(top)) * inverse);
                Candidate { token, score, weight }
            },
        ));
        keep_top_k(kept, self.params.top_k);
        keep_top_p(kept, f64::from(self.params.top_p));
        // The best candidate weighs 1, so its share is the unit that min-p is relative to.
        kept.retain(|c| c.weight >= f64::from(self.params.min_p));

        let total: f64 = kept.iter().map(|c| c.weight).sum();
        let target = uniform(self.params.seed, self.params.choice, position) * total;
        let mut sum = 0.0;
        let drawn = kept.iter().find(|c| {
            sum += c.weight;
            sum > target
        });
        // Rounding can leave `target` a hair above the last sum.
        drawn.or(kept.last()).map(|c| c.token)
    }
}

/// How likely `token` is by `scores`, and the `top` likeliest. Sums run in f64 in the order of
/// tokens, so the bits depend on the scores alone.
pub(crate) fn logprobs(scores: &[f32], token: TokenId, top: usize) -> Logprobs {
    let max = scores.iter().copied().filter(|s| s.is_finite()).fold(f32::NEG_INFINITY, f32::max);
    let above = |score: f32| f64::from(score) - f64::from(max);
    let finite = || scores.iter().zip(0..).filter(|(score, _)| score.is_finite());
    let sum: f64 = finite().map(|(&score, _)| math::exp(above(score))).sum();
    let log_sum = math::ln(sum);
    let logprob = |score: f32| (above(score) - log_sum) as f32;
    let mut best: Vec<_> =
        finite().map(|(&score, token)| Candidate { token, score, weight: 0.0 }).collect();
    if top < best.len() {
        best.select_nth_unstable_by(top, rank);
        best.truncate(top);
    }
    best.sort_unstable_by(rank);
    Logprobs {
        logprob: logprob(scores[token as usize]),
        top: best.iter().map(|c| (c.token, logprob(c.score))).collect(),
    }
}

/// How likely `token` is among all tokens, and how undecided the scores are.
fn sureness(scores: &[f32], token: TokenId, with_entropy: bool) -> Guess {
    let top = f64::from(scores[token as usize]);
    let above = || scores.iter().filter(|s| s.is_finite()).map(|&score| f64::from(score) - top);
    let sum: f64 = above().map(math::exp).sum();
    let entropy = if with_entropy {
        // −Σ p ln p, where ln p = x − ln Σ.
        let weighted: f64 = above().map(|x| math::exp(x) * x).sum();
        math::ln(sum) - weighted / sum
    } else {
        0.0
    };
    Guess { probability: (1.0 / sum) as f32, entropy: entropy as f32 }
}

/// The best and the second best token.
pub(crate) fn best_two(scores: &[f32]) -> [Option<TokenId>; 2] {
    let first = best(scores);
    let others = scores.iter().zip(0..).filter(|(s, token)| s.is_finite() && Some(*token) != first);
    let second =
        others.fold(None, |second: Option<(f32, TokenId)>, (&score, token)| match second {
            Some((top, _)) if top >= score => second,
            _ => Some((score, token)),
        });
    [first, second.map(|(_, token)| token)]
}

/// Better first; equal scores by number.
fn rank(a: &Candidate, b: &Candidate) -> Ordering {
    b.score.total_cmp(&a.score).then(a.token.cmp(&b.token))
}

/// The best finite score, the lowest number among equals.
fn best(scores: &[f32]) -> Option<TokenId> {
    // Two loops without a way out in between are vector code, and far faster than one with it.
    let finite = |score: f32| if score.is_finite() { score } else { f32::NEG_INFINITY };
    let mut lanes = [f32::NEG_INFINITY; 16];
    let (chunks, tail) = scores.as_chunks::<16>();
    for chunk in chunks {
        for (lane, &score) in lanes.iter_mut().zip(chunk) {
            let score = finite(score);
            *lane = if score > *lane { score } else { *lane };
        }
    }
    let top = lanes.into_iter().chain(tail.iter().map(|&s| finite(s))).fold(f32::MIN, f32::max);
    scores.iter().position(|&score| score == top).map(|token| token as TokenId)
}

fn keep_top_k(kept: &mut Vec<Candidate>, k: usize) {
    if k == 0 {
        return;
    }
    if k < kept.len() {
        kept.select_nth_unstable_by(k - 1, rank);
        kept.truncate(k);
    }
    // Also when there are no more than `k`: the draw must not depend on what was left out before.
    kept.sort_unstable_by(rank);
}

/// The shortest run of best candidates that holds a share `p` of the weight.
fn keep_top_p(kept: &mut Vec<Candidate>, p: f64) {
    if p >= 1.0 || kept.is_empty() {
        return;
    }
    let total: f64 = kept.iter().map(|c| c.weight).sum();
    // Candidates below this weigh less than the 1 - p that may be left out, all together, so the
    // run ends before the first of them: no need to sort the long tail.
    let floor = (1.0 - p) * total / kept.len() as f64;
    kept.retain(|c| c.weight >= floor);
    kept.sort_unstable_by(rank);
    let mut sum = 0.0;
    let enough = kept.iter().position(|c| {
        sum += c.weight;
        sum >= p * total
    });
    kept.truncate(enough.map_or(kept.len(), |last| last + 1));
}

#[cfg(test)]
mod tests;
