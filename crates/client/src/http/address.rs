//! Where a server is.

use std::fmt;

use hyper::Uri;

use super::Error;

/// Where a server is, and what comes before each path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Tcp {
        host: String,
        port: u16,
        /// Without the slash at its end.
        path: String,
    },
    #[cfg(unix)]
    Unix(std::path::PathBuf),
}

impl Address {
    pub(super) fn parse(base: &str) -> Result<Self, Error> {
        let wrong = |reason| Error::Url { url: base.to_owned(), reason };
        if let Some(path) = base.strip_prefix("unix:") {
            // `unix:///run/x` and `unix:/run/x` mean the same.
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(wrong("a path is needed after unix:"));
            }
            #[cfg(unix)]
            return Ok(Self::Unix(path.into()));
            #[cfg(not(unix))]
            return Err(wrong("this system has no Unix sockets"));
        }
        if base.starts_with("https://") {
            return Err(wrong(
                "https is not spoken here: use http, or a proxy that ends TLS in between",
            ));
        }
        if !base.starts_with("http://") {
            return Err(wrong("use http://host:port or unix:/path"));
        }
        let uri: Uri = base.parse().map_err(|_| wrong("use http://host:port"))?;
        if uri.query().is_some() {
            return Err(wrong("a base address has no query"));
        }
        let authority = uri.authority().ok_or_else(|| wrong("a host is missing"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("no names or passwords in the address: use an API key"));
        }
        let (host, port) = (authority.host().to_owned(), authority.port_u16());
        if host.is_empty() || (port.is_none() && authority.as_str() != host) {
            return Err(wrong("use http://host:port, with a port from 1 to 65535"));
        }
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self::Tcp { host, port: port.unwrap_or(80), path })
    }

    /// What the Host header says.
    pub(super) fn host(&self) -> String {
        match self {
            Self::Tcp { host, port: 80, .. } => host.clone(),
            Self::Tcp { host, port, .. } => format!("{host}:{port}"),
            #[cfg(unix)]
            Self::Unix(_) => "localhost".to_owned(),
        }
    }

    /// What comes before each path.
    pub(super) fn path(&self) -> &str {
        match self {
            Self::Tcp { path, .. } => path,
            #[cfg(unix)]
            Self::Unix(_) => "",
        }
    }
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
        Address::Tcp { host: host.to_owned(), port, path: path.to_owned() }
    }

    #[test]
    fn addresses_are_read() {
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

    #[cfg(unix)]
    #[test]
    fn a_socket_has_a_path() {
        for text in ["unix:/run/wf.sock", "unix:///run/wf.sock"] {
            assert_eq!(Address::parse(text).unwrap(), Address::Unix("/run/wf.sock".into()));
        }
    }

    #[test]
    fn what_is_no_address_is_told_so() {
        for (text, word) in [
            ("https://127.0.0.1", "https is not spoken"),
            ("127.0.0.1:30000", "http://host:port"),
            ("http://", "http://host:port"),
            ("http://host:99999", "port"),
            ("http://host:", "port"),
            ("http://me:secret@host", "API key"),
            ("http://host/?x=1", "no query"),
            ("unix:", "path"),
        ] {
            let message = Address::parse(text).unwrap_err().to_string();
            assert!(message.contains(word) && message.contains(text), "{text}: {message}");
        }
    }
}
