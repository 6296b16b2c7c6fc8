//! Ctrl-C while an answer is written.
//!
//! While a line is typed the terminal is in raw mode and Ctrl-C is a key like others.

use std::future::{pending, ready};

use anyhow::Result;

/// Ctrl-C, as something to wait for. From its making on, Ctrl-C does not end the process.
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
    #[cfg(windows)]
    signal: tokio::signal::windows::CtrlC,
}

impl Interrupts {
    /// Needs a runtime around it.
    pub(crate) fn new() -> Result<Self> {
        #[cfg(unix)]
        let signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        #[cfg(windows)]
        let signal = tokio::signal::windows::ctrl_c()?;
        Ok(Self { signal })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        if self.signal.recv().await.is_none() {
            pending().await
        }
    }

    /// Forgets one that came while nothing was there to be stopped.
    pub(crate) async fn forget(&mut self) {
        tokio::select! {
            biased;
            () = self.next() => {}
            () = ready(()) => {}
        }
    }
}
