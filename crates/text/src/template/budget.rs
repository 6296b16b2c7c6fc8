//! Limits on what a rendering thread allocates, counted by the global allocator of the program.
//!
//! One operation of a template can build a string or a list of any size, and the template engine has no limit on
//! that. An allocator cannot unwind either. A thread that exceeds its budget is therefore stopped inside the
//! allocator: it reports, and sleeps until the process ends. What it holds is lost, so a template gets one such
//! thread (see [`super::runner`]).
//!
//! A program opts in with an allocator that calls [`charge`] and [`refund`]. Without one, only the time limit of
//! the rendering holds.

use std::cell::{Cell, RefCell};
use std::thread;

/// Limits of the memory that a rendering allocates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Maximum number of bytes held at once.
    pub(super) bytes: usize,
    /// Maximum number of allocations, which every loop inside an operation makes.
    pub(super) allocations: u64,
}

/// The part of a budget that was exceeded.
#[derive(Clone, Copy, Debug)]
pub(super) enum Exceeded {
    Bytes,
    Allocations,
}

type Report = Box<dyn FnOnce(Exceeded)>;

thread_local! {
    /// Rest of the thread's budget. It has no destructor, so that an allocator can read it at any time.
    static LEFT: Cell<Option<Budget>> = const { Cell::new(None) };
    static REPORT: RefCell<Option<Report>> = const { RefCell::new(None) };
}

impl Budget {
    /// Runs `job` with this budget. If it is exceeded, `report` is called and this function never returns.
    pub(super) fn within<T>(
        self,
        report: impl FnOnce(Exceeded) + 'static,
        job: impl FnOnce() -> T,
    ) -> T {
        REPORT.set(Some(Box::new(report)));
        let _lifted = LiftOnDrop;
        LEFT.set(Some(self));
        job()
    }
}

struct LiftOnDrop;

impl Drop for LiftOnDrop {
    fn drop(&mut self) {
        LEFT.set(None);
    }
}

/// Counts an allocation of this thread before it is made. If it exceeds the budget of a rendering thread, this
/// function does not return.
#[inline]
pub fn charge(bytes: usize) {
    if let Some(left) = LEFT.get() {
        charge_to(left, bytes);
    }
}

/// Counts memory that this thread frees.
#[inline]
pub fn refund(bytes: usize) {
    if let Some(left) = LEFT.get() {
        LEFT.set(Some(Budget { bytes: left.bytes.saturating_add(bytes), ..left }));
    }
}

fn charge_to(left: Budget, bytes: usize) {
    match (left.bytes.checked_sub(bytes), left.allocations.checked_sub(1)) {
        (Some(bytes), Some(allocations)) => LEFT.set(Some(Budget { bytes, allocations })),
        // It unwinds and frees what it holds, and may hold the lock of the log.
        _ if thread::panicking() => LEFT.set(None),
        (None, _) => stop(Exceeded::Bytes),
        (_, None) => stop(Exceeded::Allocations),
    }
}

#[cold]
fn stop(what: Exceeded) -> ! {
    // The report may allocate.
    LEFT.set(None);
    if let Some(report) = REPORT.take() {
        report(what);
    }
    loop {
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_thread_is_stopped_when_it_holds_too_much() {
        let (sender, reports) = mpsc::channel();
        thread::spawn(move || {
            let returned = sender.clone();
            let budget = Budget { bytes: 100, allocations: 10 };
            budget.within(
                move |what| sender.send(format!("{what:?}")).unwrap(),
                || {
                    charge(60);
                    refund(60);
                    charge(60);
                    returned.send("fits".into()).unwrap();
                    charge(60);
                    returned.send("returned".into()).unwrap();
                },
            );
        });
        assert_eq!(reports.recv().unwrap(), "fits");
        assert_eq!(reports.recv().unwrap(), "Bytes");
        assert!(reports.try_recv().is_err());
    }

    #[test]
    fn a_thread_is_stopped_when_it_allocates_too_often() {
        let (sender, reports) = mpsc::channel();
        thread::spawn(move || {
            let budget = Budget { bytes: 100, allocations: 10 };
            let report = move |what| sender.send(format!("{what:?}")).unwrap();
            budget.within(report, || {
                for _ in 0..11 {
                    charge(1);
                    refund(1);
                }
            });
        });
        assert_eq!(reports.recv().unwrap(), "Allocations");
    }

    #[test]
    fn threads_without_a_budget_and_after_their_job_allocate_freely() {
        charge(usize::MAX);
        let budget = Budget { bytes: 100, allocations: 10 };
        assert_eq!(budget.within(|_| {}, || 7), 7);
        charge(usize::MAX);
    }
}
