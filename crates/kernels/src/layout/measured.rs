//! Measurement of the layout that decodes faster on this machine.
//!
//! Fewer bytes are faster if memory is slower than arithmetic, which depends on the CPU, the memory and
//! the number of threads. It is therefore measured, with the kernel and the pool that will do the work.
//!
//! A single tall matrix is not representative: a forward pass consists of many products, some of them
//! small, and all threads wait for each. So whole layers are timed one after the other, alternating
//! between the layouts. On a shared machine the speed of memory changes from moment to moment, so only
//! neighbouring measurements are compared, and the median of their ratios decides.

use std::time::Instant;

use super::Layout;
use crate::{Kernel, Pool, QuantBatch, Scales, TernaryMatrix, multiply};

/// Rows and columns of the products of a BitNet 2B layer: query, key and value; output; gate and up;
/// down.
const SHAPES: [(usize, usize); 4] = [(3840, 2560), (2560, 2560), (13_824, 2560), (2560, 6912)];

/// Number of layers of 17 MB each in quad lines, several times the size of caches. It is odd, so that
/// every layer is read in both layouts.
const LAYERS: usize = 9;

/// Measurements of each layout. A first one is discarded.
const TURNS: usize = 31;

/// Minimum speedup of five trits per byte. With less, quad lines are better for prompts.
const MIN_SPEEDUP: f64 = 1.05;

impl Layout {
    /// Returns the layout in which `kernel` and `pool` decode faster on this machine. Takes about 50 ms
    /// and 160 MB; returns at once if `kernel` reads quad lines only.
    pub fn fastest(kernel: &dyn Kernel, pool: &Pool) -> Self {
        let layouts = [Self::QuadLines, Self::FiveTrits];
        if !layouts.into_iter().all(|layout| kernel.reads_layout(layout)) {
            return Self::QuadLines;
        }
        let mut layers: Vec<_> = (0..LAYERS).map(|_| TrialLayer::new(kernel, pool)).collect();
        let mut turns = (0..LAYERS).cycle();
        let mut seconds = |layout| {
            let layer = &mut layers[turns.next().unwrap_or(0)];
            layer.seconds(kernel, pool, layout)
        };
        let mut ratios = (0..=TURNS).map(|_| {
            let [quad_lines, five_trits] = layouts.map(&mut seconds);
            quad_lines / five_trits
        });
        ratios.next();
        let mut ratios: Vec<f64> = ratios.collect();
        let (_, median, _) = ratios.select_nth_unstable_by(TURNS / 2, f64::total_cmp);
        if *median >= MIN_SPEEDUP { Self::FiveTrits } else { Self::QuadLines }
    }
}

/// The matrices of a layer, their inputs and outputs.
struct TrialLayer(Vec<(TernaryMatrix, QuantBatch, Vec<f32>)>);

impl TrialLayer {
    fn new(kernel: &dyn Kernel, pool: &Pool) -> Self {
        let product = |(rows, cols)| {
            let mut xs = QuantBatch::new(1, cols);
            xs.quantize(kernel, pool, &vec![1.0; cols], cols);
            (TernaryMatrix::zeros(pool, rows, cols, Scales::Tensor(1.0)), xs, vec![0.0; rows])
        };
        Self(SHAPES.map(product).into())
    }

    /// Returns the duration of the products in `layout`. Both layouts use the same memory, so that
    /// neither has better pages.
    fn seconds(&mut self, kernel: &dyn Kernel, pool: &Pool, layout: Layout) -> f64 {
        for (w, ..) in &mut self.0 {
            w.take_for(layout);
        }
        let start = Instant::now();
        for (w, xs, y) in &mut self.0 {
            multiply(kernel, pool, w, xs, y);
        }
        start.elapsed().as_secs_f64()
    }
}
