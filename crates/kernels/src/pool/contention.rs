//! Workers that rest while other programs use their CPUs.
//!
//! All threads of a run wait for the last one. If another program has the CPU of one of them for half of the time, all of
//! them lose that half, which is more than the work of one thread out of a few. So the caller looks now and then how long
//! each thread was ready to run and had no CPU (`run_delay` of Linux). If that is much for some threads, as many workers
//! rest, and their CPUs are free for the other program. After a while all take part again, to see if it has gone.
//!
//! Results do not depend on the number of threads, so this decides about time alone.

use std::fs::File;
use std::io::{Read, Seek};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Time over which delays are added up. Linux gives a CPU away for some milliseconds at a time.
const WINDOW: Duration = Duration::from_millis(40);

/// First time that workers rest. It doubles each time that the other program is still there.
const MIN_REST: Duration = Duration::from_millis(160);
const MAX_REST: Duration = Duration::from_millis(5120);

/// Length of the text of a schedstat file: three numbers of at most twenty digits.
const SCHEDSTAT_LEN: usize = 64;

/// Where a thread publishes its delays.
#[derive(Default)]
pub(super) struct DelayFile(Mutex<Option<File>>);

impl DelayFile {
    /// Opens the file of the calling thread. Without one, the thread counts as never delayed.
    pub(super) fn open(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = schedstat();
    }

    /// Returns how long the thread was ready to run without a CPU since it started.
    fn delay(&self) -> Duration {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.as_mut().and_then(read_delay).unwrap_or_default()
    }
}

fn schedstat() -> Option<File> {
    cfg!(target_os = "linux").then(|| File::open("/proc/thread-self/schedstat").ok()).flatten()
}

/// Reads the second of three numbers: time on a CPU, time waiting for one, number of turns.
fn read_delay(file: &mut File) -> Option<Duration> {
    let mut text = [0; SCHEDSTAT_LEN];
    file.rewind().ok()?;
    let len = file.read(&mut text).ok()?;
    let text = std::str::from_utf8(&text[..len]).ok()?;
    Some(Duration::from_nanos(text.split_ascii_whitespace().nth(1)?.parse().ok()?))
}

/// The caller's record of delays. Looking allocates nothing.
pub(super) struct Watch {
    /// The caller, which may be another thread in another run.
    caller: Option<(ThreadId, DelayFile)>,
    started: Instant,
    /// By thread, at the start of the window.
    delays: Box<[Duration]>,
    /// By thread, within the last window.
    passed: Box<[Duration]>,
    threads: ActiveThreads,
}

impl Watch {
    /// Creates the record of a pool of `threads` threads.
    pub(super) fn new(threads: usize) -> Self {
        let [delays, passed] = [0, 1].map(|_| vec![Duration::ZERO; threads].into_boxed_slice());
        let (caller, started) = (None, Instant::now());
        Self { caller, started, delays, passed, threads: ActiveThreads::new(threads, started) }
    }

    /// Returns the number of threads that take part in the next run.
    pub(super) fn active<'a>(&mut self, workers: impl Iterator<Item = &'a DelayFile>) -> usize {
        let now = Instant::now();
        let elapsed = now - self.started;
        if elapsed >= WINDOW {
            let is_known = self.is_known_caller();
            self.read(workers);
            // A new caller has no delays to compare with.
            if is_known {
                self.threads.update(now, elapsed, &self.passed);
            }
            self.started = now;
        }
        self.threads.active
    }

    /// Returns `true` if this thread was the caller before. It is the caller from now on.
    fn is_known_caller(&mut self) -> bool {
        let id = thread::current().id();
        let is_known = self.caller.as_ref().is_some_and(|(caller, _)| *caller == id);
        if !is_known {
            let file = DelayFile::default();
            file.open();
            self.caller = Some((id, file));
        }
        is_known
    }

    fn read<'a>(&mut self, workers: impl Iterator<Item = &'a DelayFile>) {
        let caller = self.caller.iter().map(|(_, file)| file.delay());
        let delays = caller.chain(workers.map(DelayFile::delay));
        for ((then, passed), now) in self.delays.iter_mut().zip(&mut self.passed).zip(delays) {
            *passed = now.saturating_sub(*then);
            *then = now;
        }
    }
}

