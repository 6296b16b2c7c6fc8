//! Completion task of a sequence: decoder, sampler, limits.

use std::time::Duration;

use wf_model::{Scoring, TokenId, Visibility};

use crate::decode::{Decoder, Outcome, Plan, SeqView, TokenDemand};
use crate::output::{DecodeStats, FinishReason, Limits, SampledToken};
use crate::prompt_logprobs::PromptLogprobs;
use crate::request::{Event, Request};
use crate::sample::Sampler;

/// Divisor of a step's time: the share that the grammar of one sequence may use.
const GRAMMAR_SHARE: u32 = 20;

/// Tokens of a sequence and how far they are processed.
pub(crate) struct Progress {
    /// Prompt and completion.
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) prompt_len: usize,
    /// Number of tokens whose K/V is in the pages.
    pub(crate) kv_len: usize,
    /// Maximum number of tokens of prompt and completion.
    pub(crate) max_len: usize,
    pub(crate) context_len: usize,
}

impl Progress {
    pub(crate) fn new(prompt: Vec<TokenId>, max_tokens: usize, context_len: usize) -> Self {
        let prompt_len = prompt.len();
        let max_len = prompt_len + max_tokens;
        Self { tokens: prompt, prompt_len, kv_len: 0, max_len, context_len }
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

/// State of a completion.
pub(crate) struct Generation {
    decoder: Box<dyn Decoder>,
    pub(crate) sampler: Sampler,
    limits: Limits,
    pub(crate) stats: DecodeStats,
    prompt_logprobs: PromptLogprobs,
    /// Tokens that the draft model proposes next.
    pub(crate) draft: Vec<TokenId>,
    /// Time that the grammar took from other sequences and that is not yet paid back by waiting.
    grammar_debt: Duration,
}

impl Generation {
    pub(crate) fn new(request: Request, decoder: Box<dyn Decoder>) -> Self {
        let sampler = Sampler::new(request.sampling, &request.limits, &request.prompt)
            .with_logprobs(request.logprobs)
            .with_grammar(request.grammar.as_ref());
        Self {
            decoder,
            sampler,
            limits: request.limits,
            stats: DecodeStats::default(),
            prompt_logprobs: PromptLogprobs::new(request.prompt_logprobs),
            draft: Vec::new(),
            grammar_debt: Duration::ZERO,
        }
    }

    /// Borrows the decoder together with its view of the sequence.
    fn decoder<'a>(&'a mut self, progress: &'a Progress) -> (&'a mut dyn Decoder, SeqView<'a>) {
        let pending = self.prompt_logprobs.pending(progress.prompt_len);
        (&mut *self.decoder, view(progress, pending, &self.draft))
    }

    pub(crate) fn context(&self) -> Visibility {
        self.decoder.context()
    }

    pub(crate) fn demand(&self, progress: &Progress) -> TokenDemand {
        self.decoder.demand(view(progress, self.pending_logprobs(progress), &self.draft))
    }

    pub(crate) fn plan(&mut self, progress: &Progress, budget: usize) -> Plan {
        let (decoder, view) = self.decoder(progress);
        decoder.plan(view, budget)
    }

    /// Returns the number of tokens the draft model should propose, if the decoder uses one.
    pub(crate) fn draft_len(&mut self, progress: &Progress) -> Option<usize> {
        let (decoder, view) = self.decoder(progress);
        decoder.draft_len(view)
    }

    pub(crate) fn pages_released(&mut self) {
        self.decoder.pages_released();
    }

    /// Returns the number of alternatives to report, while prompt logprobs are pending.
    pub(crate) fn pending_logprobs(&self, progress: &Progress) -> Option<usize> {
        self.prompt_logprobs.pending(progress.prompt_len)
    }

    /// Computes the tokens that the grammar allows next, if the plan samples exactly one. What may follow
    /// draft tokens is computed once they are accepted, as it would be without a draft.
    pub(crate) fn prepare_mask(&mut self, progress: &Progress, plan: &Plan, vocab_len: usize) {
        if self.samples_one(progress, plan) {
            self.sampler.prepare_mask(vocab_len);
        }
    }

    /// Returns the prepared mask, empty if there is none.
    pub(crate) fn allowed(&self, progress: &Progress, plan: &Plan) -> &[u32] {
        if self.samples_one(progress, plan) { self.sampler.allowed() } else { &[] }
    }

    /// Returns the logits that the plan needs.
    pub(crate) fn scoring(&self, progress: &Progress, plan: &Plan) -> Scoring {
        match plan.scoring {
            Some(scoring) => scoring,
            None if self.pending_logprobs(progress).is_some() => Scoring::All,
            None => self.sampler.scoring(plan.scored.len()),
        }
    }

    fn samples_one(&self, progress: &Progress, plan: &Plan) -> bool {
        let is_sampled = plan.scored.len() == 1 && plan.scoring.is_none();
        is_sampled && self.pending_logprobs(progress).is_none()
    }

    /// Absorbs the logits of a plan: appends tokens, emits events, and returns the finish reason at the end.
    pub(crate) fn absorb(
        &mut self,
        progress: &mut Progress,
        plan: &Plan,
        logits: &mut [f32],
        mut emit: impl FnMut(Event),
    ) -> Option<FinishReason> {
        let generates = progress.max_len > progress.prompt_len;
        if generates && plan.start + plan.tokens.len() >= progress.prompt_len {
            self.stats.passes += 1;
            self.stats.rows += plan.tokens.len();
        }
        let view = view(progress, self.prompt_logprobs.pending(progress.prompt_len), &self.draft);
        let outcome = self.decoder.absorb(view, plan, logits, &mut self.sampler);
        let Some(outcome) = outcome else { return Some(self.sampler.failure()) };
        let Outcome { keep, prompt_logprobs, commit: mut tokens, drafted, accepted, preview } =
            outcome;
        self.stats.drafted += drafted;
        self.stats.accepted += accepted;
        let logprobs = self.prompt_logprobs.unreported(prompt_logprobs, progress.kv_len);
        if !logprobs.is_empty() {
            emit(Event::PromptLogprobs(logprobs));
        }
        if !preview.is_empty() {
            emit(Event::Preview(preview));
        }
        let advanced = progress.advance(keep);
        if tokens.is_empty() {
            advanced.into_iter().for_each(emit);
            return None;
        }
        self.draft.clear();
        let (len, reason) = self.cut(&tokens, progress.tokens.len() - progress.prompt_len);
        tokens.truncate(len);
        progress.tokens.extend(tokens.iter().map(|sampled| sampled.token));
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

    /// Returns `true` if it should let others run first because its grammar is slow. That delays it and
    /// changes nothing else: no output depends on the other sequences of a step.
    pub(crate) fn is_in_debt(&self) -> bool {
        !self.grammar_debt.is_zero()
    }

    pub(crate) fn clear_debt(&mut self) {
        self.grammar_debt = Duration::ZERO;
    }

    /// Accounts for the grammar's time in a step of this duration.
    pub(crate) fn settle_debt(&mut self, step: Duration) {
        self.grammar_debt += self.sampler.take_excess_time();
        self.grammar_debt = self.grammar_debt.saturating_sub(step / GRAMMAR_SHARE);
    }
}

fn view<'a>(
    progress: &'a Progress,
    prompt_logprobs: Option<usize>,
    draft: &'a [TokenId],
) -> SeqView<'a> {
    SeqView {
        tokens: &progress.tokens,
        prompt_len: progress.prompt_len,
        kv_len: progress.kv_len,
        max_len: progress.max_len,
        context_len: progress.context_len,
        prompt_logprobs,
        draft,
    }
}
