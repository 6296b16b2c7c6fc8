//! Addresses of servers.

use std::fmt;

use hyper::Uri;

use super::Error;

/// Address of a server, with the prefix of all its paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Tcp {
        /// True for `https`.
        encrypted: bool,
        host: String,
        port: u16,
        /// Without a trailing slash.
        path: String,
    },
    #[cfg(unix)]
    Unix(std::path::PathBuf),
}

impl Address {
    pub(super) fn parse(base: &str) -> Result<Self, Error> {
        let wrong = |reason| Error::Invalid(format!("{base}: {reason}"));
        if let Some(path) = base.strip_prefix("unix:") {
            // `unix:///run/x` and `unix:/run/x` are the same path.
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(wrong("expected a path after unix:"));
            }
            #[cfg(unix)]
            return Ok(Self::Unix(path.into()));
            #[cfg(not(unix))]
            return Err(wrong("this system does not support Unix sockets"));
        }
        let encrypted = base.starts_with("https://");
        if !encrypted && !base.starts_with("http://") {
            return Err(wrong("expected http://host:port, https://host:port or unix:/path"));
        }
        let uri: Uri = base.parse().map_err(|_| wrong("expected http://host:port"))?;
        if uri.query().is_some() {
            return Err(wrong("a base URL must not have a query"));
        }
        let authority = uri.authority().ok_or_else(|| wrong("the host is missing"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("user names and passwords are not supported: use an API key"));
        }
        let (host, port) = (authority.host().to_owned(), authority.port_u16());
        if host.is_empty() || (port.is_none() && authority.as_str() != host) {
            return Err(wrong("expected http://host:port with a port from 1 to 65535"));
        }
        let path = uri.path().trim_end_matches('/').to_owned();
        let port = port.unwrap_or(default_port(encrypted));
        Ok(Self::Tcp { encrypted, host, port, path })
    }

    /// Returns the value of the `Host` header.
    pub(super) fn host(&self) -> String {
        match self {
            Self::Tcp { encrypted, host, port, .. } if *port == default_port(*encrypted) => {
                host.clone()
            }
            Self::Tcp { host, port, .. } => format!("{host}:{port}"),
            #[cfg(unix)]
            Self::Unix(_) => "localhost".to_owned(),
        }
    }

    /// Returns `true` if connections use TLS.
    pub(super) fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tcp { encrypted: true, .. })
    }

    /// Returns the prefix of all paths.
    pub(super) fn path(&self) -> &str {
        match self {
            Self::Tcp { path, .. } => path,
            #[cfg(unix)]
            Self::Unix(_) => "",
        }
    }
}

fn default_port(encrypted: bool) -> u16 {
    if encrypted { 443 } else { 80 }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            #[cfg(unix)]
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16, path: &str) -> Address {
        Address::Tcp { encrypted: false, host: host.to_owned(), port, path: path.to_owned() }
    }

    #[test]
    fn addresses_are_parsed() {
        for (text, address, host) in [
            ("http://127.0.0.1:30000", tcp("127.0.0.1", 30000, ""), "127.0.0.1:30000"),
            ("http://localhost", tcp("localhost", 80, ""), "localhost"),
            ("http://[::1]:8080/", tcp("[::1]", 8080, ""), "[::1]:8080"),
            ("http://proxy:81/wf/", tcp("proxy", 81, "/wf"), "proxy:81"),
        ] {
            let found = Address::parse(text).unwrap();
            assert_eq!((found.host().as_str(), &found), (host, &address), "{text}");
        }
    }

    #[test]
    fn https_has_a_port_of_its_own() {
        for (text, port, host) in [
            ("https://api.example", 443, "api.example"),
            ("https://api.example:8443/v2", 8443, "api.example:8443"),
            ("https://api.example:80", 80, "api.example:80"),
        ] {
            let found = Address::parse(text).unwrap();
            assert!(matches!(found, Address::Tcp { port: found, .. } if found == port), "{text}");
            assert!(found.is_encrypted() && found.host() == host, "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn unix_sockets_have_a_path() {
        for text in ["unix:/run/wf.sock", "unix:///run/wf.sock"] {
            assert_eq!(Address::parse(text).unwrap(), Address::Unix("/run/wf.sock".into()));
        }
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        for (text, word) in [
            ("127.0.0.1:30000", "http://host:port"),
            ("http://", "http://host:port"),
            ("http://host:99999", "port"),
            ("http://host:", "port"),
            ("http://me:secret@host", "API key"),
            ("http://host/?x=1", "query"),
            ("unix:", "path"),
        ] {
            let message = Address::parse(text).unwrap_err().to_string();
            assert!(message.contains(word) && message.contains(text), "{text}: {message}");
        }
    }
}
