//! Waits for the engine without the interpreter, and notices signals and cancelling.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::errors::cancelled;

/// Time after which a waiting thread looks for signals.
const INTERVAL: Duration = Duration::from_millis(20);

/// Cancels requests from another thread.
#[pyclass(frozen, module = "wrinklefree")]
#[derive(Default)]
pub(crate) struct Cancel {
    is_cancelled: Arc<AtomicBool>,
}

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Ends every request that was given this object; those that start later end at once.
    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// True if `cancel` was called.
    #[getter]
    fn cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

impl Cancel {
    /// Returns the flag of an argument, or one that is never set.
    pub(crate) fn flag(argument: Option<&Bound<'_, Self>>) -> Arc<AtomicBool> {
        argument.map(|cancel| Arc::clone(&cancel.get().is_cancelled)).unwrap_or_default()
    }
}

/// Waits for `future`. A signal handler that raises, such as that of Ctrl-C, ends the wait, and so does `is_over`.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    is_over: impl Fn() -> bool,
    future: impl Future<Output = T> + Send,
) -> PyResult<T> {
    let mut future = pin!(future);
    loop {
        if is_over() {
            return Err(cancelled(py));
        }
        match py.detach(|| poll_for(INTERVAL, future.as_mut())) {
            Poll::Ready(value) => return Ok(value),
            Poll::Pending => py.check_signals()?,
        }
    }
}

/// Runs work that cannot be cancelled in a thread of its own. If a signal ends the wait, its result is dropped.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("wf-open".to_owned()).spawn(move || {
        // Nobody waits for it any more if this fails.
        let _ = sender.send(work());
    })?;
    let receiver = Mutex::new(receiver);
    loop {
        let received = py.detach(|| {
            let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
            receiver.recv_timeout(INTERVAL)
        });
        match received {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Ok(()) => unreachable!("a thread that ends has sent its result"),
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    }
}

/// Polls a future until it is ready or the time has passed.
fn poll_for<T>(time: Duration, mut future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut context, start) = (Context::from_waker(&waker), Instant::now());
    loop {
        let polled = future.as_mut().poll(&mut context);
        let Some(left) = time.checked_sub(start.elapsed()).filter(|_| polled.is_pending()) else {
            return polled;
        };
        thread::park_timeout(left);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
