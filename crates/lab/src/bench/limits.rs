//! The limits of the machine: memory bandwidth (`stream.rs`), multiplications per second, and the cost
//! of a barrier.

use std::fs::read_to_string;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::yield_now;
use std::time::Duration;

use serde::Serialize;
use wf_kernels::{
    DotInstruction, Kernel, Pool, QuantBatch, Scales, TernaryMatrix, dot_instructions, multiply,
};

use super::plan::Plan;
use super::stream::Stream;
use crate::random::Random;
use crate::stats::{Repeats, timed};

/// The limits for some number of threads.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Limits {
    pub(super) threads: usize,
    /// Memory bandwidth in GB/s: the maximum over the whole run.
    pub(super) stream_gb_s: f64,
    /// Peak int8 multiplications, all in registers, in 10⁹ per second.
    pub(super) peak_gmac_s: f64,
    /// Instruction that reaches the peak.
    pub(super) peak_instruction: &'static str,
    /// Multiplications of the ternary kernel with all data in cache, in 10⁹ per second.
    pub(super) kernel_gmac_s: f64,
    /// Cost of a barrier: distributing work and waiting for all threads.
    pub(super) barrier_us: f64,
}

pub(super) fn measure(
    kernel: &dyn Kernel,
    threads: &[usize],
    plan: &Plan,
    stream: &mut Stream,
) -> Vec<Limits> {
    let limits = |&threads: &usize| {
        stream.set_threads(threads, plan.limits);
        let pool = Pool::new(threads);
        let (peak_instruction, peak_gmac_s) = peak(&pool, plan.limits);
        Limits {
            threads,
            stream_gb_s: stream.best(threads).unwrap_or_default(),
            peak_gmac_s,
            peak_instruction,
            kernel_gmac_s: in_cache(kernel, &pool, plan.limits),
            barrier_us: barrier(&pool, plan.limits),
        }
    };
    threads.iter().map(limits).collect()
}

/// Updates the memory bandwidths of [`measure`] with those seen later in the run.
pub(super) fn update(limits: &mut [Limits], stream: &Stream) {
    for limit in limits {
        limit.stream_gb_s = stream.best(limit.threads).unwrap_or(limit.stream_gb_s);
    }
}

/// Returns the clock rate in GHz, on x86-64.
///
/// Times a chain of dependent multiplications and exclusive ors, which take 3 + 1 cycles on every
/// x86-64 core of the last ten years.
pub(super) fn clock_ghz() -> Option<f64> {
    const LINKS: usize = 5_000_000;
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let (factor, mask) = (black_box(0x9e37_79b9_7f4a_7c15_u64), black_box(0x1234_5678_u64));
    let repeats = Repeats { max: 9, budget: Duration::from_millis(200) };
    let seconds = best_of(repeats, || {
        let chain = (0..LINKS).fold(1_u64, |link, _| link.wrapping_mul(factor) ^ mask);
        black_box(chain);
    });
    Some(4.0 * LINKS as f64 / seconds / 1e9)
}

/// Jobs per thread, so that a late thread does not dominate.
const JOBS_PER_THREAD: usize = 4;

/// Returns the fastest instruction of this CPU, and its speed on all threads.
fn peak(pool: &Pool, repeats: Repeats) -> (&'static str, f64) {
    const ROUNDS: u64 = 100_000;
    let jobs = JOBS_PER_THREAD * pool.threads();
    let speed = |instruction: DotInstruction| {
        let products = jobs as u64 * instruction.run(ROUNDS);
        let seconds = best_of(Repeats { budget: repeats.budget / 4, ..repeats }, || {
            pool.run(jobs, |_| {
                instruction.run(ROUNDS);
            });
        });
        (instruction.name(), products as f64 / seconds / 1e9)
    };
    let speeds = dot_instructions().into_iter().map(speed);
    speeds.max_by(|a, b| a.1.total_cmp(&b.1)).expect("every CPU has one")
}

/// Returns the speed of the kernel with weights and codes in the L1 and L2 caches.
fn in_cache(kernel: &dyn Kernel, pool: &Pool, repeats: Repeats) -> f64 {
    const ROWS: usize = 64;
    const COLS: usize = 1024;
    const TOKENS: usize = 32;
    const ROUNDS: usize = 20;
    let alone = Pool::new(1);
    let mut matrix = TernaryMatrix::new(ROWS, COLS, Scales::Tensor(1.0));
    let Ok(()) = matrix.fill(&alone, |rows, trits| {
        Random::new(0, rows.start as u64).fill_trits(trits);
        Ok::<(), std::convert::Infallible>(())
    });
    let x = Random::new(0, 0).floats(TOKENS * COLS);
    let mut codes = QuantBatch::new(TOKENS, COLS);
    codes.quantize(kernel, &alone, &x, COLS);
    let mut outputs = vec![0.0; pool.threads() * JOBS_PER_THREAD * TOKENS * ROWS];
    let seconds = best_of(repeats, || {
        pool.rows(&mut outputs, TOKENS * ROWS, |_, y| {
            for _ in 0..ROUNDS {
                multiply(kernel, &alone, &matrix, &codes, y);
            }
        });
    });
    (pool.threads() * JOBS_PER_THREAD * ROUNDS * TOKENS * ROWS * COLS) as f64 / seconds / 1e9
}

/// Returns the microseconds of a run in which every thread takes one job and waits in it for the others.
///
/// Empty jobs would not do: a run does not wait for threads that arrive when no job is left.
fn barrier(pool: &Pool, repeats: Repeats) -> f64 {
    const RUNS: usize = 200;
    let timing = repeats.time(|| {
        for _ in 0..RUNS {
            let here = AtomicUsize::new(0);
            pool.run_on_all(|_| {
                here.fetch_add(1, Ordering::AcqRel);
                let mut looks = 0;
                while here.load(Ordering::Acquire) < pool.threads() {
                    looks += 1;
                    // A missing thread may be waiting for this core.
                    if looks < 10_000 { spin_loop() } else { yield_now() }
                }
            });
        }
    });
    timing.seconds / RUNS as f64 * 1e6
}

/// Returns the seconds of the fastest repeat.
fn best_of(repeats: Repeats, mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    repeats.time(|| best = best.min(timed(&mut work)));
    best
}

pub(super) fn cpu_name() -> Option<String> {
    let text = read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Returns the load average of the last minute.
pub(super) fn load_average() -> Option<f64> {
    read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}
