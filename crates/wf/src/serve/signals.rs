//! Signals to a server: two that stop it, and one that makes it read its keys again.

use std::process::exit;

use anyhow::Result;
use tokio::sync::oneshot;

use crate::output;

/// Exit code after a second signal.
const INTERRUPTED: i32 = 130;

/// Returns a future that completes at the first signal, after a call of `on_first`. The second one ends the process.
pub(crate) fn listen(on_first: impl FnOnce() + Send + 'static) -> Result<impl Future<Output = ()>> {
    let (sender, receiver) = oneshot::channel();
    let mut signals = Signals::new()?;
    tokio::spawn(async move {
        signals.next().await;
        on_first();
        output::note("stopping after the requests in flight; signal again to stop now");
        // The server may have ended already.
        let _ = sender.send(());
        signals.next().await;
        exit(INTERRUPTED);
    });
    Ok(async {
        // A dropped sender is a reason to stop, too.
        let _ = receiver.await;
    })
}

/// Calls `act` at every SIGHUP, from now on.
#[cfg(unix)]
pub(crate) fn on_hangup(act: impl Fn() + Send + 'static) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hangups = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            act();
        }
    });
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn on_hangup(_act: impl Fn() + Send + 'static) -> Result<()> {
    Ok(())
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
