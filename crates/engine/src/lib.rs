//! Decides what runs next and what the scores mean.
//!
//! One thread owns all decoding state and runs one loop (`run.rs`): admit, plan, forward, absorb,
//! emit. A [`Request`] enters through an [`EngineHandle`] as token numbers and leaves as
//! [`Event`]s; text stays on the caller's side, in the [`Frontend`].
//!
//! Prefill is not a phase: a decoder plans as many of the tokens that are not yet in the pages as
//! its budget allows, so chunked prefill, mixed batches and decoding are one code path. What a
//! step may undo is [`Outcome::keep`](decode::Outcome::keep), and there is no other undo.

#![forbid(unsafe_code)]

mod block_choice;
pub mod decode;
mod drafter;
mod embed;
pub mod fake;
mod frontend;
mod grammar;
mod handle;
mod open;
mod open_draft;
mod pages;
mod prefix;
mod request;
mod rng;
mod run;
mod sample;
mod schedule;
mod sequence;
mod stats;
mod store;

pub use block_choice::BlockChoice;
pub use decode::{Abilities, DecodeMode, DecodeSettings, Diffusion, Drafting, Rule, Unsupported};
pub use embed::{Embed, Embedding};
pub use frontend::{
    Finish, Frontend, FrontendError, Generate, Input, Piece, StoppedAt, TextStream, Timings,
    draw_seed,
};
pub use grammar::{BadGrammar, Calls, Fixed, Grammar, GrammarSource, Grammars, Instead, ToolCall};
pub use handle::{EngineHandle, EngineOptions, Events};
pub use open::{
    ChatOptions, KvRoom, ModelSource, ModelText, OpenError, OpenedModel, RunOptions, compute,
    load_model, open_model, open_with_draft, read_text,
};
pub use request::{Event, FinishReason, Limits, Logprobs, Picked, Refused, Request, Work};
pub use sample::{BadSampling, Sampler, SamplingParams};
pub use stats::StatsSnapshot;
pub use wf_model::{Pooling, TokenId};

/// The version of the arithmetic: answers change only with this. What it stands for is held by the
/// golden hashes of the kernels' tests.
pub const NUMERICS: u32 = 2;
