//! Host and origin checks, which protect a local server from web pages.
//!
//! A page can make a browser send requests here. The browser names the page in `Origin`; a page whose own
//! name resolves to this machine (DNS rebinding) is named in `Host`. Both are rejected unless allowed.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, StatusCode, Uri, header};

use crate::error::ApiError;

/// Host names the server answers to, and origins whose pages may use it.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// Address it listens on; `None` for a Unix socket.
    pub bound: Option<SocketAddr>,
    /// Further host names; `*` allows any.
    pub names: Vec<String>,
    /// Allowed origins, such as `https://chat.example`; `*` allows any.
    pub origins: Vec<String>,
}

impl Hosts {
    /// Rejects requests for other hosts and from pages of other origins.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        let host = self.host(uri, headers)?;
        if let Some(origin) = headers.get(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            if !self.allows_origin(origin) && !is_same_host(origin, &host) {
                let message =
                    "requests from this origin are not allowed: add it with --allow-origin";
                let status = StatusCode::FORBIDDEN;
                return Err(ApiError::status(status, "origin_not_allowed", message));
            }
        }
        Ok(())
    }

    /// Returns `true` if pages of this origin may read responses.
    pub(crate) fn allows_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|allowed| allowed == "*" || allowed == origin)
    }

    fn host(&self, uri: &Uri, headers: &HeaderMap) -> Result<String, ApiError> {
        let misdirected = || {
            let message = "requests for this host are not allowed: add it with --allow-host";
            ApiError::status(StatusCode::MISDIRECTED_REQUEST, "host_not_allowed", message)
        };
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().map_err(|_| misdirected())?,
            _ => return Err(misdirected()),
        };
        // A request target in absolute form has a host, too, which must be the same.
        let target_differs = uri.authority().is_some_and(|target| target.as_str() != host);
        if target_differs || !self.is_ours(name_of(host).ok_or_else(misdirected)?) {
            return Err(misdirected());
        }
        Ok(host.to_owned())
    }

    fn is_ours(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        if self.names.iter().any(|ours| ours == "*" || ours.eq_ignore_ascii_case(&name)) {
            return true;
        }
        let Some(bound) = self.bound else { return true };
        let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        match literal.unwrap_or(&name).parse::<IpAddr>() {
            // Addresses are safe from DNS rebinding: nothing is resolved.
            Ok(ip) => ip.is_loopback() || ip == bound.ip() || bound.ip().is_unspecified(),
            Err(_) => name == "localhost",
        }
    }
}

/// Returns the name in `name:port`, or `None` if it is malformed.
fn name_of(host: &str) -> Option<&str> {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => {
            port.parse::<u16>().ok()?;
            name
        }
        _ => host,
    };
    // An IPv6 address needs brackets.
    let is_bare_v6 = name.contains(':') && !name.starts_with('[');
    (!name.is_empty() && !is_bare_v6).then_some(name)
}

/// Returns `true` if a page of this origin came from this host.
fn is_same_host(origin: &str, host: &str) -> bool {
    let after_scheme = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    after_scheme.is_some_and(|origin| origin.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(hosts: &Hosts, host: &str, origin: Option<&str>) -> Result<(), u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        hosts.check(&Uri::from_static("/x"), &headers).map_err(|error| error.status.as_u16())
    }

    fn bound(address: &str) -> Hosts {
        Hosts { bound: Some(address.parse().unwrap()), ..Hosts::default() }
    }

    #[test]
    fn only_own_host_names_are_accepted() {
        let local = bound("127.0.0.1:30000");
        for ours in ["127.0.0.1", "127.0.0.1:30000", "localhost:30000", "LOCALHOST", "[::1]:1"] {
            assert_eq!(check(&local, ours, None), Ok(()), "{ours}");
        }
        for foreign in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "localhost.",
            "127.0.0.1.",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "10.0.0.7",
            "[::1",
            "::1",
            "[::1]evil",
            "localhost:",
            "localhost:x",
            "localhost:99999",
            "user@localhost",
            ":30000",
            "",
        ] {
            assert_eq!(check(&local, foreign, None), Err(421), "{foreign:?}");
        }
        assert_eq!(check(&bound("0.0.0.0:1"), "10.0.0.7:1", None), Ok(()));
        assert_eq!(check(&bound("0.0.0.0:1"), "evil.example:1", None), Err(421));
        let named = Hosts { names: vec!["wf.lan".into()], ..bound("0.0.0.0:1") };
        assert_eq!(check(&named, "wf.lan:1", None), Ok(()));
        assert_eq!(check(&named, "xwf.lan:1", None), Err(421));
    }

    #[test]
    fn the_host_is_named_once_and_consistently() {
        let local = bound("127.0.0.1:30000");
        assert!(local.check(&Uri::from_static("/"), &HeaderMap::new()).is_err());
        let mut twice = HeaderMap::new();
        twice.append(header::HOST, "localhost".parse().unwrap());
        assert!(local.check(&Uri::from_static("/"), &twice).is_ok());
        assert!(local.check(&Uri::from_static("http://localhost/"), &twice).is_ok());
        assert!(local.check(&Uri::from_static("http://127.0.0.1/"), &twice).is_err());
        twice.append(header::HOST, "localhost".parse().unwrap());
        assert!(local.check(&Uri::from_static("/"), &twice).is_err());
    }

    #[test]
    fn other_origins_are_rejected() {
        let local = bound("127.0.0.1:30000");
        let from = |origin| check(&local, "localhost:30000", Some(origin));
        assert_eq!(from("http://localhost:30000"), Ok(()));
        for foreign in
            ["null", "http://evil.example", "http://localhost", "http://localhost:30001", "file://"]
        {
            assert_eq!(from(foreign), Err(403), "{foreign}");
        }
        let open = Hosts { origins: vec!["https://chat.example".into()], ..local };
        let from = |origin| check(&open, "localhost:30000", Some(origin));
        assert_eq!(from("https://chat.example"), Ok(()));
        assert_eq!(from("https://chat.example.evil"), Err(403));
    }
}
