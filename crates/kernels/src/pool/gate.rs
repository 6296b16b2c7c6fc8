//! The gate of a pool: workers enter a run, and the caller waits until they have left.
//!
//! The gate holds the number of the current run and whether it is open. Each worker has a slot that
//! holds the number of the run it is inside of, or zero.
//!
//! - The caller writes the job, then opens the gate with a new number.
//! - A worker enters by writing that number to its slot and looking at the gate again: it is inside if
//!   the gate is still open with that number, and otherwise clears its slot. It leaves by clearing it.
//! - When all jobs are taken, the caller closes the gate and waits until no slot holds the number. Of
//!   the worker's look at the gate and the caller's look at the slot, at least one sees the other's
//!   write, because all four are sequentially consistent. So after the wait no worker holds the job,
//!   and the lifetime of its borrows may end.
//!
//! Workers from `active` on rest: they sleep apart from the others, which every run may wake, until there are more
//! active ones.
//!
//! A slot is a cache line that one worker writes and only the caller reads, so that sixteen workers
//! enter and leave side by side instead of taking turns at one counter.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::contention::DelayFile;
use super::upcoming::{Announcement, Fetch};
use crate::arch::environment::float_environment_is_default;

/// Set in the gate while workers may enter. The other bits are the number of the run.
const OPEN: u64 = 1;

/// Polls before going to sleep: about ten microseconds, which bridges the gaps between the runs of a
/// forward pass.
const SPINS: usize = 2_000;

thread_local! {
    /// True if this thread is inside a job. A run started there is executed by this thread alone, because
    /// its pool may be waiting for this very job.
    static INSIDE_JOB: Cell<bool> = const { Cell::new(false) };
}

/// The work of a run; the argument is the number of the worker.
pub(super) type Work<'a> = dyn Fn(usize) + Sync + 'a;

/// The run that a worker is inside of, or zero. Aligned to two cache lines, because CPUs fetch them in
/// pairs.
#[derive(Default)]
#[repr(align(128))]
struct Slot(AtomicU64);

pub(super) struct Gate {
    /// `number of the run << 1 | OPEN`.
    state: AtomicU64,
    /// By worker, without the caller.
    slots: Box<[Slot]>,
    /// Written by the caller while the gate is closed and no worker is inside; read by workers inside.
    work: UnsafeCell<Option<&'static Work<'static>>>,
    /// Memory that waiting workers fetch into their caches.
    pub(super) upcoming: Announcement,
    stop: AtomicBool,
    spins: usize,
    /// Number of threads that take part in runs, with the caller. Changes between runs.
    active: AtomicUsize,
    /// By worker, without the caller.
    pub(super) delays: Box<[DelayFile]>,
    /// Workers in front of the gate.
    workers: Sleepers,
    /// Workers that take no part.
    resting: Sleepers,
    /// The caller behind the gate.
    caller: Sleepers,
}

/// Threads that sleep or are about to.
#[derive(Default)]
struct Sleepers {
    count: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
}

// SAFETY: everything but `work` is `Sync`, and the gate orders all accesses to `work`: its writer and its
// readers never access it at the same time. The work itself is `Sync`.
unsafe impl Sync for Gate {}
// SAFETY: as above; a `&Work` may move between threads because `Work` is `Sync`.
unsafe impl Send for Gate {}

impl Gate {
    /// Creates the gate of a pool of `threads` threads, including the caller.
    pub(super) fn new(threads: usize) -> Self {
        // With more threads than CPUs, spinning would take the CPU from the awaited thread.
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        Self {
            state: AtomicU64::new(0),
            slots: (1..threads).map(|_| Slot::default()).collect(),
            work: UnsafeCell::new(None),
            upcoming: Announcement::default(),
            stop: AtomicBool::new(false),
            spins: if threads <= cpus { SPINS } else { 0 },
            active: AtomicUsize::new(threads),
            delays: (1..threads).map(|_| DelayFile::default()).collect(),
            workers: Sleepers::default(),
            resting: Sleepers::default(),
            caller: Sleepers::default(),
        }
    }

