//! A thread pool that runs job `i` for each `i` in `0..n` and waits for all of them.
//!
//! The calling thread is worker 0. A run does not wait for workers that wake up after the last job is
//! taken, so a busy machine slows a run down but cannot stall it. The assignment of jobs to workers
//! varies; results of jobs must not depend on it.
//!
//! # The gate
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
//! A slot is a cache line that one worker writes and only the caller reads, so that sixteen workers
//! enter and leave side by side instead of taking turns at one counter.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::arch::environment::float_environment_is_default;
use crate::share::Shares;

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

/// A pool of threads.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// The jobs of the current run.
    shares: Shares,
    /// Held during a run, because there is one gate.
    running: Mutex<()>,
}

/// The work of a run; the argument is the number of the worker.
type Work<'a> = dyn Fn(usize) + Sync + 'a;

/// The run that a worker is inside of, or zero. Aligned to two cache lines, because CPUs fetch them in
/// pairs.
#[derive(Default)]
#[repr(align(128))]
struct Slot(AtomicU64);

struct Shared {
    /// `number of the run << 1 | OPEN`.
    gate: AtomicU64,
    /// By worker, without the caller.
    slots: Box<[Slot]>,
    /// Written by the caller while the gate is closed and no worker is inside; read by workers inside.
    work: UnsafeCell<Option<&'static Work<'static>>>,
    stop: AtomicBool,
    spins: usize,
    /// Workers in front of the gate.
    workers: Sleepers,
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
unsafe impl Sync for Shared {}
// SAFETY: as above; a `&Work` may move between threads because `Work` is `Sync`.
unsafe impl Send for Shared {}

impl Pool {
    /// Creates a pool of `threads` threads, including the caller of [`run`](Self::run). The pool has
    /// fewer threads if the system does not provide as many.
    ///
    /// # Panics
    ///
    /// Panics if `threads` is zero, or if this thread does not have the default floating-point
    /// environment, which would change results.
    pub fn new(threads: usize) -> Self {
        Self::with_thread_start(threads, |_| {})
    }

