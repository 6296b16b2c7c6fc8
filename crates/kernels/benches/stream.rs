//! Share of memory bandwidth that one token reaches: weights larger than the caches, read once a round.
//!
//! `cargo bench -p wf-kernels --bench stream`. Beside each kernel stands a plain loop that only adds
//! the words of as many bytes; both run in each round, so that a busy machine slows both. Printed
//! are the medians of all rounds.

#![expect(clippy::print_stdout, reason = "what a benchmark finds, it prints")]

use std::hint::black_box;
use std::time::Instant;

use wf_kernels::{
    FloatRows, Int8Matrix, Layout, Pool, QuantBatch, Scales, TernaryMatrix, best, int8_products,
    multiply, prefer_huge_pages,
};

/// The shapes of BitNet 2B.
const COLS: usize = 2560;
const WIDE: usize = 6912;

/// A whole pass over some weights.
struct Pass<'a> {
    name: &'static str,
    bytes_len: usize,
    run: Box<dyn FnMut(&Pool) + 'a>,
}

fn main() {
    // `cargo bench -- --test` wants to see that it runs, not how fast.
    let quick = std::env::args().any(|arg| arg == "--test");
    let (matrices, vocabulary, rounds) = if quick { (2, 1000, 1) } else { (128, 128_256, 9) };

    let maker = Pool::new(2);
    let [ternary, five_trits] = [Layout::QuadLines, Layout::FiveTrits]
        .map(|layout| (0..matrices).map(|i| ternary_matrix(&maker, layout, i)).collect::<Vec<_>>());
    let int8 = int8_matrix(&maker, vocabulary);
    let bits = in_huge_pages(0x3f80_u16, vocabulary * COLS);
    let bytes_len: usize = ternary.iter().map(TernaryMatrix::bytes_len).sum();
    let words = in_huge_pages(0x0101_0101_0101_0101_u64, bytes_len / 8);

    for threads in [1, 2] {
        let pool = Pool::new(threads);
        let mut passes = passes(&pool, [&ternary, &five_trits], &int8, &bits);
        let mut seconds = vec![Vec::new(); passes.len()];
        let mut plain = Vec::new();
        for _ in 0..rounds {
            plain.push(time(|| read_words(&pool, &words)));
            for (pass, seconds) in passes.iter_mut().zip(&mut seconds) {
                seconds.push(time(|| (pass.run)(&pool)));
            }
        }
        let plain_speed = speed(8 * words.len(), &mut plain);
        println!("{threads} threads, plain reading: {plain_speed:5.1} GB/s");
        for (pass, seconds) in passes.iter().zip(&mut seconds) {
            let speed = speed(pass.bytes_len, seconds);
            let share = 100.0 * speed / plain_speed;
            println!("  {:24} {speed:5.1} GB/s, {share:3.0} %", pass.name);
        }
        println!("  layout measured as the faster: {:?}", Layout::fastest(best(), &pool));
    }
}

fn passes<'a>(
    pool: &Pool,
    ternary: [&'a [TernaryMatrix]; 2],
    int8: &'a Int8Matrix,
    bits: &'a [u16],
) -> Vec<Pass<'a>> {
    let kernel = best();
    let quantized = |cols| {
        let mut xs = QuantBatch::new(1, cols);
        xs.quantize(kernel, pool, &floats(cols), cols);
        xs
    };
    let (wide, narrow, x) = (quantized(WIDE), quantized(COLS), floats(COLS));
    let mut dots = vec![0; int8.rows()];
    let mut scores = vec![0.0; bits.len() / COLS];
    let mut scores_f16 = scores.clone();
    let x_f16 = x.clone();
    let multiply_all = |name, matrices: &'a [TernaryMatrix]| {
        let (wide, mut y) = (wide.clone(), vec![0.0; COLS]);
        Pass {
            name,
            bytes_len: matrices.iter().map(TernaryMatrix::bytes_len).sum(),
            run: Box::new(move |pool| {
                for w in matrices {
                    multiply(kernel, pool, w, black_box(&wide), &mut y);
                }
            }),
        }
    };
    vec![
        multiply_all("multiply, quad lines", ternary[0]),
        multiply_all("multiply, five trits", ternary[1]),
        Pass {
            name: "int8 products",
            bytes_len: int8.bytes_len(),
            run: Box::new(move |pool| int8_products(kernel, pool, int8, &narrow, &mut dots)),
        },
        Pass {
            name: "dots, bf16",
            bytes_len: 2 * bits.len(),
            run: Box::new(move |pool| table_dots(pool, FloatRows::Bf16, bits, &x, &mut scores)),
        },
        Pass {
            name: "dots, f16",
            bytes_len: 2 * bits.len(),
            run: Box::new(move |pool| {
                table_dots(pool, FloatRows::F16, bits, &x_f16, &mut scores_f16)
            }),
        },
    ]
}

fn table_dots<'a>(
    pool: &Pool,
    stored: fn(&'a [u16]) -> FloatRows<'a>,
    bits: &'a [u16],
    x: &[f32],
    scores: &mut [f32],
) {
    const ROWS_PER_JOB: usize = 64;
    pool.strips(scores, scores.len(), ROWS_PER_JOB, |job, mut y| {
        let rows = &bits[job * ROWS_PER_JOB * COLS..][..y.width() * COLS];
        best().dots(stored(rows), black_box(x), y.row(0));
    });
}

/// The words of a large slice, added up on all threads in pieces of some 64 KiB.
fn read_words(pool: &Pool, words: &[u64]) {
    let pieces: Vec<_> = words.chunks(8192).collect();
    pool.run(pieces.len(), |i| {
        let sum = pieces[i].iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
        black_box(sum);
    });
}

/// As the matrices are, so that the pages are the same for all.
fn in_huge_pages<T: Clone>(value: T, len: usize) -> Vec<T> {
    let mut values = Vec::with_capacity(len);
    prefer_huge_pages(&values);
    values.resize(len, value);
    values
}

fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Of the median, in GB/s.
fn speed(bytes_len: usize, seconds: &mut [f64]) -> f64 {
    seconds.sort_by(f64::total_cmp);
    bytes_len as f64 / seconds[seconds.len() / 2] / 1e9
}

fn ternary_matrix(pool: &Pool, layout: Layout, seed: usize) -> TernaryMatrix {
    let mut w = TernaryMatrix::with_layout(layout, COLS, WIDE, Scales::Tensor(0.5));
    let read = |rows: std::ops::Range<usize>, out: &mut [i8]| {
        for (i, trit) in out.iter_mut().enumerate() {
            *trit = ((seed + rows.start * 31 + i * 7) % 3) as i8 - 1;
        }
        Ok::<(), ()>(())
    };
    w.fill(pool, read).expect("reading cannot fail");
    w
}

fn int8_matrix(pool: &Pool, rows: usize) -> Int8Matrix {
    let read = |rows: std::ops::Range<usize>, out: &mut [i8]| {
        for (i, code) in out.iter_mut().enumerate() {
            *code = ((rows.start * 31 + i * 7) % 255) as i8;
            *code = (*code).max(-127);
        }
        Ok::<(), ()>(())
    };
    Int8Matrix::read(pool, (rows, COLS), read).expect("reading cannot fail")
}

fn floats(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect()
}
