//! Interface of decoders: a [`Decoder`] plans tokens to run and absorbs their logits.
//!
//! [`Outcome::keep`] is the only rollback: K/V of tokens that ran and were not kept is overwritten by a later step, and states
//! of recurrent layers are moved on by the tokens that were kept.

use wf_model::{Logits, LogitsRow, Scoring, TokenId, Visibility};

use super::draft_costs::DraftCosts;
use crate::output::{Logprobs, SampledToken};
use crate::sample::Sampler;

/// Tokens of a sequence and how far they are processed.
#[derive(Clone, Debug, Default)]
pub struct SeqState {
    /// Prompt and completion so far.
    pub tokens: Vec<TokenId>,
    /// Number of prompt tokens.
    pub prompt_len: usize,
    /// Number of tokens whose K/V is in the pages.
    pub kv_len: usize,
    /// Maximum number of tokens of prompt and completion.
    pub max_len: usize,
    /// Number of positions of the context.
    pub context_len: usize,
    /// Number of alternatives to report for each prompt token, while prompt logprobs are pending.
    pub prompt_logprobs: Option<usize>,
    /// Tokens that a draft model or the prediction head proposes to follow `tokens`.
    pub draft: Vec<TokenId>,
    /// Costs of draft rows in the next pass, if the decoder weighs them.
    pub costs: DraftCosts,
}

impl SeqState {
    /// Returns the tokens whose K/V is not yet in the pages.
    pub(super) fn pending(&self) -> &[TokenId] {
        &self.tokens[self.kv_len..]
    }
}

/// Share of a step that a sequence can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenDemand {
    /// Number of tokens it can run.
    pub tokens: usize,
    /// Minimum number of tokens it can run: blocks run whole.
    pub min_tokens: usize,
    /// True if it reads known text and does not yet sample.
    pub is_prefill: bool,
}

/// Tokens to run in the next forward pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Position of the first token: `kv_len`, or later when part of a block runs again.
    pub start: usize,
    /// Tokens to run; at least one.
    pub tokens: Vec<TokenId>,
    /// Positions that each token attends to.
    pub visibility: Visibility,
    /// Indices of the tokens whose logits are needed, ascending.
    pub scored: Vec<usize>,
    /// Logits to compute, if not those the sampler needs.
    pub scoring: Option<Scoring>,
}

impl Plan {
    /// Runs known text with causal attention.
    pub(super) fn causal(start: usize, tokens: Vec<TokenId>, scored: Vec<usize>) -> Self {
        Self { start, tokens, visibility: Visibility::Causal, scored, scoring: None }
    }

    /// Returns the number of its tokens that are behind those of the sequence, and may not be kept.
    pub(crate) fn drafts(&self, seq: &SeqState) -> usize {
        (self.start + self.tokens.len()).saturating_sub(seq.tokens.len())
    }
}

/// A plan after its forward pass.
pub struct Pass<'a> {
    /// The sequence before the pass.
    pub seq: &'a SeqState,
    /// The plan that ran.
    pub plan: &'a Plan,
    /// Logits of the plan's scored tokens. Rows may be modified.
    pub rows: Rows<'a>,
    /// Sampler of the sequence.
    pub sampler: &'a mut Sampler,
}

/// Rows of logits that belong to one plan.
pub struct Rows<'a> {
    logits: &'a mut Logits,
    next: usize,
    end: usize,
}

impl<'a> Rows<'a> {
    /// Returns the `len` rows from `first` on.
    pub fn new(logits: &'a mut Logits, first: usize, len: usize) -> Self {
        Self { logits, next: first, end: first + len }
    }

    /// Returns the next row.
    pub fn next_row(&mut self) -> Option<LogitsRow<'_>> {
        let row = self.next;
        self.next += 1;
        (row < self.end).then(|| self.logits.row_mut(row))
    }
}

/// Result of absorbing a plan's logits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Number of tokens after `kv_len` that keep their K/V.
    pub keep: usize,
    /// Logprobs of the prompt tokens that follow those that ran, if requested.
    pub prompt_logprobs: Vec<Logprobs>,
    /// Sampled tokens to append.
    pub commit: Vec<SampledToken>,
    /// Number of draft tokens that were verified.
    pub drafted: usize,
    /// Number of draft tokens that were accepted.
    pub accepted: usize,
    /// Block in progress, if a preview is requested; `None` stands for a mask.
    pub preview: Vec<Option<TokenId>>,
}

/// Turns the logits of one sequence into its tokens. Each sequence owns one value.
pub trait Decoder: Send {
    /// Returns the share of the next step that the sequence can use.
    fn demand(&self, seq: &SeqState) -> TokenDemand;

    /// Plans the next pass with at most `budget` tokens, which is at least the minimum of `demand`.
    ///
    /// A plan may be dropped without running because no page was free; the next call plans again.
    fn plan(&mut self, seq: &SeqState, budget: usize) -> Plan;

    /// Absorbs the logits of a pass. Returns `None` if no token can be sampled.
    fn absorb(&mut self, pass: Pass<'_>) -> Option<Outcome>;

    /// Returns the number of tokens that a draft model or the prediction head should propose before the next plan,
    /// or `None` if this decoder uses neither.
    fn draft_len(&mut self, _seq: &SeqState) -> Option<usize> {
        None
    }

    /// Returns `true` if the prediction head of the model drafts, in place of a draft model.
    fn predicts(&self) -> bool {
        false
    }

    /// Returns `true` if the number of draft tokens depends on their cost.
    fn weighs_drafts(&self) -> bool {
        false
    }

    /// Called when the sequence has given up its pages, including what lay behind `kv_len`.
    fn pages_released(&mut self) {}

    /// Returns the attention of finished text. K/V is shared only between sequences that agree on it.
    fn context(&self) -> Visibility {
        Visibility::Causal
    }
}
