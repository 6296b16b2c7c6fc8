//! The router in process, with the demo model behind it.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

mod access;
mod answers;
mod anthropic;
mod batches;
mod decoding;
mod embeddings;
mod fields;
mod limits;
mod models;
mod ollama;
mod page;
mod responses;
mod scripted;
mod structured;
mod support;
mod thinking;
#[cfg(feature = "tls")]
mod tls;
mod tools;
mod tools_dialects;
mod wire;