/// The threads that take part in runs: the first `active` ones.
struct ActiveThreads {
    threads: usize,
    active: usize,
    /// Time of the last change.
    since: Instant,
    /// Time that workers rest, or zero before the first rest.
    rest: Duration,
}

impl ActiveThreads {
    fn new(threads: usize, now: Instant) -> Self {
        Self { threads, active: threads, since: now, rest: Duration::ZERO }
    }

    /// Decides after a window in which each thread was delayed for some time.
    fn update(&mut self, now: Instant, elapsed: Duration, delays: &[Duration]) {
        let limit = elapsed.mul_f64(self.max_share());
        let delayed = delays.iter().take(self.active).filter(|&&delay| delay > limit).count();
        let active = (self.active - delayed.min(self.active)).max(1);
        if active < self.active {
            // All took part since the last rest, and the other program is still there.
            let is_trial = self.active == self.threads && now - self.since < 3 * WINDOW;
            self.rest = if is_trial { (2 * self.rest).clamp(MIN_REST, MAX_REST) } else { MIN_REST };
            (self.active, self.since) = (active, now);
        } else if self.active < self.threads && now - self.since >= self.rest {
            (self.active, self.since) = (self.threads, now);
        }
    }

    /// Returns the largest share of the time that a thread may be delayed. Beyond one part of as many as there are
    /// threads, the others lose more than the thread adds; two threads together may lose some of it, as one alone is
    /// rarely half as fast.
    fn max_share(&self) -> f64 {
        (1.0 / self.threads as f64).clamp(0.1, 0.25)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Duration = Duration::ZERO;
    const BUSY: Duration = Duration::from_millis(15);

    /// Active threads and their clock.
    struct Clocked(ActiveThreads, Instant);

    impl Clocked {
        fn new(threads: usize) -> Self {
            let now = Instant::now();
            Self(ActiveThreads::new(threads, now), now)
        }

        /// Passes windows with these delays, and returns the number of active threads after each.
        fn pass(&mut self, windows: usize, delays: &[Duration]) -> Vec<usize> {
            let mut active = Vec::new();
            for _ in 0..windows {
                self.1 += WINDOW;
                self.0.update(self.1, WINDOW, delays);
                active.push(self.0.active);
            }
            active
        }
    }

    #[test]
    fn threads_without_delays_all_take_part() {
        assert_eq!(Clocked::new(4).pass(3, &[FREE, FREE, FREE, FREE]), [4, 4, 4]);
        let short = Duration::from_millis(3);
        assert_eq!(Clocked::new(4).pass(3, &[short; 4]), [4, 4, 4]);
    }

    #[test]
    fn as_many_rest_as_are_delayed_and_one_always_works() {
        assert_eq!(Clocked::new(4).pass(1, &[FREE, BUSY, FREE, BUSY]), [2]);
        assert_eq!(Clocked::new(2).pass(1, &[BUSY, FREE]), [1]);
        assert_eq!(Clocked::new(3).pass(2, &[BUSY, BUSY, BUSY]), [1, 1]);
    }

    #[test]
    fn workers_return_and_rest_longer_each_time() {
        let mut threads = Clocked::new(2);
        threads.pass(1, &[FREE, BUSY]);
        let mut rests = Vec::new();
        for _ in 0..8 {
            let mut windows = 0;
            // A resting worker is not delayed.
            while threads.pass(1, &[FREE, FREE]) == [1] {
                windows += 1;
            }
            rests.push(windows);
            assert_eq!(threads.pass(1, &[FREE, BUSY]), [1], "still delayed");
        }
        assert_eq!(rests, [3, 7, 15, 31, 63, 127, 127, 127]);
        while threads.pass(1, &[FREE, FREE]) == [1] {}
        assert_eq!(threads.pass(10, &[FREE, FREE]), [2; 10], "the other program has gone");
        threads.pass(1, &[FREE, BUSY]);
        assert_eq!(threads.0.rest, MIN_REST);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn delays_are_read_from_the_system() {
        let Some(mut file) = schedstat() else { return };
        let first = read_delay(&mut file).unwrap();
        assert!(read_delay(&mut file).unwrap() >= first, "read again from its start");
    }
}
