//! The router in process, with the demo model behind it.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

mod access;
mod answers;
mod anthropic;
mod decoding;
mod embeddings;
mod fields;
mod limits;
mod ollama;
mod page;
mod responses;
mod structured;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod tools;
mod tools_dialects;
mod wire;
