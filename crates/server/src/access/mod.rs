//! Access to the server: API keys, host names and origins, TLS.

mod hosts;
mod keys;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;

pub use hosts::Hosts;
pub(crate) use keys::Caller;
pub use keys::Keys;
pub use tls::{Tls, TlsError};
