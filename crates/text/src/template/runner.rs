//! The thread of a rendering, with limits on its stack, time and memory.
//!
//! A thread that exceeds a limit cannot be ended. It is left alone, and the template is refused as long as that
//! thread exists: there is at most one of them for each rendering that ran at the same time. It does not keep the
//! process alive.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::budget::{Budget, Exceeded};
use crate::TextError;

/// Stack of the thread. Within its steps, a hostile template can nest a list about 10⁵ deep, which the engine frees
/// recursively. Untouched stack costs nothing.
const STACK_BYTES: usize = 128 << 20;
/// Maximum duration of a rendering.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Room for a few copies of the largest prompt. The longest recorded chats take a thousandth of the allocations.
const BUDGET: Budget = Budget { bytes: 128 << 20, allocations: 50_000_000 };

/// Runs renderings of one template.
#[derive(Debug, Default)]
pub(super) struct Runner {
    stuck: Mutex<Option<Stuck>>,
}

/// A thread that exceeded a limit.
#[derive(Debug)]
struct Stuck {
    thread: JoinHandle<()>,
    why: String,
}

enum Ended<T> {
    Done(Result<T, TextError>),
    Exceeded(Exceeded),
}

impl Runner {
    /// Runs `job` on a thread of its own.
    pub(super) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, TextError> + Send + 'static,
    ) -> Result<T, TextError> {
        self.check_not_stuck()?;
        let (sender, ended) = mpsc::sync_channel(1);
        let run = move || {
            // The receiver is gone after the time limit.
            let report = sender.clone();
            let report = move |what| drop(report.send(Ended::Exceeded(what)));
            let done = BUDGET.within(report, job);
            drop(sender.send(Ended::Done(done)));
        };
        let thread = thread::Builder::new().name("chat-template".into()).stack_size(STACK_BYTES);
        let thread = thread.spawn(run).map_err(|e| {
            TextError::TemplateRender(format!("cannot start the rendering thread: {e}"))
        })?;
        let why = match ended.recv_timeout(TIMEOUT) {
            Ok(Ended::Done(done)) => return done,
            Ok(Ended::Exceeded(what)) => describe(what),
            Err(RecvTimeoutError::Timeout) => {
                format!("rendering takes longer than the limit of {} s", TIMEOUT.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(TextError::Template("the template engine failed".to_owned()));
            }
        };
        let stuck = Stuck { thread, why: why.clone() };
        *self.stuck.lock().unwrap_or_else(PoisonError::into_inner) = Some(stuck);
        Err(TextError::Template(why))
    }

    /// Refuses to start a second thread that would not end either. One that was only late is forgotten.
    fn check_not_stuck(&self) -> Result<(), TextError> {
        let mut stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        stuck.take_if(|stuck| stuck.thread.is_finished());
        match &*stuck {
            Some(stuck) => Err(TextError::Template(stuck.why.clone())),
            None => Ok(()),
        }
    }
}

fn describe(what: Exceeded) -> String {
    match what {
        Exceeded::Bytes => {
            format!("rendering takes more memory than the limit of {} MiB", BUDGET.bytes >> 20)
        }
        Exceeded::Allocations => {
            format!("rendering takes more allocations than the limit of {}", BUDGET.allocations)
        }
    }
}
