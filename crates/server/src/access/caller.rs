//! The sender of a request: its API key, or else its address.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use axum::http::HeaderMap;

use super::keys::{Key, KnownKey};
use super::usage::{Permit, Refusal};

/// Address of a client, without the part that the client chooses freely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    /// `None` on the other side of a Unix socket.
    address: Option<IpAddr>,
    /// True if a proxy forwarded the request.
    is_forwarded: bool,
}

impl Peer {
    /// Returns the peer at an address. A host may use any address of its IPv6 network of 64 bits.
    pub(crate) fn new(address: IpAddr) -> Self {
        let address = match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            address => address,
        };
        Self { address: Some(address), is_forwarded: false }
    }

    /// Returns the same peer behind a proxy.
    pub(super) fn forwarded(self) -> Self {
        Self { is_forwarded: true, ..self }
    }

    /// True if a proxy forwarded the request, so that the connection says nothing about its sender.
    pub(crate) fn is_forwarded(self) -> bool {
        self.is_forwarded
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => address.fmt(f),
            None => f.write_str("local"),
        }
    }
}

/// Sender of a request. Callers with different keys share no cache.
#[derive(Clone)]
pub(crate) struct Caller {
    known: Option<Arc<KnownKey>>,
    peer: Peer,
}

impl Caller {
    pub(crate) fn new(known: Option<Arc<KnownKey>>, peer: Peer) -> Self {
        Self { known, peer }
    }

    pub(crate) fn peer(&self) -> Peer {
        self.peer
    }

    pub(crate) fn key(&self) -> Option<&Key> {
        self.known.as_ref().map(|known| &known.key)
    }

    /// Returns the digest of its key, which separates caches.
    pub(crate) fn digest(&self) -> Option<[u8; 32]> {
        self.known.as_ref().map(|known| known.digest())
    }

    /// Returns its name: that of its key, or else its address.
    pub(crate) fn name(&self) -> String {
        self.key().map_or_else(|| self.peer.to_string(), |key| key.name.clone())
    }

    /// Begins a request if the limits of its key allow one more.
    pub(crate) fn begin(&self) -> Result<Option<Permit>, Refusal> {
        let begin = |known: &Arc<KnownKey>| known.usage.begin(&known.key.limits, Instant::now());
        self.known.as_ref().map(begin).transpose()
    }

    /// Adds headers that tell how much of its limits is left.
    pub(crate) fn write_headers(&self, headers: &mut HeaderMap) {
        if let Some(known) = &self.known {
            known.usage.write_headers(&known.key.limits, Instant::now(), headers);
        }
    }
}

/// A caller whose requests this process sends, such as those of a batch. They are less urgent than those that
/// arrive over the network, which cannot claim to be such.
#[derive(Clone)]
pub(crate) struct Background(pub(crate) Caller);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_peer() {
        let peer = |text: &str| Peer::new(text.parse().unwrap());
        assert_eq!(peer("2001:db8:1:2::1"), peer("2001:db8:1:2:ffff::9"));
        assert_ne!(peer("2001:db8:1:2::1"), peer("2001:db8:1:3::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
    }
}
