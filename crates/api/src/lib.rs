//! Wire types of OpenAI's API with our extensions, and server-sent events; with the feature `http`, a client.
//!
//! Server and client share these types. Requests keep the fields they do not know
//! ([`wire::ChatRequest::extra`]), for the server to accept or reject.

#![forbid(unsafe_code)]

#[cfg(feature = "http")]
pub mod http;
pub mod sse;
pub mod wire;
