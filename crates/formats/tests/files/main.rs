//! Model files as a whole: written, read, compared, refused.

#![expect(clippy::unwrap_used, reason = "a test whose premise does not hold should stop")]

mod demo;
mod gguf_refusals;
mod hugging_face;
mod pairs;
mod peers;
mod published;
mod roundtrip;
mod sglbitnt;
mod support;
mod tiled;
mod wf;
