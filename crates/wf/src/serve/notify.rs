//! Notifications to systemd: readiness, state and watchdog, as in `sd_notify(3)`.
//!
//! Nothing is sent unless systemd asks for it by `NOTIFY_SOCKET`, and no sign of life unless by `WATCHDOG_USEC`.

use std::process;
use std::time::Duration;

use wf_engine::StatsSnapshot;
use wf_server::App;

use self::socket::Socket;
use crate::env::{text, variable};
use crate::output;

/// Signs of life per interval of the watchdog: a step may take three quarters of it.
const SIGNS_PER_INTERVAL: u32 = 4;

/// The connection to systemd, if it started this process.
pub(crate) struct Notifier {
    socket: Option<Socket>,
    /// Time after which systemd restarts a process without a sign of life.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Connects to the socket that the environment names.
    pub(crate) fn from_env() -> Self {
        let socket = variable("NOTIFY_SOCKET").and_then(|name| match Socket::connect(&name) {
            Ok(socket) => Some(socket),
            Err(error) => {
                let name = name.display();
                output::note(&format!("warning: NOTIFY_SOCKET is {name}: {error}"));
                None
            }
        });
        Self { socket, watchdog: watchdog() }
    }

    /// Reports that requests are served.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// Reports progress for people.
    pub(crate) fn status(&self, status: &str) {
        self.send(&format!("STATUS={status}"));
    }

    /// Reports that the process is about to end.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping after the requests in flight");
    }

    /// Sends signs of life for as long as all engines make progress. Returns at once if nobody waits for them.
    pub(crate) async fn keep_alive(&self, app: &App) {
        let Some(interval) = self.watchdog.filter(|_| self.socket.is_some()) else { return };
        let mut pulses: Vec<Pulse> = Vec::new();
        loop {
            let stats = app.engine_stats();
            pulses.resize_with(stats.len(), Pulse::default);
            // Each is asked, also after one that hangs.
            let hanging = pulses
                .iter_mut()
                .zip(&stats)
                .filter_map(|(pulse, stats)| (!pulse.is_alive(stats)).then_some(()));
            if hanging.count() == 0 {
                self.send("WATCHDOG=1");
            }
            tokio::time::sleep(interval / SIGNS_PER_INTERVAL).await;
        }
    }

    fn send(&self, state: &str) {
        // If systemd does not listen any more, there is nobody to tell.
        let _ = self.socket.as_ref().map(|socket| socket.send(state));
    }
}

/// Returns the interval of the watchdog, if it watches this process.
fn watchdog() -> Option<Duration> {
    let number = |name| text(name).ok().flatten()?.parse::<u64>().ok();
    let is_ours = number("WATCHDOG_PID").is_none_or(|id| id == u64::from(process::id()));
    number("WATCHDOG_USEC").filter(|&interval| interval > 0 && is_ours).map(Duration::from_micros)
}

/// Tells an engine that computes or has nothing to do from one that hangs.
#[derive(Default)]
struct Pulse {
    steps: u64,
}

impl Pulse {
    fn is_alive(&mut self, stats: &StatsSnapshot) -> bool {
        let is_idle = stats.running == 0 && stats.waiting == 0;
        let has_moved = stats.steps != self.steps;
        self.steps = stats.steps;
        is_idle || has_moved
    }
}

#[cfg(target_os = "linux")]
mod socket {
    use std::ffi::OsStr;
    use std::io;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    pub(super) struct Socket(UnixDatagram);

    impl Socket {
        /// Connects to a path, or to an abstract name, which begins with `@`.
        pub(super) fn connect(name: &OsStr) -> io::Result<Self> {
            let address = match name.as_bytes() {
                [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
                _ => SocketAddr::from_pathname(name)?,
            };
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(&address)?;
            Ok(Self(socket))
        }

        pub(super) fn send(&self, state: &str) -> io::Result<()> {
            self.0.send(state.as_bytes()).map(drop)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod socket {
    use std::ffi::OsStr;
    use std::io::{self, ErrorKind};

    pub(super) struct Socket;

    impl Socket {
        pub(super) fn connect(_name: &OsStr) -> io::Result<Self> {
            Err(ErrorKind::Unsupported.into())
        }

        pub(super) fn send(&self, _state: &str) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_alive_if_it_moves_or_has_nothing_to_do() {
        let mut pulse = Pulse::default();
        let busy = StatsSnapshot { running: 1, steps: 7, ..StatsSnapshot::default() };
        let queued = StatsSnapshot { running: 0, waiting: 1, ..busy };
        let idle = StatsSnapshot { running: 0, waiting: 0, ..busy };
        assert!(pulse.is_alive(&busy));
        assert!(!pulse.is_alive(&busy), "no step since");
        assert!(!pulse.is_alive(&queued));
        assert!(pulse.is_alive(&idle));
        assert!(pulse.is_alive(&StatsSnapshot { steps: 8, ..busy }));
    }
}
