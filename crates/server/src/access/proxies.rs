//! Proxies in front of the server, and the clients behind them.

use std::net::IpAddr;
use std::str::FromStr;

use axum::http::HeaderMap;

use super::caller::Peer;

/// Headers that proxies add to requests of others.
const FORWARDING: [&str; 3] = ["x-forwarded-for", "forwarded", "x-real-ip"];
/// List of addresses to which every proxy appends the one it got the request from.
const CLIENTS: &str = "x-forwarded-for";
/// Name of the peer on the other side of a Unix socket.
const UNIX: &str = "unix";

/// A proxy whose `x-forwarded-for` is believed: an address, or `unix` for the peer of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustedProxy(Peer);

impl FromStr for TrustedProxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            (UNIX, _) => Ok(Self(Peer::default())),
            (_, Ok(address)) => Ok(Self(Peer::new(address))),
            (_, Err(_)) => Err(format!("must be an IP address or {UNIX}")),
        }
    }
}

/// Returns the client of a request that arrived from `peer`: the last address in the list that is not a trusted proxy.
/// Without trust, it is the peer itself.
pub(crate) fn client(peer: Peer, headers: &HeaderMap, trusted: &[TrustedProxy]) -> Peer {
    let is_trusted = |peer: Peer| trusted.contains(&TrustedProxy(peer));
    let is_forwarded =
        is_trusted(peer) || FORWARDING.iter().any(|name| headers.contains_key(*name));
    let lists = headers.get_all(CLIENTS).iter().filter_map(|list| list.to_str().ok());
    let addresses: Vec<&str> = lists.flat_map(|list| list.split(',')).collect();
    let mut client = peer;
    for address in addresses.iter().rev() {
        let Some(address) = parse(address.trim()).filter(|_| is_trusted(client)) else { break };
        client = Peer::new(address);
    }
    if is_forwarded { client.forwarded() } else { client }
}

/// Parses an address, which some proxies write with a port.
fn parse(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse().ok().map(|address: std::net::SocketAddr| address.ip());
    text.parse().ok().or_else(with_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(peer: &str, list: &[&str], trusted: &[&str]) -> Peer {
        let mut headers = HeaderMap::new();
        for line in list {
            headers.append(CLIENTS, line.parse().unwrap());
        }
        let trusted: Vec<TrustedProxy> = trusted.iter().map(|one| one.parse().unwrap()).collect();
        client(peer.parse::<TrustedProxy>().unwrap().0, &headers, &trusted)
    }

    #[test]
    fn the_client_is_the_last_address_that_is_not_a_proxy() {
        let name = |peer, list: &[&str], trusted: &[&str]| find(peer, list, trusted).to_string();
        let proxies = ["127.0.0.1", "10.0.0.2", "unix"];
        assert_eq!(name("127.0.0.1", &["192.0.2.1"], &[]), "127.0.0.1");
        assert_eq!(name("192.0.2.9", &["192.0.2.1"], &proxies), "192.0.2.9");
        assert_eq!(name("127.0.0.1", &["192.0.2.1"], &proxies), "192.0.2.1");
        assert_eq!(name("unix", &["192.0.2.1"], &proxies), "192.0.2.1");
        // What a client writes itself comes before what proxies append.
        assert_eq!(name("127.0.0.1", &["1.1.1.1, 192.0.2.1", "10.0.0.2"], &proxies), "192.0.2.1");
        assert_eq!(name("127.0.0.1", &["192.0.2.1:4711"], &proxies), "192.0.2.1");
        assert_eq!(name("127.0.0.1", &["[2001:db8::1]:80"], &proxies), "2001:db8::");
        assert_eq!(name("127.0.0.1", &["192.0.2.1, nonsense"], &proxies), "127.0.0.1");
        assert_eq!(name("127.0.0.1", &[], &proxies), "127.0.0.1");
    }

    #[test]
    fn requests_through_a_proxy_are_known_as_such() {
        assert!(!find("127.0.0.1", &[], &[]).is_forwarded());
        assert!(find("127.0.0.1", &["192.0.2.1"], &[]).is_forwarded());
        assert!(find("127.0.0.1", &[], &["127.0.0.1"]).is_forwarded());
        assert!("proxy.example".parse::<TrustedProxy>().is_err());
    }
}
