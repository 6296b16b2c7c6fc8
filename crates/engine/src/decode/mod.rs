//! How one sequence turns scores into tokens.
//!
//! A decoder plans tokens to run and absorbs their scores. `keep` is the whole of K/V rollback:
//! tokens that were run and not kept are overwritten by a later step.

mod accept;
mod autoregressive;
mod block;
mod diffusion;
mod draft_len;
mod drafted;
mod embedder;
mod lookup;
mod mode;
mod settings;

use std::ops::Range;

use wf_model::{Scoring, Sees, TokenId};

pub use accept::{Guess, Rule};
pub use autoregressive::Autoregressive;
pub use diffusion::BlockFiller;
pub use drafted::Drafted;
pub use embedder::Embedder;
pub use mode::{Abilities, DecodeMode, Diffusion, Drafting, Unsupported};
pub use settings::DecodeSettings;

use crate::request::{Logprobs, Picked};
use crate::sample::Sampler;

/// A sequence as its decoder sees it.
#[derive(Clone, Copy, Debug)]
pub struct SeqView<'a> {
    /// Prompt and reply so far.
    pub tokens: &'a [TokenId],
    /// How many of the tokens are the prompt.
    pub prompt_len: usize,
    /// How many of the tokens have their K/V in the pages.
    pub kv_len: usize,
    /// The most tokens that prompt and reply can come to.
    pub most: usize,
    /// How many positions the context has.
    pub context_len: usize,
    /// How many likeliest tokens to tell for each token of the prompt, if any of it is to be told.
    pub prompt_logprobs: Option<usize>,
}

/// How much of a step a decoder can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// As many tokens as this, if there is room for them.
    pub tokens: usize,
    /// Fewer than this are of no use.
    pub least: usize,
    /// Whether it reads what is known already (and does not look for the next token).
    pub reads: bool,
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
    /// Which scores they get, if not those that a pick looks at.
    pub scoring: Option<Scoring>,
}

impl Plan {
    /// Runs `tokens` as text that is known, in one pass with what comes before.
    fn causal(at: usize, tokens: &[TokenId], want: Vec<usize>) -> Self {
        Self { at, tokens: tokens.to_vec(), sees: Sees::Causal, want, scoring: None }
    }
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
    /// Tokens that were guessed for a check, and those of them that it agreed with.
    pub drafted: usize,
    /// See `drafted`.
    pub agreed: usize,
    /// The block as it stands, if it is to be shown: nothing where a mask is.
    pub preview: Vec<Option<TokenId>>,
    /// What all of the text came to, where that was asked for and not a reply.
    pub embedding: Option<Vec<f32>>,
}

/// How one sequence turns scores into tokens. One value a sequence; it owns its state.
pub trait Decoder: Send {
    /// How much of the next step it can use.
    fn need(&self, seq: SeqView<'_>) -> Need;

    /// What to run next, at most `budget` tokens, which is no less than the least of `need`.
    ///
    /// A plan may be dropped without being run (no page was free): the next call plans again.
    fn plan(&mut self, seq: SeqView<'_>, budget: usize) -> Plan;

    /// Reads the scores of the plan's wanted tokens, one row after another, which it may change.
    /// Nothing if no token could be picked.
    fn absorb(
        &mut self,
        seq: SeqView<'_>,
        plan: &Plan,
        scores: &mut [f32],
        sampler: &mut Sampler,
    ) -> Option<Outcome>;

    /// How many tokens a draft model is to guess before the next plan, if this decoder uses one.
    fn guesses_wanted(&mut self, _seq: SeqView<'_>) -> Option<usize> {
        None
    }

    /// What it guessed; at least one token.
    fn take_guesses(&mut self, _seq: SeqView<'_>, _guesses: Vec<TokenId>) {}

    /// Which tokens of the plan it wants the hidden states of.
    fn pooled(&self, _plan: &Plan) -> Range<usize> {
        0..0
    }

    /// Takes in the hidden state of one of them, in order, before `absorb`.
    fn pool(&mut self, _hidden: &[f32]) {}

    /// Whether every token has to run, also those whose K/V others have computed.
    fn runs_all(&self) -> bool {
        false
    }

    /// The pages were given up: whatever lay in them behind `kv_len` is gone too.
    fn forget_pages(&mut self) {}

    /// What finished text sees: only K/V that was written so is of use.
    fn context(&self) -> Sees {
        Sees::Causal
    }
}
