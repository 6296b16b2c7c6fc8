//! The nouns that every crate shares, with the rules that belong to them.
//!
//! A type lives here when two crates would otherwise each define their own. There is no I/O, no
//! thread and no arithmetic on weights in this crate.

#![forbid(unsafe_code)]

mod attention_mode;
mod kv_dtype;
mod network;
mod rotary;
mod sampling;
mod scales;
mod vocabulary;

pub use attention_mode::{AttentionMode, InvalidAttentionMode, Window};
pub use kv_dtype::{KvDtype, UnknownKvDtype};
pub use network::{
    Activation, ActivationCodes, Attention, DeltaNet, Dense, Embedding, Experts, Ffn, Hadamard,
    Head, InvalidNetwork, Layer, LayerKinds, Mixer, Mtp, Network, Norm, SharedExpert,
    ValueHeadOrder,
};
pub use rotary::{Rope, RopeDivisors, RopeScaling, RotaryPairs, Yarn};
pub use sampling::{
    LOGIT_BIAS_RANGE, ParamRange, ParamSpec, SamplingError, SamplingOverrides, SamplingParams,
};
pub use scales::Scales;
pub use vocabulary::{Vocabulary, token_type};

/// Index of a token in the vocabulary of a model.
pub type TokenId = u32;
