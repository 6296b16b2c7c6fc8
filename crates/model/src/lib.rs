//! The network: weights, K/V storage, and one forward pass over a ragged batch.
//!
//! A model scores tokens; it knows nothing of decoding. The engine hands it a batch of
//! [`Segment`]s, each one sequence's share of a step, and reads [`Logits`] back. What a token
//! may see is the segment's [`Sees`]; where its K and V live is the segment's list of pages.
//!
//! Read `forward.rs` first: it is the whole pass, top to bottom. `attention.rs` and `mlp.rs` are
//! its two halves, `load.rs` is where a file becomes
//! [`Weights`](weights::Weights).
//!
//! The same tokens give the same bits whatever the batch, the chunking, the thread count or the
//! instruction set: every row is computed from that row and the K/V before it alone.

#![forbid(unsafe_code)]

mod attend;
mod attention;
mod codes;
mod compute;
mod cpus;
mod embed;
mod forward;
mod head;
mod kv;
mod load;
mod mlp;
mod parts;
mod scan;
mod scratch;
mod segment;
mod sparse;
mod trace;
pub mod weights;

pub use compute::Compute;
pub use cpus::{BadCpuList, CpuList, pool_on};
pub use forward::{Model, ModelOptions};
pub use head::{HeadCounts, HeadMode, UnknownHeadMode};
pub use kv::{KvDtype, KvPool, PAGE_LEN, PageId, UnknownKvDtype};
pub use load::{LoadError, Loading};
pub use parts::{Part, PartTimes};
pub use segment::{Forward, Logits, Scoring, Sees, Segment, TokenId};
pub use sparse::{LayerSparsity, SparseMode, UnknownSparseMode};
pub use trace::{LayerTrace, Quantized};
pub use wf_formats::{BlockDiffusion, MASK_TEXT, ModelConfig, Pooling};
pub use wf_kernels::{Isa, Layout, math, why_missing};
