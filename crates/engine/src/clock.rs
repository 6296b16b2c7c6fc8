//! The time that decisions of the engine depend on: deadlines, costs of rows, shares of slow grammars.
//!
//! A simulation sets the time of its own thread, so that a run depends on its seed alone.

#[cfg(not(test))]
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
}

#[cfg(test)]
pub(crate) use simulated::{advance, now, stop};

#[cfg(test)]
mod simulated {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    thread_local! {
        static STOPPED_AT: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    pub(crate) fn now() -> Instant {
        STOPPED_AT.get().unwrap_or_else(Instant::now)
    }

    /// Stops the clock of this thread. From now on, only [`advance`] moves it.
    pub(crate) fn stop() {
        STOPPED_AT.set(Some(now()));
    }

    pub(crate) fn advance(by: Duration) {
        STOPPED_AT.set(STOPPED_AT.get().map(|at| at + by));
    }
}
