//! Which layout this machine decodes faster with.
//!
//! Fewer bytes pay where memory is slower than arithmetic, which depends on the CPU, on the memory
//! behind it and on how many threads share it: so it is measured, with the kernel and the pool that
//! will do the work.
//!
//! One tall matrix would not tell: a pass is many products, some of them small, each of which all
//! threads wait for. So what is timed are layers, one after the other as in a pass, in one layout and
//! the other by turns. On a machine with neighbours memory is twice as fast in one moment as in the
//! next: only turns that follow each other are compared, and the median of those decides.

use std::time::Instant;

use super::Layout;
use crate::{Kernel, Pool, QuantBatch, Scales, TernaryMatrix, multiply};

/// The products of a layer of BitNet 2B, as rows and columns: query, key and value; output; gate and
/// up; down.
const SHAPES: [(usize, usize); 4] = [(3840, 2560), (2560, 2560), (13_824, 2560), (2560, 6912)];

/// Layers, each of 17 MB in quad lines: together several times what caches hold for us. An odd
/// number, so that every layer is read in both layouts.
const LAYERS: usize = 9;

/// How often each layout has its turn. The first turn of all does not count.
const TURNS: usize = 31;

/// Five trits a byte have to be this much faster: where there is little in it, quad lines are better
/// for prompts, and never much worse.
const WORTH_IT: f64 = 1.05;

impl Layout {
    /// The layout in which `kernel` and `pool` decode faster, here and now. Takes some 50 ms and, for
    /// as long, 160 MB; or nothing where `kernel` has code for quad lines only.
    pub fn measured(kernel: &dyn Kernel, pool: &Pool) -> Self {
        let layouts = [Self::QuadLines, Self::FiveTrits];
        if !layouts.into_iter().all(|layout| kernel.is_made_for(layout)) {
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
        if *median >= WORTH_IT { Self::FiveTrits } else { Self::QuadLines }
    }
}

/// The matrices of a layer, and what they are multiplied by.
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

    /// How long the products take in `layout`, in the memory that quad lines need: neither layout
    /// has the better pages.
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
