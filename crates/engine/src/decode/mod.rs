//! How one sequence turns scores into tokens.
//!
//! A decoder plans tokens to run and absorbs their scores. `keep` is the whole of K/V rollback:
//! tokens that were run and not kept are overwritten by a later step.

mod autoregressive;

use wf_model::{Sees, TokenId};

pub use autoregressive::Autoregressive;

use crate::request::{DecodeMode, Logprobs, Picked};
use crate::sample::Sampler;

/// A sequence as its decoder sees it.
#[derive(Clone, Copy, Debug)]
pub struct SeqView<'a> {
    /// Prompt and reply so far.
    pub tokens: &'a [TokenId],
    /// How many of the tokens are the prompt.
    pub prompt_len: usize,
    /// How many of the tokens have their K/V in the pages. Always fewer than all of them.
    pub kv_len: usize,
    /// How many likeliest tokens to tell for each token of the prompt, if any of it is to be told.
    pub prompt_logprobs: Option<usize>,
}

/// What a decoder wants to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Position of the first token: `kv_len`, or later when part of a block is redone.
    pub at: usize,
    /// The tokens; at least one.
    pub tokens: Vec<TokenId>,
    /// What each of them sees.
    pub sees: Sees,
    /// Which of them want scores, ascending.
    pub want: Vec<usize>,
}

/// What became final.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// How many tokens after `kv_len` keep their K/V.
    pub keep: usize,
    /// How likely the tokens of the prompt are that follow those run, if asked for.
    pub prompt: Vec<Logprobs>,
    /// Tokens to append.
    pub commit: Vec<Picked>,
}

/// How one sequence turns scores into tokens. One value a sequence; it owns its state.
pub trait Decoder: Send {
    /// What to run next, at most `budget` tokens (at least 1).
    ///
    /// A plan may be dropped without being run (no page was free): the next call plans again.
    fn plan(&mut self, seq: SeqView<'_>, budget: usize) -> Plan;

    /// Reads the scores of the plan's wanted tokens, one row after another, which it may change.
    /// Nothing if the scores were not finite.
    fn absorb(
        &mut self,
        seq: SeqView<'_>,
        plan: &Plan,
        scores: &mut [f32],
        sampler: &mut Sampler,
    ) -> Option<Outcome>;
}

/// The decoder of a mode.
pub(crate) fn decoder(mode: DecodeMode) -> Box<dyn Decoder> {
    match mode {
        DecodeMode::Autoregressive => Box::new(Autoregressive),
    }
}
