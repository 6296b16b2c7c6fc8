//! The engine: schedules sequences, runs a model over them, and turns its logits into tokens.
//!
//! One thread owns all decoding state and runs one loop (`run.rs`): admit, plan, forward, absorb, emit. A
//! [`Request`] enters through an [`EngineHandle`] as token ids and leaves as [`Event`]s; text stays on the
//! caller's side, in the [`Frontend`].
//!
//! Prefill is not a phase: a decoder plans as many of the tokens that are not yet in the pages as its budget
//! allows, so chunked prefill, mixed batches and decoding are one code path. The only rollback of a step is
//! [`Outcome::keep`](decode::Outcome::keep).

#![forbid(unsafe_code)]

mod activation_sparsity;
mod admission;
mod block_overrides;
mod calibration;
mod clock;
pub mod decode;
mod disk;
mod drafter;
mod embed;
mod error;
mod events;
mod fair;
mod frontend;
mod generation;
mod generation_request;
mod grammar;
mod handle;
mod load;
mod logits;
mod model_text;
mod open;
mod options;
mod output;
mod parameters;
mod pooling;
mod prefix;
mod queue;
mod request;
mod rng;
mod row_costs;
mod run;
mod sample;
mod schedule;
mod sequence;
mod stats;
mod store;
mod task;
mod text_stream;
mod thinking;
mod token_pattern;

pub use activation_sparsity::{ActivationSparsity, InvalidActivationSparsity, topk};
pub use block_overrides::BlockOverrides;
pub use calibration::{Calibration, CalibrationError, PerInput, Shares, Thresholds};
pub use decode::{
    Capabilities, DecodeMode, DecodeSettings, DiffusionParams, DraftParams, MODES, ModeInfo,
    MtpParams, Setting, SettingKind, UnmaskRule, UnsupportedMode,
};
pub use disk::DiskStats;
pub use embed::Embedding;
pub use error::{FrontendError, OpenError};
pub use events::Events;
pub use frontend::{Frontend, random_seed};
pub use generation_request::GenerationRequest;
pub use grammar::{
    CallGrammar, Grammar, GrammarError, GrammarSource, Grammars, Literal, NoCall, ToolCallGrammar,
};
pub use handle::EngineHandle;
pub use load::{KvCapacity, ModelSource, RunOptions, compute, load_model, state_count};
pub use model_text::{ChatOptions, ChatTurn, ModelText, PromptInput, read_text};
pub use open::{OpenedModel, open_model, open_with_draft};
pub use options::{DiskCacheOptions, EngineOptions};
pub use output::{DecodeStats, FinishReason, Limits, Logprobs, SampledToken};
pub use prefix::window_pages;
pub use request::{EmbeddingRequest, Event, Request, RequestError};
pub use sample::{Sampler, required_logits};
pub use schedule::Origin;
pub use stats::StatsSnapshot;
pub use text_stream::{Finish, StopCause, TextEvent, TextStream, Timings};
pub use thinking::{Thinking, ThinkingEnd};
pub use token_pattern::TokenPattern;
pub use wf_core::{SamplingError, SamplingParams};
pub use wf_model::{PAGE_LEN, Pooling, TokenId};
pub use wf_text::ThinkingStart;

/// Version of the arithmetic. Outputs change only with it; the golden hashes of the kernels' tests enforce
/// that.
pub const NUMERICS: u32 = 3;
