//! The hub's protocol against a small server of our own, and conversions that are kept.

#![expect(clippy::unwrap_used, reason = "a test whose premise does not hold should stop")]

mod conversions;
mod fetch;
mod server;
