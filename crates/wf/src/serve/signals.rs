//! What an operator tells a running server.

use std::process::exit;

use anyhow::Result;
use tokio::sync::oneshot;

use crate::report;

/// The exit code of a server that was told twice to stop.
const INTERRUPTED: i32 = 130;

/// Waits for the signal that asks for a gentle end. The one after it ends the process.
pub(crate) fn listen() -> Result<impl Future<Output = ()>> {
    let (sender, receiver) = oneshot::channel();
    let mut signals = Signals::new()?;
    tokio::spawn(async move {
        signals.next().await;
        report::note("stopping: replies being written are finished first; once more to stop now");
        // A server that has ended needs no telling.
        let _ = sender.send(());
        signals.next().await;
        exit(INTERRUPTED);
    });
    Ok(async {
        // Nobody who could tell being left is a reason to end, too.
        let _ = receiver.await;
    })
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
