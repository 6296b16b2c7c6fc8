//! A thread pool that runs job `i` for each `i` in `0..n` and waits for all of them.
//!
//! The calling thread is worker 0. A run does not wait for workers that wake up after the last job is
//! taken, so a busy machine slows a run down but cannot stall it. While another program uses the CPU of a
//! worker, one worker less takes part. The assignment of jobs to workers varies; results of jobs must not
//! depend on it.

mod contention;
mod gate;
mod parts;
mod upcoming;

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use crate::share::Shares;
use contention::Watch;
use gate::{Gate, assert_float_environment, is_inside_job, lock};
use parts::Rows;
pub use parts::Strip;
pub use upcoming::Upcoming;

/// Threads that take part in a run.
#[derive(Clone, Copy)]
enum Participants {
    All,
    /// Those whose CPUs no other program uses.
    Undisturbed,
}

/// A pool of threads.
pub struct Pool {
    gate: Arc<Gate>,
    workers: Vec<JoinHandle<()>>,
    /// The jobs of the current run.
    shares: Shares,
    /// Held during a run, because there is one gate.
    running: Mutex<Watch>,
}

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
        let gate = Arc::new(Gate::new(threads));
        let shares = Shares::new(0);
        let running = Mutex::new(Watch::new(1));
        let mut pool = Self { gate, workers: Vec::new(), shares, running };
        for worker in 1..threads {
            let gate = Arc::clone(&pool.gate);
            let name = format!("wf-pool-{worker}");
            let start = start.clone();
            let thread = thread::Builder::new().name(name).spawn(move || {
                start(worker);
                gate.serve(worker);
            });
            // The number of threads changes no result, so fewer threads are better than an error.
            let Ok(thread) = thread else { break };
            pool.workers.push(thread);
        }
        pool.shares = Shares::new(pool.threads());
        pool.running = Mutex::new(Watch::new(pool.threads()));
        pool
    }

    /// Returns the number of threads, including the caller.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Announces what is read after the next run. Workers that wait fetch it into their caches until something
    /// else is announced.
    pub fn announce(&self, upcoming: Upcoming<'_>) {
        if !self.workers.is_empty() {
            self.gate.upcoming.set(upcoming);
        }
    }

    /// Calls `job(i)` once for each `i` in `0..jobs`, on all threads, and returns when all are done.
    ///
    /// May be called from several threads at once, which take turns, and from inside a job, which then
    /// executes the whole run. If a job panics, jobs that have not started may be skipped, and the panic
    /// resumes here when all threads have stopped.
    pub fn run(&self, jobs: usize, job: impl Fn(usize) + Sync) {
        self.run_numbered(jobs, |_, i| job(i));
    }

    /// As [`run`](Self::run), with a job for each thread. All threads take part, however busy their CPUs are, so jobs may wait
    /// for each other. Must not be called from inside a job.
    pub fn run_on_all(&self, job: impl Fn(usize) + Sync) {
        self.run_with(Participants::All, self.threads(), |_, i| job(i));
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

    /// Calls `job(&with, k, cells, scratch)` for each `(row, with)` of `rows` and each of `strips` strips `k`, with strip
    /// `k` of that row of two matrices. Each matrix has rows of `strips` strips and is given with the length of a
    /// strip, which may be zero in the second.
    ///
    /// # Panics
    ///
    /// Panics if a matrix is not a whole number of rows, if rows are not in ascending order, if there are fewer
    /// scratch values than threads, or if a job panics.
    pub(crate) fn cells_with<W: Sync, T: Send, U: Send, S: Send>(
        &self,
        rows: &[(usize, W)],
        strips: usize,
        (first, first_len): (&mut [T], usize),
        (second, second_len): (&mut [U], usize),
        scratch: &mut [S],
        job: impl Fn(&W, usize, (&mut [T], &mut [U]), &mut S) + Sync,
    ) {
        assert!(scratch.len() >= self.threads(), "scratch for each of {} threads", self.threads());
        assert!(rows.is_sorted_by(|(a, _), (b, _)| a < b), "rows in ascending order");
        let first = Rows::new(first, strips * first_len);
        let second = Rows::new(second, strips * second_len);
        let scratch = Rows::new(scratch, 1);
        self.run_numbered(rows.len() * strips, |worker, job_number| {
            let ((row, with), k) = (&rows[job_number / strips], job_number % strips);
            // SAFETY: each job number is taken once in a run, and rows differ, so this strip of this row is
            // lent once.
            let mut cell = unsafe { first.strip(k, first_len) }.only_rows(*row, 1);
            // SAFETY: as above.
            let mut other =
                (second_len > 0).then(|| unsafe { second.strip(k, second_len) }.only_rows(*row, 1));
            let other = other.as_mut().map_or(&mut [][..], |strip| strip.row(0));
            // SAFETY: worker numbers differ between threads, and a thread runs one job at a time.
            let scratch = unsafe { scratch.row(worker) };
            job(with, k, (cell.row(0), other), &mut scratch[0]);
        });
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

    /// Calls `job(n, k, tile, scratch)` for the tiles of some slices of `data`, a matrix of rows of `row_len`: tile
    /// `k` of slice `n` has the rows `slices[n]` of strip `k` of `strip_len` columns.
    ///
    /// # Panics
    ///
    /// Panics if `data` is not a whole number of rows, if slices are not in ascending order without overlap, if
    /// there are fewer scratch values than threads, or if a job panics.
    pub(crate) fn slices_with<T: Send, S: Send>(
        &self,
        (data, row_len): (&mut [T], usize),
        slices: &[Range<usize>],
        strip_len: usize,
        scratch: &mut [S],
        job: impl Fn(usize, usize, Strip<'_, T>, &mut S) + Sync,
    ) {
        assert!(strip_len > 0, "a tile has columns");
        assert!(scratch.len() >= self.threads(), "scratch for each of {} threads", self.threads());
        let data = Rows::new(data, row_len);
        let scratch = Rows::new(scratch, 1);
        let mut end = 0;
        for slice in slices {
            assert!(end <= slice.start && slice.start <= slice.end, "slices in ascending order");
            end = slice.end;
        }
        assert!(end <= data.len, "row {end} of {}", data.len);
        let strips = row_len.div_ceil(strip_len);
        self.run_numbered(slices.len() * strips, |worker, tile| {
            let (n, k) = (tile / strips, tile % strips);
            let rows = slices[n].clone();
            // SAFETY: each job number is taken once in a run, and slices do not overlap, so these rows of these
            // columns are lent once.
            let tile = unsafe { data.strip(k, strip_len) }.only_rows(rows.start, rows.len());
            // SAFETY: worker numbers differ between threads, and a thread runs one job at a time.
            let scratch = unsafe { scratch.row(worker) };
            job(n, k, tile, &mut scratch[0]);
        });
    }

    /// Calls `job(n, k, row, tile)` for each `n` and each of `strips` strips `k` of two matrices, which have
    /// rows of `strips` strips: strip `k` of row `rows[n]` of the first, and of the rows `slices[n]` of the
    /// second. Each matrix is given with its row length.
    ///
    /// # Panics
    ///
    /// Panics if a matrix is not a whole number of rows of whole strips, if rows repeat, if slices are not in
    /// ascending order without overlap, or if a job panics.
    pub fn rows_and_slices<T: Send, U: Send>(
        &self,
        (first, first_len, rows): (&mut [T], usize, &[usize]),
        (second, second_len, slices): (&mut [U], usize, &[Range<usize>]),
        strips: usize,
        job: impl Fn(usize, usize, &mut [T], Strip<'_, U>) + Sync,
    ) {
        let whole = |len: usize| strips > 0 && len > 0 && len.is_multiple_of(strips);
        assert!(whole(first_len) && whole(second_len), "rows of {strips} strips");
        assert_eq!(rows.len(), slices.len(), "a slice for each row");
        let unique = |(n, row): (usize, &usize)| !rows[..n].contains(row);
        assert!(rows.iter().enumerate().all(unique), "different rows");
        let (first_width, second_width) = (first_len / strips, second_len / strips);
        let first = Rows::new(first, first_len);
        let second = Rows::new(second, second_len);
        let mut end = 0;
        for slice in slices {
            assert!(end <= slice.start && slice.start <= slice.end, "slices in ascending order");
            end = slice.end;
        }
        assert!(end <= second.len, "row {end} of {}", second.len);
        assert!(rows.iter().all(|&row| row < first.len), "rows of the first matrix");
        self.run(rows.len() * strips, |job_number| {
            let (n, k) = (job_number / strips, job_number % strips);
            // SAFETY: each job number is taken once in a run, and rows differ, so this strip of this row is
            // lent once.
            let mut strip = unsafe { first.strip(k, first_width) }.only_rows(rows[n], 1);
            let slice = slices[n].clone();
            // SAFETY: as above, where slices do not overlap.
            let tile = unsafe { second.strip(k, second_width) }.only_rows(slice.start, slice.len());
            job(n, k, strip.row(0), tile);
        });
    }

    /// Returns scratch without a size for each thread, which takes no memory.
    fn no_scratch(&self) -> Vec<()> {
        vec![(); self.threads()]
    }

    /// As [`run`](Self::run), where a job also gets the number of its worker.
    fn run_numbered(&self, jobs: usize, job: impl Fn(usize, usize) + Sync) {
        self.run_with(Participants::Undisturbed, jobs, job);
    }

    fn run_with(&self, who: Participants, jobs: usize, job: impl Fn(usize, usize) + Sync) {
        if jobs <= 1 || self.workers.is_empty() || is_inside_job() {
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
            let mut watch = lock(&self.running);
            let active = match who {
                Participants::All => self.threads(),
                Participants::Undisturbed => {
                    watch.active(self.gate.delays[..self.workers.len()].iter())
                }
            };
            self.gate.set_active(active);
            if active == 1 {
                // A job may start a run of its own.
                drop(watch);
                return (0..jobs).for_each(|i| job(0, i));
            }
            shares.start(self.gate.next_number(), jobs, active);
            self.gate.run(&work);
        }
        if let Some(payload) = panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.gate.stop();
        for worker in self.workers.drain(..) {
            // A worker catches the panics of its jobs, so there is no error to handle.
            let _ = worker.join();
        }
    }
}
