//! The sender of a request: its API key, or else its address.

use std::net::{IpAddr, Ipv6Addr};

/// Address of a client, without the part that the client chooses freely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Peer(Option<IpAddr>);

impl Peer {
    /// Returns the peer at an address. A host may use any address of its IPv6 network of 64 bits.
    pub(crate) fn new(address: IpAddr) -> Self {
        Self(Some(match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            address => address,
        }))
    }
}

/// Sender of a request. Callers with different keys share no cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    key: Option<[u8; 32]>,
    peer: Peer,
}

impl Caller {
    /// Creates a caller with the digest of its key, or without a key.
    pub(super) fn new(key: Option<[u8; 32]>) -> Self {
        Self { key, peer: Peer::default() }
    }

    pub(crate) fn at(self, peer: Peer) -> Self {
        Self { peer, ..self }
    }

    /// Returns the digest of its key.
    pub(crate) fn key(&self) -> Option<[u8; 32]> {
        self.key
    }

    /// Returns the address of a caller without a key, which stands for it.
    pub(crate) fn peer(&self) -> Option<Peer> {
        self.key.is_none().then_some(self.peer)
    }
}

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
