//! Model files as a whole: written, read, compared, rejected.

#![expect(clippy::unwrap_used, reason = "a test whose premise does not hold should stop")]

mod demo;
mod experts;
mod families;
mod hadamard;
mod hugging_face;
mod invalid_gguf;
mod mtp;
mod pairs;
mod patched;
mod peers;
mod published;
mod published_weight_only;
mod roundtrip;
mod sglbitnt;
mod support;
mod tiled;
mod wf;
