//! Sockets that systemd opened before it started this process (`LISTEN_FDS`).

use anyhow::Result;
use wf_server::Listener;

/// A socket that listens already.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only systemd passes sockets"))]
pub(crate) enum Inherited {
    Tcp(std::net::TcpListener),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixListener),
}

impl Inherited {
    /// Takes the socket that the environment describes, if there is one.
    #[cfg(target_os = "linux")]
    pub(crate) fn take() -> Result<Option<Self>> {
        use anyhow::{bail, ensure};
        let mut sockets = listenfd::ListenFd::from_env();
        let count = sockets.len();
        ensure!(count < 2, "LISTEN_FDS is {count}: one socket is supported");
        // A socket of another kind is left in its place, so each kind can be tried.
        if let Ok(Some(socket)) = sockets.take_tcp_listener(0) {
            return Ok(Some(Self::Tcp(socket)));
        }
        match sockets.take_unix_listener(0) {
            Ok(Some(socket)) => Ok(Some(Self::Unix(socket))),
            Ok(None) => Ok(None),
            Err(_) => {
                bail!("LISTEN_FDS: the socket must be a TCP or Unix stream socket that listens")
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn take() -> Result<Option<Self>> {
        Ok(None)
    }

    /// True if other machines can reach it.
    pub(crate) fn is_public(&self) -> bool {
        match self {
            Self::Tcp(socket) => {
                socket.local_addr().map_or(true, |address| !address.ip().is_loopback())
            }
            #[cfg(unix)]
            Self::Unix(_) => false,
        }
    }

    pub(crate) fn into_listener(self) -> Result<Listener> {
        Ok(match self {
            Self::Tcp(socket) => Listener::from_tcp(socket)?,
            #[cfg(unix)]
            Self::Unix(socket) => Listener::from_unix(socket)?,
        })
    }
}