    /// As [`new`](Self::new), where each worker except the caller first calls `start` with its number on
    /// its own thread.
    ///
    /// # Panics
    ///
    /// Panics as [`new`](Self::new) does.
    pub fn with_thread_start(
        threads: usize,
        start: impl Fn(usize) + Clone + Send + 'static,
    ) -> Self {
        assert!(threads > 0, "a pool has at least one thread");
        assert_float_environment();
        // With more threads than CPUs, spinning would take the CPU from the awaited thread.
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared {
            gate: AtomicU64::new(0),
            slots: (1..threads).map(|_| Slot::default()).collect(),
            work: UnsafeCell::new(None),
            stop: AtomicBool::new(false),
            spins: if threads <= cpus { SPINS } else { 0 },
            workers: Sleepers::default(),
            caller: Sleepers::default(),
        });
        let shares = Shares::new(0);
        let mut pool = Self { shared, workers: Vec::new(), shares, running: Mutex::new(()) };
        for worker in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let name = format!("wf-pool-{worker}");
            let start = start.clone();
            let thread = thread::Builder::new().name(name).spawn(move || {
                start(worker);
                shared.serve(worker);
            });
            // The number of threads changes no result, so fewer threads are better than an error.
            let Ok(thread) = thread else { break };
            pool.workers.push(thread);
        }
        pool.shares = Shares::new(pool.threads());
        pool
    }

    /// Returns the number of threads, including the caller.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `job(i)` once for each `i` in `0..jobs`, on all threads, and returns when all are done.
    ///
    /// May be called from several threads at once, which take turns, and from inside a job, which then
    /// executes the whole run. If a job panics, jobs that have not started may be skipped, and the panic
    /// resumes here when all threads have stopped.
    pub fn run(&self, jobs: usize, job: impl Fn(usize) + Sync) {
        self.run_numbered(jobs, |_, i| job(i));
    }

    /// Calls `job(i, row)` for each row of `data`, a matrix of rows of `row_len`.
    ///
    /// # Panics
    ///
    /// Panics if `data` is not a whole number of rows, or if a job panics.
    pub fn rows<T: Send>(
        &self,
        data: &mut [T],
        row_len: usize,
        job: impl Fn(usize, &mut [T]) + Sync,
    ) {
        self.rows_with(data, row_len, &mut self.no_scratch(), |i, row, ()| job(i, row));
    }

    /// As [`rows`](Self::rows), for two matrices with the same number of rows, each given with its row
    /// length.
    ///
    /// # Panics
    ///
    /// Panics if the matrices are not whole rows or differ in their number, or if a job panics.
    pub fn row_pairs<T: Send, U: Send>(
        &self,
        (first, first_len): (&mut [T], usize),
        (second, second_len): (&mut [U], usize),
        job: impl Fn(usize, &mut [T], &mut [U]) + Sync,
    ) {
        let second = Rows::new(second, second_len);
        assert_eq!(first.len(), second.len * first_len, "two matrices with as many rows");
        self.rows(first, first_len, |i, first| {
            // SAFETY: each row of `first` is lent once, and so is the row of `second` with its number.
            job(i, first, unsafe { second.row(i) });
        });
    }

    /// As [`row_pairs`](Self::row_pairs), with scratch for each thread.
    ///
    /// # Panics
    ///
    /// Panics as [`row_pairs`](Self::row_pairs) does, and if there are fewer scratch values than threads.
    pub fn row_pairs_with<T: Send, U: Send, S: Send>(
        &self,
        (first, first_len): (&mut [T], usize),
        (second, second_len): (&mut [U], usize),
        scratch: &mut [S],
        job: impl Fn(usize, &mut [T], &mut [U], &mut S) + Sync,
    ) {
        let second = Rows::new(second, second_len);
        assert_eq!(first.len(), second.len * first_len, "two matrices with as many rows");
        self.rows_with(first, first_len, scratch, |i, first, scratch| {
            // SAFETY: each row of `first` is lent once, and so is the row of `second` with its number.
            job(i, first, unsafe { second.row(i) }, scratch);
        });
    }

    /// As [`row_pairs`](Self::row_pairs), where job `i` also gets tile `i` of a third matrix, counted
    /// along its rows. A tile has `tile_rows` rows of `strip_len` columns.
    ///
    /// # Panics
    ///
    /// Panics if the matrices are not whole rows, if the third has fewer tiles than the others have
    /// rows, or if a job panics.
    pub(crate) fn row_pairs_with_tiles<T: Send, U: Send, V: Send>(
        &self,
        (first, first_len): (&mut [T], usize),
        (second, second_len): (&mut [U], usize),
        (third, third_len, (tile_rows, strip_len)): (&mut [V], usize, (usize, usize)),
        job: impl Fn(usize, &mut [T], &mut [U], Strip<'_, V>) + Sync,
    ) {
        assert!(tile_rows > 0 && strip_len > 0, "a tile has rows and columns");
        let (first, second) = (Rows::new(first, first_len), Rows::new(second, second_len));
        let third = Rows::new(third, third_len);
        let strips = third_len.div_ceil(strip_len);
        assert_eq!(first.len, second.len, "two matrices with as many rows");
        assert!(first.len <= third.len.div_ceil(tile_rows) * strips, "a tile for each row");
        self.run_numbered(first.len, |_, i| {
            // SAFETY: each job number is taken once in a run, so these rows are lent once; tiles do not
            // overlap, so these rows of these columns are lent once.
            let (first, second, strip) =
                unsafe { (first.row(i), second.row(i), third.strip(i % strips, strip_len)) };
            job(i, first, second, strip.only_rows(i / strips * tile_rows, tile_rows));
        });
    }

    /// As [`rows`](Self::rows), with scratch for each thread.
    ///
    /// # Panics
    ///
    /// Panics if `data` is not a whole number of rows, if there are fewer scratch values than threads,
    /// or if a job panics.
    pub fn rows_with<T: Send, S: Send>(
        &self,
        data: &mut [T],
        row_len: usize,
        scratch: &mut [S],
        job: impl Fn(usize, &mut [T], &mut S) + Sync,
    ) {
        let shape = (1, row_len.max(1));
        self.tiles_with((data, row_len), shape, scratch, |i, _, mut tile, scratch| {
            job(i, tile.row(0), scratch);
        });
    }

    /// Calls `job(i, strip)` for each strip of `strip_len` columns of `data`, a matrix of rows of
    /// `row_len`. The last strip may be narrower.
    ///
    /// # Panics
    ///
    /// Panics if `data` is not a whole number of rows, or if a job panics.
    pub fn strips<T: Send>(
        &self,
        data: &mut [T],
        row_len: usize,
        strip_len: usize,
        job: impl Fn(usize, Strip<'_, T>) + Sync,
    ) {
        let shape = (data.len().max(1), strip_len);
        self.tiles_of_each([(data, row_len)], shape, |_, _, i, strip| job(i, strip));
    }

    /// As [`strips`](Self::strips), with scratch for each thread.
    ///
    /// # Panics
    ///
    /// Panics if `data` is not a whole number of rows, if there are fewer scratch values than threads,
    /// or if a job panics.
    pub fn strips_with<T: Send, S: Send>(
        &self,
        data: &mut [T],
        row_len: usize,
        strip_len: usize,
        scratch: &mut [S],
        job: impl Fn(usize, Strip<'_, T>, &mut S) + Sync,
    ) {
        let shape = (data.len().max(1), strip_len);
        self.tiles_with((data, row_len), shape, scratch, |_, i, strip, scratch| {
            job(i, strip, scratch);
        });
    }

    /// Calls `job(i, k, first, second)` for the tiles of two matrices of one shape: tile `(i, k)` as in
    /// [`tiles_with`](Self::tiles_with), of both.
    ///
    /// # Panics
    ///
    /// Panics if the matrices are not whole rows or differ in shape, or if a job panics.
    pub fn tile_pairs<T: Send, U: Send>(
        &self,
        (first, second): (&mut [T], &mut [U]),
        row_len: usize,
        (tile_rows, strip_len): (usize, usize),
        job: impl Fn(usize, usize, Strip<'_, T>, Strip<'_, U>) + Sync,
    ) {
        assert_eq!(first.len(), second.len(), "two matrices of one shape");
        let second = Rows::new(second, row_len);
        self.tiles_of_each([(first, row_len)], (tile_rows, strip_len), |_, i, k, first| {
            // SAFETY: each tile of `first` is lent once, and so is that of `second` with its numbers.
            let strip = unsafe { second.strip(k, strip_len) };
            job(i, k, first, strip.only_rows(i * tile_rows, tile_rows));
        });
    }

    /// Calls `job(i, …)` for each `i` in `0..strips` with strip `i` of three matrices and scratch `i`. Each
    /// matrix has rows of `strips` strips and is given with the length of a strip; one without elements
    /// has no rows. Jobs run on this thread alone unless `parallel`.
    ///
    /// # Panics
    ///
    /// Panics if a matrix is not a whole number of rows, if there are fewer scratch values than strips,
    /// or if a job panics.
    #[expect(clippy::type_complexity, reason = "three matrices and their strips")]
    pub(crate) fn columns<T: Send, U: Send, V: Send, S: Send>(
        &self,
        parallel: bool,
        strips: usize,
        (first, second, third): ((&mut [T], usize), (&mut [U], usize), (&mut [V], usize)),
        scratch: &mut [S],
        job: impl Fn(usize, Strip<'_, T>, Strip<'_, U>, Strip<'_, V>, &mut S) + Sync,
    ) {
        let rows_of_first = Rows::new(first.0, strips * first.1);
        let rows_of_second = Rows::new(second.0, strips * second.1);
        let rows_of_third = Rows::new(third.0, strips * third.1);
        let scratch = Rows::new(scratch, 1);
        let run = |_: usize, i: usize| {
            // SAFETY: each job number is taken once in a run, so these columns and this scratch are lent
            // once.
            let (a, b, c, scratch) = unsafe {
                (
                    rows_of_first.strip(i, first.1),
                    rows_of_second.strip(i, second.1),
                    rows_of_third.strip(i, third.1),
                    scratch.row(i),
                )
            };
            job(i, a, b, c, &mut scratch[0]);
        };
        if parallel {
            self.run_numbered(strips, run);
        } else {
            (0..strips).for_each(|i| run(0, i));
        }
    }

    /// Calls `job(m, i, k, tile)` for the tiles of several matrices with as many rows, each given with its
    /// row length: tile `(i, k)` of matrix `m`, as in [`tiles_with`](Self::tiles_with). Tiles of the same
    /// rows follow each other, so that a thread mostly works on the same rows.
    ///
    /// # Panics
    ///
    /// Panics if a matrix is not a whole number of rows, or if a job panics.
    pub fn tiles_of_each<T: Send, const N: usize>(
        &self,
        matrices: [(&mut [T], usize); N],
        (tile_rows, strip_len): (usize, usize),
        job: impl Fn(usize, usize, usize, Strip<'_, T>) + Sync,
    ) {
        assert!(tile_rows > 0 && strip_len > 0, "a tile has rows and columns");
        let matrices = matrices.map(|(data, row_len)| Rows::new(data, row_len));
        let strips = |rows: &Rows<'_, T>| rows.row_len.div_ceil(strip_len);
        let strips_of_all: usize = matrices.iter().map(strips).sum();
        let blocks = matrices.iter().map(|rows| rows.len.div_ceil(tile_rows)).max().unwrap_or(0);
        self.run(blocks * strips_of_all, |job_number| {
            let (i, mut k) = (job_number / strips_of_all, job_number % strips_of_all);
            for (m, rows) in matrices.iter().enumerate() {
                if k < strips(rows) {
                    // SAFETY: each job number is taken once in a run and belongs to one tile of one
                    // matrix, so these rows of these columns are lent once.
                    let tile =
                        unsafe { rows.strip(k, strip_len) }.only_rows(i * tile_rows, tile_rows);
                    return job(m, i, k, tile);
                }
                k -= strips(rows);
            }
        });
    }

    /// Calls `job(i, k, tile, scratch)` for each tile of `data`, a matrix of rows of `row_len`: tile
    /// `(i, k)` has the rows from `i * tile_rows` on of strip `k` of `strip_len` columns. The last tiles
    /// may be smaller.
    ///
    /// # Panics
    ///
    /// Panics if `data` is not a whole number of rows, if there are fewer scratch values than threads,
    /// or if a job panics.
    pub fn tiles_with<T: Send, S: Send>(
        &self,
        (data, row_len): (&mut [T], usize),
        (tile_rows, strip_len): (usize, usize),
        scratch: &mut [S],
        job: impl Fn(usize, usize, Strip<'_, T>, &mut S) + Sync,
    ) {
        assert!(tile_rows > 0 && strip_len > 0, "a tile has rows and columns");
        assert!(scratch.len() >= self.threads(), "scratch for each of {} threads", self.threads());
        let rows = Rows::new(data, row_len);
        let scratch = Rows::new(scratch, 1);
        let strips = row_len.div_ceil(strip_len);
        self.run_numbered(rows.len.div_ceil(tile_rows) * strips, |worker, tile| {
            let (i, k) = (tile / strips, tile % strips);
            // SAFETY: each job number is taken once in a run and tiles do not overlap, so these rows of
            // these columns are lent once.
            let tile = unsafe { rows.strip(k, strip_len).only_rows(i * tile_rows, tile_rows) };
            // SAFETY: worker numbers differ between threads, and a thread runs one job at a time.
            let scratch = unsafe { scratch.row(worker) };
            job(i, k, tile, &mut scratch[0]);
        });
    }

    /// Returns scratch without a size for each thread, which takes no memory.
    fn no_scratch(&self) -> Vec<()> {
        vec![(); self.threads()]
    }

    /// As [`run`](Self::run), where a job also gets the number of its worker.
    fn run_numbered(&self, jobs: usize, job: impl Fn(usize, usize) + Sync) {
        if jobs <= 1 || self.workers.is_empty() || INSIDE_JOB.get() {
            return (0..jobs).for_each(|i| job(0, i));
        }
        let shares = &self.shares;
        let panic: Mutex<Option<Box<dyn Any + Send>>> = Mutex::new(None);
        let work = |worker| {
            let done = catch_unwind(AssertUnwindSafe(|| {
                while let Some(jobs) = shares.take(worker) {
                    jobs.for_each(|i| job(worker, i));
                }
            }));
            if let Err(payload) = done {
                shares.clear();
                lock(&panic).get_or_insert(payload);
            }
        };
        {
            let _turn = lock(&self.running);
            shares.start(self.shared.next_number(), jobs);
            self.shared.run(&work);
        }
        if let Some(payload) = panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.workers.wake();
        for worker in self.workers.drain(..) {
            // A worker catches the panics of its jobs, so there is no error to handle.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// Runs `work` on this thread and on all workers that enter in time. `work` must not panic.
    fn run(&self, work: &Work<'_>) {
        // SAFETY: only the lifetime changes. This function returns after the gate is closed and
        // no worker is inside; then no worker can reach the reference any more.
        let work = unsafe { std::mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
        // SAFETY: runs take turns and the last one left the gate closed with no worker inside, so this
        // is the only access.
        unsafe { *self.work.get() = Some(work) };
        let number = self.next_number();
        // Sequentially consistent, like all that decides about entering or sleeping; see `wait_until`.
        self.gate.store(number << 1 | OPEN, Ordering::SeqCst);
        self.workers.wake();
        as_job(|| work(0));
        self.gate.store(number << 1, Ordering::SeqCst);
        for slot in &self.slots {
            self.caller.wait_until(self.spins, || slot.0.load(Ordering::SeqCst) != number);
        }
    }

    /// Returns the number of the run that the gate opens for next. Runs take turns.
    fn next_number(&self) -> u64 {
        (self.gate.load(Ordering::Relaxed) >> 1) + 1
    }

    /// Waits for runs and works in them until the pool is dropped.
    fn serve(&self, worker: usize) {
        assert_float_environment();
        let slot = &self.slots[worker - 1].0;
        let mut last_gate = 0;
        loop {
            let mut gate = 0;
            self.workers.wait_until(self.spins, || {
                gate = self.gate.load(Ordering::SeqCst);
                gate & OPEN != 0 && gate != last_gate || self.stop.load(Ordering::SeqCst)
            });
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            last_gate = gate;
            slot.store(gate >> 1, Ordering::SeqCst);
            if self.gate.load(Ordering::SeqCst) == gate {
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
    /// Looks `spins` times whether `ready` returns `true`, then sleeps until it does.
    ///
    /// No wake-up is lost: a sleeper announces itself before it looks a last time, a waker changes
    /// the state before it looks for sleepers, and all four are sequentially consistent, so one of
    /// the two sees the other. The lock keeps the waker away until the sleeper really sleeps.
    fn wait_until(&self, spins: usize, mut ready: impl FnMut() -> bool) {
        for _ in 0..spins {
            if ready() {
                return;
            }
            std::hint::spin_loop();
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

/// Marks this thread as inside a job while `f` runs. `f` must not panic.
fn as_job(f: impl FnOnce()) {
    INSIDE_JOB.set(true);
    f();
    INSIDE_JOB.set(false);
}

/// Locks a mutex. Its data is valid even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn assert_float_environment() {
    assert!(
        float_environment_is_default(),
        "floats do not round to nearest with subnormals kept on this thread"
    );
}

/// A matrix lent out in parts to several threads.
struct Rows<'a, T> {
    start: *mut T,
    row_len: usize,
    len: usize,
    lent: PhantomData<&'a mut [T]>,
}

// SAFETY: threads get disjoint `&mut` parts of it, which `T: Send` allows.
unsafe impl<T: Send> Sync for Rows<'_, T> {}

impl<'a, T> Rows<'a, T> {
    fn new(data: &'a mut [T], row_len: usize) -> Self {
        let len = data.len().checked_div(row_len).unwrap_or(0);
        assert_eq!(len * row_len, data.len(), "whole rows of {row_len}");
        Self { start: data.as_mut_ptr(), row_len, len, lent: PhantomData }
    }

    /// # Safety
    ///
    /// While the result lives, row `i` is not lent again.
    #[expect(clippy::mut_from_ref, reason = "the caller keeps the parts apart")]
    unsafe fn row(&self, i: usize) -> &mut [T] {
        assert!(i < self.len, "row {i} of {}", self.len);
        // SAFETY: row `i` lies within the slice of `new`, which is lent to us for as long as we
        // live; the caller guarantees that it is not lent again.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(i * self.row_len), self.row_len) }
    }

    /// # Safety
    ///
    /// While rows of the result are lent, no one else is lent the columns
    /// `i * strip_len..(i + 1) * strip_len` of them.
    unsafe fn strip(&self, i: usize, strip_len: usize) -> Strip<'_, T> {
        let column = i * strip_len;
        assert!(column < self.row_len, "column {column} of {}", self.row_len);
        Strip {
            start: self.start,
            row_len: self.row_len,
            rows: self.len,
            column,
            width: strip_len.min(self.row_len - column),
            lent: PhantomData,
        }
    }
}

/// Neighbouring columns of a matrix that one job owns.
pub struct Strip<'a, T> {
    /// Start of the whole matrix.
    start: *mut T,
    row_len: usize,
    rows: usize,
    column: usize,
    width: usize,
    lent: PhantomData<&'a mut [T]>,
}

impl<'a, T> Strip<'a, T> {
    /// Returns strip `strip` of `data`, a matrix of rows of `row_len`, where strips are `strip_len` wide.
    ///
    /// # Panics
    ///
    /// Panics if `data` is not a whole number of rows or has no such strip.
    pub fn new(data: &'a mut [T], row_len: usize, strip_len: usize, strip: usize) -> Self {
        let rows = Rows::new(data, row_len);
        // SAFETY: `data` is borrowed for as long as the result lives, and this is its only strip.
        let Strip { start, column, width, .. } = unsafe { rows.strip(strip, strip_len) };
        Self { start, row_len, rows: rows.len, column, width, lent: PhantomData }
    }

    /// Returns the rows from `first` on, at most `rows` of them.
    fn only_rows(mut self, first: usize, rows: usize) -> Self {
        assert!(first <= self.rows, "row {first} of {}", self.rows);
        // SAFETY: within the matrix, or at its end.
        self.start = unsafe { self.start.add(first * self.row_len) };
        self.rows = rows.min(self.rows - first);
        self
    }

    /// Returns `width` of the columns, from column `first` on.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer columns.
    pub fn columns(&mut self, first: usize, width: usize) -> Strip<'_, T> {
        assert!(
            first + width <= self.width,
            "columns {first} to {} of {}",
            first + width,
            self.width
        );
        Strip { column: self.column + first, width, lent: PhantomData, ..*self }
    }

    /// Returns the columns of row `r`.
    pub fn row(&mut self, r: usize) -> &mut [T] {
        assert!(r < self.rows, "row {r} of {}", self.rows);
        // SAFETY: these elements lie within the matrix, which is lent for 'a; no one else is lent these
        // columns, and `&mut self` keeps us from lending a row twice.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.start.add(r * self.row_len + self.column),
                self.width,
            )
        }
    }

    /// Returns the number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
}
