//! Completion task of a sequence: decoder, sampler, limits.

mod costs;

use std::time::Duration;

use wf_model::{DrawQuery, Scoring, TokenId};

use crate::decode::{Decoder, Outcome, Pass, Plan, Rows, SeqState};
use crate::output::{DecodeStats, FinishReason, Limits, SampledToken};
use crate::request::{Event, Request};
use crate::sample::Sampler;

impl SeqState {
    pub(crate) fn new(prompt: Vec<TokenId>, max_tokens: usize, context_len: usize) -> Self {
        let prompt_len = prompt.len();
        let max_len = prompt_len + max_tokens;
        Self { tokens: prompt, prompt_len, max_len, context_len, ..Self::default() }
    }

    /// Keeps the K/V of `keep` more tokens. Returns an event if prefill advanced.
    pub(crate) fn advance(&mut self, keep: usize) -> Option<Event> {
        let total = self.prompt_len;
        let is_prefill = self.kv_len < total;
        self.kv_len += keep;
        let done = self.kv_len.min(total);
        (is_prefill && keep > 0).then_some(Event::Progress { done, total })
    }
}

pub(crate) struct Generation {
    pub(crate) decoder: Box<dyn Decoder>,
    pub(crate) sampler: Sampler,
    limits: Limits,
    pub(crate) stats: DecodeStats,
    /// Number of prompt tokens whose logprobs are reported, each once, however often they are computed.
    /// The first one has none, because nothing precedes it.
    reported: usize,
    /// Time that the grammar took from other sequences and that is not yet paid back by waiting.
    pub(crate) grammar_debt: Duration,
    /// The draws of the plan's scored tokens.
    draws: Vec<DrawQuery>,
}

impl Generation {
    pub(crate) fn new(request: Request, decoder: Box<dyn Decoder>) -> Self {
        let mut sampler = Sampler::new(request.sampling, &request.limits, &request.prompt)
            .with_grammar(request.grammar.as_ref())
            .with_thinking(request.thinking);
        sampler.logprobs = request.logprobs;
        Self {
            decoder,
            sampler,
            limits: request.limits,
            stats: DecodeStats::default(),
            reported: 1,
            grammar_debt: Duration::ZERO,
            draws: Vec::new(),
        }
    }

    /// Computes what the forward pass needs to know of the tokens that the plan samples: their draws and, if it
    /// is exactly one, what the grammar allows. What may follow draft tokens is computed once they are
    /// accepted, as it would be without a draft.
    pub(crate) fn prepare(&mut self, seq: &SeqState, plan: &Plan, vocab_len: usize) {
        if self.samples_one(seq, plan) {
            self.sampler.prepare_mask(vocab_len);
        }
        self.draws.clear();
        if plan.scoring.is_none() && self.scoring(seq, plan) != Scoring::All {
            let known = seq.tokens.len() - plan.start;
            for &index in &plan.scored {
                let position = plan.start + index + 1;
                let drafted = plan.tokens.get(known..=index).unwrap_or_default();
                let index = position - seq.prompt_len;
                self.draws.push(self.sampler.draw_query(position, index, drafted));
            }
        }
    }

    /// Returns the prepared mask, empty if there is none.
    pub(crate) fn allowed(&self, seq: &SeqState, plan: &Plan) -> &[u32] {
        if self.samples_one(seq, plan) { self.sampler.allowed() } else { &[] }
    }

    /// Returns the prepared draws, empty if the plan needs none.
    pub(crate) fn draws(&self) -> &[DrawQuery] {
        &self.draws
    }

    /// Returns the logits that the plan needs.
    pub(crate) fn scoring(&self, seq: &SeqState, plan: &Plan) -> Scoring {
        match plan.scoring {
            Some(scoring) => scoring,
            None if seq.prompt_logprobs.is_some() => Scoring::All,
            None => self.sampler.scoring(),
        }
    }

    fn samples_one(&self, seq: &SeqState, plan: &Plan) -> bool {
        let is_sampled = plan.scored.len() == 1 && plan.scoring.is_none();
        is_sampled && seq.prompt_logprobs.is_none()
    }

    /// Absorbs the logits of a plan: appends tokens, emits events, and returns the finish reason at the end.
    pub(crate) fn absorb(
        &mut self,
        seq: &mut SeqState,
        plan: &Plan,
        rows: Rows<'_>,
        mut emit: impl FnMut(Event),
    ) -> Option<FinishReason> {
        let generates = seq.max_len > seq.prompt_len;
        if generates && plan.start + plan.tokens.len() >= seq.prompt_len {
            self.stats.passes += 1;
            self.stats.rows += plan.tokens.len();
        }
        let outcome = self.decoder.absorb(Pass { seq, plan, rows, sampler: &mut self.sampler });
        let Some(outcome) = outcome else { return Some(self.sampler.failure()) };
        let Outcome { keep, mut prompt_logprobs, commit: mut tokens, drafted, accepted, preview } =
            outcome;
        self.stats.drafted += drafted;
        self.stats.accepted += accepted;
        let known = self.reported.saturating_sub(seq.kv_len + 1).min(prompt_logprobs.len());
        prompt_logprobs.drain(..known);
        self.reported += prompt_logprobs.len();
        seq.prompt_logprobs = seq.prompt_logprobs.filter(|_| self.reported < seq.prompt_len);
        if !prompt_logprobs.is_empty() {
            emit(Event::PromptLogprobs(prompt_logprobs));
        }
        if !preview.is_empty() {
            emit(Event::Preview(preview));
        }
        let advanced = seq.advance(keep);
        if tokens.is_empty() {
            advanced.into_iter().for_each(emit);
            return None;
        }
        seq.draft.clear();
        let (len, reason) = self.cut(&tokens, seq.tokens.len() - seq.prompt_len);
        tokens.truncate(len);
        seq.tokens.extend(tokens.iter().map(|sampled| sampled.token));
        if !tokens.is_empty() {
            emit(Event::Tokens { tokens, stats: self.stats });
        }
        reason
    }

    /// Returns how many of the sampled tokens are part of the completion, and the finish reason if it ends
    /// with them.
    fn cut(&self, sampled: &[SampledToken], generated: usize) -> (usize, Option<FinishReason>) {
        let is_stop = |token: &SampledToken| self.limits.stop_tokens.contains(&token.token);
        let room = self.limits.max_tokens - generated;
        match sampled.iter().position(is_stop) {
            Some(at) if at < room => (at + 1, Some(FinishReason::Stop)),
            _ if sampled.len() <= room && self.sampler.is_complete() => {
                (sampled.len(), Some(FinishReason::Stop))
            }
            _ if sampled.len() >= room => (room, Some(FinishReason::Length)),
            _ => (sampled.len(), None),
        }
    }
}
