//! Ctrl-C while a response is generated.
//!
//! While a line is edited, the terminal is in raw mode and Ctrl-C is an ordinary key.

use std::future::{pending, ready};

use anyhow::Result;

/// Ctrl-C events. Once created, Ctrl-C no longer ends the process.
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
    #[cfg(windows)]
    signal: tokio::signal::windows::CtrlC,
}

impl Interrupts {
    /// Must be called within a runtime.
    pub(crate) fn new() -> Result<Self> {
        #[cfg(unix)]
        let signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        #[cfg(windows)]
        let signal = tokio::signal::windows::ctrl_c()?;
        Ok(Self { signal })
    }

    pub(crate) async fn next(&mut self) {
        if self.signal.recv().await.is_none() {
            pending().await
        }
    }

    /// Discards an event that came while nothing was running.
    pub(crate) async fn discard(&mut self) {
        tokio::select! {
            biased;
            () = self.next() => {}
            () = ready(()) => {}
        }
    }
}