    /// Makes all workers return from [`serve`](Self::serve).
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.workers.wake();
        self.resting.wake();
    }

    /// Sets the number of threads that take part in the next runs. A worker that is waking up may still enter one.
    pub(super) fn set_active(&self, active: usize) {
        let before = self.active.swap(active, Ordering::SeqCst);
        if before < active {
            self.resting.wake();
        }
    }

    /// Returns `true` if a worker takes no part in runs.
    fn rests(&self, worker: usize) -> bool {
        worker >= self.active.load(Ordering::SeqCst) && !self.stop.load(Ordering::SeqCst)
    }

    /// Runs `work` on this thread and on all workers that enter in time. `work` must not panic.
    pub(super) fn run(&self, work: &Work<'_>) {
        // SAFETY: only the lifetime changes. This function returns after the gate is closed and
        // no worker is inside; then no worker can reach the reference any more.
        let work = unsafe { std::mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
        // SAFETY: runs take turns and the last one left the gate closed with no worker inside, so this
        // is the only access.
        unsafe { *self.work.get() = Some(work) };
        let number = self.next_number();
        // Sequentially consistent, like all that decides about entering or sleeping; see `wait_until`.
        self.state.store(number << 1 | OPEN, Ordering::SeqCst);
        self.workers.wake();
        as_job(|| work(0));
        self.state.store(number << 1, Ordering::SeqCst);
        for slot in &self.slots {
            let left = || slot.0.load(Ordering::SeqCst) != number;
            self.caller.wait_until(self.spins, left, std::hint::spin_loop);
        }
    }

    /// Returns the number of the run that the gate opens for next. Runs take turns.
    pub(super) fn next_number(&self) -> u64 {
        (self.state.load(Ordering::Relaxed) >> 1) + 1
    }

    /// Waits for runs and works in them until the pool is dropped.
    pub(super) fn serve(&self, worker: usize) {
        assert_float_environment();
        self.delays[worker - 1].open();
        let slot = &self.slots[worker - 1].0;
        let mut fetch = Fetch::new(worker, self.slots.len() + 1);
        let mut last_gate = 0;
        loop {
            if self.rests(worker) {
                self.resting.wait_until(0, || !self.rests(worker), || {});
            }
            let mut gate = 0;
            let opened = || {
                gate = self.state.load(Ordering::SeqCst);
                gate & OPEN != 0 && gate != last_gate
                    || self.stop.load(Ordering::SeqCst)
                    || self.rests(worker)
            };
            self.workers.wait_until(self.spins, opened, || {
                if !fetch.step(&self.upcoming) {
                    std::hint::spin_loop();
                }
            });
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            if self.rests(worker) {
                continue;
            }
            last_gate = gate;
            slot.store(gate >> 1, Ordering::SeqCst);
            if self.state.load(Ordering::SeqCst) == gate {
                // SAFETY: we are inside, so the work was written before the gate opened and is not
                // written again before we leave.
                let work = unsafe { *self.work.get() };
                as_job(|| work.expect("an open gate has work behind it")(worker));
            }
            slot.store(0, Ordering::SeqCst);
            self.caller.wake();
        }
    }
}

impl Sleepers {
    /// Looks `spins` times whether `ready` returns `true`, with `idle` in between, then sleeps until it does.
    ///
    /// No wake-up is lost: a sleeper announces itself before it looks a last time, a waker changes
    /// the state before it looks for sleepers, and all four are sequentially consistent, so one of
    /// the two sees the other. The lock keeps the waker away until the sleeper really sleeps.
    fn wait_until(&self, spins: usize, mut ready: impl FnMut() -> bool, mut idle: impl FnMut()) {
        for _ in 0..spins {
            if ready() {
                return;
            }
            idle();
        }
        let mut guard = lock(&self.sleep);
        self.count.fetch_add(1, Ordering::SeqCst);
        while !ready() {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    fn wake(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            let _guard = lock(&self.sleep);
            self.wake.notify_all();
        }
    }
}

/// Returns `true` if this thread is inside a job.
pub(super) fn is_inside_job() -> bool {
    INSIDE_JOB.get()
}

/// Marks this thread as inside a job while `f` runs. `f` must not panic.
fn as_job(f: impl FnOnce()) {
    INSIDE_JOB.set(true);
    f();
    INSIDE_JOB.set(false);
}

/// Locks a mutex. Its data is valid even after a panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn assert_float_environment() {
    assert!(
        float_environment_is_default(),
        "floats do not round to nearest with subnormals kept on this thread"
    );
}
