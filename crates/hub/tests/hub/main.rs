//! Downloads from a test server, and the cache of conversions.

#![expect(clippy::unwrap_used, reason = "a test whose premise does not hold should stop")]

mod conversions;
mod fetch;
mod server;
