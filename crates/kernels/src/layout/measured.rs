//! Which layout this machine reads faster.
//!
//! Fewer bytes pay where memory is slower than arithmetic, which depends on the CPU, on the memory
//! behind it and on how many threads share it: so it is measured, with the kernel and the pool that
//! will do the work.

use std::time::Instant;

use super::Layout;
use crate::{Kernel, Pool, QuantBatch, Scales, TernaryMatrix, multiply};

/// The shape of what is read, in quad lines: 62.5 MiB, more than what most caches hold for us.
const ROWS: usize = 102_400;
const COLS: usize = 2560;

/// How often each layout is read.
const ROUNDS: usize = 7;

impl Layout {
    /// The layout in which `kernel` and `pool` multiply one token by a large matrix faster, here and
    /// now. Takes some 50 ms and 64 MiB, or nothing where `kernel` has code for quad lines only.
    pub fn measured(kernel: &dyn Kernel, pool: &Pool) -> Self {
        let layouts = [Self::QuadLines, Self::FiveTrits];
        if !layouts.into_iter().all(|layout| kernel.is_made_for(layout)) {
            return Self::QuadLines;
        }
        let mut xs = QuantBatch::new(1, COLS);
        xs.quantize(kernel, pool, &[1.0; COLS], COLS);
        let mut y = Vec::new();
        // The same memory for both, so that neither has the better pages.
        let mut w = TernaryMatrix::new(ROWS, COLS, Scales::Tensor(1.0));
        // Whatever disturbs a measurement makes it longer.
        let mut shortest = [f64::INFINITY; 2];
        for _ in 0..ROUNDS {
            for (layout, shortest) in layouts.into_iter().zip(&mut shortest) {
                w = w.taken_for(layout);
                y.resize(w.rows(), 0.0);
                let start = Instant::now();
                multiply(kernel, pool, &w, &xs, &mut y);
                *shortest = shortest.min(start.elapsed().as_secs_f64() / w.rows() as f64);
            }
        }
        if shortest[1] < shortest[0] { Self::FiveTrits } else { Self::QuadLines }
    }
}
