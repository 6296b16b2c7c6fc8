//! Access to the server: API keys, host names and origins, TLS.

mod caller;
mod hosts;
mod keys;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod usage;

pub(crate) use caller::{Caller, Peer};
pub use hosts::Hosts;
pub use keys::{Key, Keys};
pub use tls::{Tls, TlsError};
pub use usage::KeyLimits;
pub(crate) use usage::{Permit, Refusal};
