//! Runs a [`Network`](wf_core::Network): weights, KV cache, and one forward pass over a ragged batch.
//!
//! A model scores tokens; it knows nothing of decoding. The engine passes a batch of [`Segment`]s, each
//! one sequence's share of a step, and gets [`Logits`] back. A segment's [`Visibility`] decides which
//! positions its tokens attend to, its list of pages where their keys and values are.
//!
//! Read `forward.rs` first: it is the whole pass. `attention.rs` (or `delta_net.rs`, for recurrent layers) and `mlp.rs` are the two
//! blocks of a layer, each driven by the layer's recipe; `load.rs` reads a file into [`Weights`](weights::Weights).
//!
//! The same tokens give the same bits for every batch, chunking, thread count and instruction set:
//! each row is computed from that row and the keys and values before it alone.

#![forbid(unsafe_code)]

mod adjustment;
mod attend;
mod attention;
mod codes;
mod columns;
mod compute;
mod dead_neurons;
mod delta_net;
mod delta_scratch;
mod draw;
mod embed;
mod experts;
mod forward;
mod hadamard;
mod head;
mod kv;
mod load;
mod logits;
mod mlp;
mod model;
mod mtp;
mod options;
mod phases;
mod probe;
mod rotary;
mod router;
mod row_query;
mod scan;
mod scratch;
mod segment;
mod select;
mod sparse;
mod states;
mod table;
mod trace;
pub mod weights;
mod zeros;

pub use adjustment::Adjustment;
pub use compute::{Compute, GroupsSplitLines};
pub use draw::{Candidate, Draw, DrawQuery};
pub use head::{Count, HeadCounts};
pub use kv::{KvDtype, KvPool, PAGE_LEN, PAGE_VERSION, PageId, UnknownKvDtype};
pub use load::{LoadError, LoadProgress};
pub use logits::{Logits, LogitsRow, TokenLogit, best};
pub use model::Model;
pub use options::{HeadMode, ModelOptions, SparseMode, UnknownMode};
pub use phases::{Phase, PhaseTimes};
pub use rotary::Frequencies;
pub use segment::{Forward, HiddenStates, Scoring, Segment, Visibility};
pub use sparse::LayerSparsity;
pub use trace::{LayerTrace, Quantized};
pub use wf_core::{ActivationCodes, AttentionMode, TokenId, Window};
pub use wf_formats::{BlockDiffusion, MASK_TEXT, ModelInfo, Pooling};
pub use wf_kernels::{
    CpuList, CpuListError, Isa, Layout, NoiseKey, Placement, Zeroing, math, unavailable_reason,
};
pub use zeros::{LayerZeros, Magnitudes, ProductInput};
