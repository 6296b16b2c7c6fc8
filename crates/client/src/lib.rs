//! What goes over the wire: the types of the OpenAI API with our additions, and server-sent events;
//! with the feature `http`, a client.
//!
//! Server and client share these types, so what one writes the other reads. Requests keep the
//! fields they do not know ([`wire::ChatRequest::rest`]): what becomes of those is the server's
//! decision.

#![forbid(unsafe_code)]

#[cfg(feature = "http")]
pub mod http;
pub mod sse;
pub mod wire;
