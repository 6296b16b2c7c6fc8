//! The machine's own limits: how fast memory can be read, how fast numbers can be multiplied, and
//! what it costs to share work out.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use serde::Serialize;
use wf_kernels::{Kernel, Pool, QuantBatch, Scales, TernaryMatrix, multiply, prefer_huge_pages};

use super::machine;
use super::plan::Plan;
use super::random::Random;
use super::stats::{Repeats, Timing};

/// The limits with some number of threads.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Limits {
    pub(super) threads: usize,
    /// Gigabytes read from memory in a second.
    pub(super) stream_gb_s: f64,
    /// Thousand million multiplications of a trit and a code in a second, all data in cache.
    pub(super) peak_gmac_s: f64,
    /// What it costs to have all threads meet once: to hand out work and wait for all.
    pub(super) barrier_us: f64,
}

/// Measures the limits for each number of threads.
pub(super) fn measure(kernel: &dyn Kernel, threads: &[usize], plan: &Plan) -> Vec<Limits> {
    let buffer = buffer(plan.stream_bytes);
    let limits = |&threads: &usize| {
        let pool = Pool::new(threads);
        Limits {
            threads,
            stream_gb_s: stream(&pool, &buffer, plan.limits),
            peak_gmac_s: peak(kernel, &pool, plan.limits),
            barrier_us: barrier(&pool, plan.limits),
        }
    };
    threads.iter().map(limits).collect()
}

/// Cycles of a core in a nanosecond, where the cost of an instruction is known for sure.
///
/// A chain of multiplications and exclusive ors, each of which waits for the one before: 3 + 1
/// cycles on every x86-64 core of the last ten years.
pub(super) fn clock_ghz() -> Option<f64> {
    const LINKS: usize = 5_000_000;
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let (factor, mask) = (black_box(0x9e37_79b9_7f4a_7c15_u64), black_box(0x1234_5678_u64));
    let repeats = Repeats { most: 9, budget: Duration::from_millis(200) };
    let seconds = best_of(repeats, || {
        let chain = (0..LINKS).fold(1_u64, |link, _| link.wrapping_mul(factor) ^ mask);
        black_box(chain);
    });
    Some(4.0 * LINKS as f64 / seconds / 1e9)
}

/// The numbers of threads worth looking at: powers of two, and all.
pub(super) fn thread_counts(most: usize) -> Vec<usize> {
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|&n| n < most).collect();
    counts.push(most);
    counts
}

/// Memory that no cache holds, every page of it written.
fn buffer(least_bytes: usize) -> Vec<u64> {
    // Where the cache is small or unknown, four times as much is still the least.
    let bytes = machine::last_cache_bytes().map_or(0, |cache| 4 * cache.min(1 << 30));
    let bytes = if least_bytes < 8 << 20 { least_bytes } else { bytes.max(least_bytes) };
    // In large pages of the system, as weights are: small ones read a third slower.
    let mut words = Vec::with_capacity(bytes / 8);
    prefer_huge_pages(&words);
    words.extend(0..bytes as u64 / 8);
    words
}

/// Bytes of memory one job reads.
const JOB_BYTES: usize = 256 << 10;

/// Gigabytes read in a second: the best of all repeats, since a limit is what can be reached.
fn stream(pool: &Pool, buffer: &[u64], repeats: Repeats) -> f64 {
    let jobs: Vec<&[u64]> = buffer.chunks(JOB_BYTES / 8).collect();
    let seconds = best_of(repeats, || {
        pool.run(jobs.len(), |job| {
            black_box(sum(jobs[job]));
        });
    });
    size_of_val(buffer) as f64 / seconds / 1e9
}

/// Adds sixteen columns at once, so that the compiler uses vectors.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0_u64; 16];
    for chunk in words.as_chunks::<16>().0 {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.into_iter().fold(0, u64::wrapping_add)
}

/// The best the kernel does where nothing waits for memory: weights and codes in the first caches.
fn peak(kernel: &dyn Kernel, pool: &Pool, repeats: Repeats) -> f64 {
    const ROWS: usize = 64;
    const COLS: usize = 1024;
    const TOKENS: usize = 32;
    const GOES: usize = 20;
    let alone = Pool::new(1);
    let mut matrix = TernaryMatrix::new(ROWS, COLS, Scales::Tensor(1.0));
    let Ok(()) = matrix.fill(&alone, |rows, trits| {
        Random::new(0, rows.start as u64).fill_trits(trits);
        Ok::<(), std::convert::Infallible>(())
    });
    let mut random = Random::new(0, 0);
    let x: Vec<f32> = (0..TOKENS * COLS).map(|_| random.centred()).collect();
    let mut codes = QuantBatch::new(TOKENS, COLS);
    codes.quantize(kernel, &alone, &x, COLS);
    let mut outputs = vec![0.0; pool.threads() * 4 * TOKENS * ROWS];
    let seconds = best_of(repeats, || {
        pool.rows(&mut outputs, TOKENS * ROWS, |_, y| {
            for _ in 0..GOES {
                multiply(kernel, &alone, &matrix, &codes, y);
            }
        });
    });
    (pool.threads() * 4 * GOES * TOKENS * ROWS * COLS) as f64 / seconds / 1e9
}

/// Microseconds of a run in which every thread takes one job and waits in it for the others.
///
/// An empty job would not do: a run does not wait for threads that come when nothing is left.
fn barrier(pool: &Pool, repeats: Repeats) -> f64 {
    const RUNS: usize = 200;
    let timing = repeats.time(|| {
        for _ in 0..RUNS {
            let here = AtomicUsize::new(0);
            pool.run(pool.threads(), |_| {
                here.fetch_add(1, Ordering::AcqRel);
                let mut looks = 0;
                while here.load(Ordering::Acquire) < pool.threads() {
                    looks += 1;
                    // Whoever is missing may be waiting for this very core.
                    if looks < 10_000 { spin_loop() } else { yield_now() }
                }
            });
        }
    });
    timing.seconds / RUNS as f64 * 1e6
}

/// Seconds of the quickest repeat.
fn best_of(repeats: Repeats, mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    let _: Timing = repeats.time(|| {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    });
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counts_double_and_end_with_all() {
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(6), [1, 2, 4, 6]);
        assert_eq!(thread_counts(8), [1, 2, 4, 8]);
    }

    #[test]
    fn every_word_is_read() {
        let words: Vec<u64> = (0..64).collect();
        assert_eq!(sum(&words), 63 * 64 / 2);
    }
}
