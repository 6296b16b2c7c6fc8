//! Access to the server: API keys, host names and origins, TLS.

mod caller;
mod hosts;
mod keys;
mod proxies;
mod salts;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod usage;

pub(crate) use caller::{Background, Caller, Peer};
pub use hosts::Hosts;
pub use keys::{Key, Keys};
pub use proxies::TrustedProxy;
pub(crate) use proxies::client;
pub use salts::SaltKey;
pub use tls::{Tls, TlsError};
pub use usage::KeyLimits;
pub(crate) use usage::{Permit, Refusal};
