//! Time saved by skipping zeros: the feed-forward products of BitNet 2B for one token and for a prompt, dense and
//! sparse, on weights that no cache holds.
//!
//! `cargo bench -p wf-kernels --bench sparse`. Dense and sparse run in each round, so that a busy
//! machine slows both. Printed are the medians of all rounds, in microseconds a layer and token.

#![expect(clippy::print_stdout, reason = "what a benchmark finds, it prints")]

use std::hint::black_box;
use std::time::Instant;

use wf_kernels::{
    Kernel, NonZeros, Pool, ProductScratch, QuantBatch, QuantRow, Relu2Matrices, Scales,
    TernaryColumns, TernaryMatrix, TernaryRows, best, multiply_add, multiply_add_columns,
    multiply_add_columns_of_each, multiply_gated, multiply_relu2, relu2_neurons,
};

const HIDDEN: usize = 2560;
const FFN: usize = 6912;
const PROMPT: usize = 256;

/// Shares of gates that are not positive, with those of zero codes that go with them: none, random
/// weights, the trained demo model, and what is published of large models.
const SHARES: [(f64, f64); 4] = [(0.0, 0.0), (0.5, 0.72), (0.73, 0.86), (0.9, 0.95)];

struct Layer {
    gate: TernaryMatrix,
    up: TernaryMatrix,
    down: TernaryMatrix,
    up_rows: TernaryRows,
    down_columns: TernaryColumns,
}

fn main() {
    // `cargo bench -- --test` wants to see that it runs, not how fast.
    let quick = std::env::args().any(|arg| arg == "--test");
    let (layers, rounds) = if quick { (1, 1) } else { (16, 9) };
    let kernel = best();
    println!("{:>6} {:>7} {:>6} {:>6}  {:>21}  {:>21}", "", "", "", "", "gate+up µs", "down µs");
    println!(
        "{:>6} {:>7} {:>6} {:>6}  {:>6} {:>6} {:>7}  {:>6} {:>6} {:>7}",
        "tokens", "threads", "closed", "zeros", "dense", "sparse", "", "dense", "sparse", ""
    );
    for (closed, zeros) in SHARES {
        let maker = Pool::new(2);
        let layers: Vec<_> = (0..layers).map(|i| layer(&maker, i, closed)).collect();
        for (tokens, threads) in [(1, 1), (1, 2), (PROMPT, 1), (PROMPT, 2)] {
            let pool = Pool::new(threads);
            let mut times: [Vec<f64>; 4] = Default::default();
            // A prompt takes long, and none of its weights stays in a cache either.
            let layers = if tokens == 1 { &layers[..] } else { &layers[..1] };
            for _ in 0..rounds {
                let round = match tokens {
                    1 => measure(kernel, &pool, layers, zeros),
                    _ => measure_prompt(kernel, &pool, &layers[0], zeros),
                };
                times.iter_mut().zip(round).for_each(|(times, time)| times.push(time));
            }
            let [a, b, c, d] = times.map(|mut times| {
                times.sort_by(f64::total_cmp);
                times[times.len() / 2] * 1e6 / (layers.len() * tokens) as f64
            });
            println!(
                "{tokens:6} {threads:7} {closed:6.2} {zeros:6.2}  {a:6.1} {b:6.1} {:6.2}x  {c:6.1} {d:6.1} {:6.2}x",
                a / b,
                c / d
            );
        }
    }
}

/// As [`measure`], for a prompt whose tokens have the same gates.
fn measure_prompt(kernel: &dyn Kernel, pool: &Pool, layer: &Layer, zeros: f64) -> [f64; 4] {
    let x: Vec<f32> = (0..PROMPT).flat_map(|_| hidden()).collect();
    let x = quantized(kernel, pool, &x, HIDDEN);
    let neurons: Vec<f32> = (0..PROMPT * FFN)
        .map(|i| if share_of(i, 5) < zeros { 0.0 } else { (i % 7) as f32 + 1.0 })
        .collect();
    let mid = quantized(kernel, pool, &neurons, FFN);
    let mut y = vec![0.0; PROMPT * FFN];
    let mut total = vec![0.0; PROMPT * HIDDEN];
    let mut non_zeros = vec![NonZeros::with_capacity(FFN); PROMPT];
    let mut scratch = ProductScratch::new(pool.threads());
    let (gate, up, up_rows) = (&layer.gate, &layer.up, &layer.up_rows);
    let relu2 = Relu2Matrices { gate, up, up_rows, max_open: 1.0 };
    let mut times = [0.0; 4];
    // Memory is touched before it is timed.
    for _ in 0..2 {
        let dense_up = time(|| {
            let out = (&mut y[..], &mut scratch);
            multiply_gated(kernel, pool, (gate, up), black_box(&x), out, |gate, up| {
                kernel.relu2_mul(gate, up);
            });
        });
        let sparse_up = time(|| {
            let out = (&mut y[..], &mut scratch);
            multiply_relu2(kernel, pool, &relu2, black_box(&x), out);
        });
        let dense_down = time(|| {
            let out = (&mut total[..], &mut scratch);
            multiply_add(kernel, pool, &layer.down, black_box(&mid), out);
        });
        let sparse_down = time(|| {
            pool.rows(&mut non_zeros, 1, |i, found| {
                found[0].find(kernel, black_box(&mid.rows()[i]))
            });
            let w = &layer.down_columns;
            multiply_add_columns_of_each(kernel, pool, w, &non_zeros, &mut total);
        });
        times = [dense_up, sparse_up, dense_down, sparse_down];
    }
    times
}

/// Seconds for gate and up, dense and sparse, and for down, dense and sparse.
fn measure(kernel: &dyn Kernel, pool: &Pool, layers: &[Layer], zeros: f64) -> [f64; 4] {
    let x = quantized(kernel, pool, &hidden(), HIDDEN);
    let neurons: Vec<f32> =
        (0..FFN).map(|i| if share_of(i, 5) < zeros { 0.0 } else { (i % 7) as f32 + 1.0 }).collect();
    let mid = quantized(kernel, pool, &neurons, FFN);
    let (mut gate, mut y) = (vec![0.0; FFN], vec![0.0; HIDDEN]);
    let (mut non_zeros, mut total) = (NonZeros::with_capacity(FFN), vec![0.0; HIDDEN]);
    let mut scratch = ProductScratch::new(pool.threads());
    let dense_up = time(|| {
        for layer in layers {
            let matrices = (&layer.gate, &layer.up);
            let out = (&mut gate[..], &mut scratch);
            multiply_gated(kernel, pool, matrices, black_box(&x), out, |gate, up| {
                kernel.relu2_mul(gate, up);
            });
        }
    });
    let sparse_up = time(|| {
        for layer in layers {
            let x: &QuantRow = black_box(&x.rows()[0]);
            relu2_neurons(kernel, pool, (&layer.gate, &layer.up_rows), x, &mut gate);
        }
    });
    let dense_down = time(|| {
        for layer in layers {
            multiply_add(kernel, pool, &layer.down, black_box(&mid), (&mut total, &mut scratch));
        }
    });
    let sparse_down = time(|| {
        for layer in layers {
            non_zeros.find(kernel, black_box(&mid.rows()[0]));
            let w = &layer.down_columns;
            multiply_add_columns(kernel, pool, w, &non_zeros, &mut y, &mut total);
        }
    });
    [dense_up, sparse_up, dense_down, sparse_down]
}

fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn quantized(kernel: &dyn Kernel, pool: &Pool, x: &[f32], cols: usize) -> QuantBatch {
    let mut batch = QuantBatch::new(x.len() / cols, cols);
    batch.quantize(kernel, pool, x, cols);
    batch
}

/// Only positive numbers, so that the sign of a row of trits is the sign of its gate.
fn hidden() -> Vec<f32> {
    (0..HIDDEN).map(|i| (i * 37 % 101) as f32 / 50.0 + 0.1).collect()
}

/// A number from 0 to 1 that looks like chance.
fn share_of(i: usize, seed: usize) -> f64 {
    let bits = (i * 16 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (bits ^ bits >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9) as f64 / usize::MAX as f64
}

fn layer(pool: &Pool, seed: usize, closed: f64) -> Layer {
    let trit = |row: usize, i: usize| ((seed + row * 31 + i * 7) % 3) as i8 - 1;
    let gate =
        matrix(pool, FFN, HIDDEN, |row, _| if share_of(row, seed) < closed { -1 } else { 1 });
    let up = matrix(pool, FFN, HIDDEN, trit);
    let down = matrix(pool, HIDDEN, FFN, trit);
    let up_rows = TernaryRows::new(pool, &up).expect("one scale");
    let down_columns = TernaryColumns::new(pool, &down).expect("one scale");
    Layer { gate, up, down, up_rows, down_columns }
}

fn matrix(
    pool: &Pool,
    rows: usize,
    cols: usize,
    trit: impl Fn(usize, usize) -> i8 + Sync,
) -> TernaryMatrix {
    let mut w = TernaryMatrix::new(rows, cols, Scales::Tensor(0.5));
    let read = |rows: std::ops::Range<usize>, out: &mut [i8]| {
        for (row, out) in rows.zip(out.chunks_exact_mut(cols)) {
            out.iter_mut().enumerate().for_each(|(i, out)| *out = trit(row, i));
        }
        Ok::<(), ()>(())
    };
    w.fill(pool, read).expect("reading cannot fail");
    w
}
