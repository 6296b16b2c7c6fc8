//! Trials of a kernel before it is used: it must return the same bits, in less time.
//!
//! A virtual machine can announce instructions that its host does not have or executes slowly.

use std::time::{Duration, Instant};

use crate::{
    AttendScratch, Kernel, KvDtype, KvShape, KvSlot, KvStore, PAGE_LEN, Pool, QuantBatch, Queries,
    Scales, TernaryMatrix, attend_parts, multiply, part_len,
};

/// Returns `true` if `candidate` multiplies with the same bits as `reference`.
pub(crate) fn same_bits(candidate: &dyn Kernel, reference: &dyn Kernel) -> bool {
    let (rows, cols) = (40, 1100_usize);
    let groups = |len: usize| Scales::Groups { len, values: vec![0.7; rows * cols.div_ceil(len)] };
    [Scales::Tensor(0.3), groups(128)].into_iter().all(|scales| {
        let subject = Subject::new(rows, cols, scales);
        [9, 45].into_iter().all(|tokens| {
            let bits = |kernel| {
                let mut y = vec![0.0; tokens * rows];
                subject.multiply(&subject.quantized(kernel, tokens), kernel, &mut y);
                y.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            bits(candidate) == bits(reference)
        })
    })
}

/// Returns `true` if `candidate` attends over bf16 keys and values with the same bits as `reference`.
pub(crate) fn same_attention(candidate: &dyn Kernel, reference: &dyn Kernel) -> bool {
    let (head_dim, heads, visible) = (80, 5, [69, 70, 71, 72_usize]);
    let pages: Vec<u32> = (0..visible[3].div_ceil(PAGE_LEN) as u32).collect();
    let shape = KvShape { layers: 1, pages: pages.len(), heads: 1, head_dim };
    let mut store = KvStore::new(KvDtype::Bf16, shape);
    for position in 0..visible[3] {
        let row = |salt: usize| floats((2 * position + salt) * head_dim, head_dim);
        store.write(reference, KvSlot::new(0, &pages, position), &row(0), &row(1));
    }
    let (kv, stride) = (store.head(0, 0, &pages), heads * head_dim);
    let data = floats(12_345, visible.len() * stride);
    let q = Queries {
        data: &data,
        stride,
        heads,
        visible: &visible,
        window: None,
        sinks: 0,
        scale: 0.3,
    };
    let bits = |kernel| {
        let queries = visible.len() * heads;
        let mut scratch = AttendScratch::new(queries, head_dim);
        let mut parts = vec![0.0; queries * part_len(head_dim)];
        scratch.prepare(kernel, &q, &kv);
        attend_parts(kernel, &q, &kv, 0, &mut scratch, &mut parts);
        parts.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    bits(candidate) == bits(reference)
}

/// Returns `true` if `candidate` is faster than `reference` on a product of some tokens. Takes
/// milliseconds.
pub(crate) fn is_faster(candidate: &dyn Kernel, reference: &dyn Kernel) -> bool {
    const ROUNDS: usize = 50;
    let (rows, cols, tokens) = (64, 2048, 32);
    let subject = Subject::new(rows, cols, Scales::Tensor(0.3));
    let codes = [candidate, reference].map(|kernel| (kernel, subject.quantized(kernel, tokens)));
    let mut y = vec![0.0; tokens * rows];
    let mut best = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        // Alternating, so that other load on the machine slows both.
        for ((kernel, codes), best) in codes.iter().zip(&mut best) {
            let start = Instant::now();
            subject.multiply(codes, *kernel, &mut y);
            *best = start.elapsed().min(*best);
        }
    }
    best[0] < best[1]
}

/// A matrix to multiply on this thread.
struct Subject {
    pool: Pool,
    w: TernaryMatrix,
}

impl Subject {
    fn new(rows: usize, cols: usize, scales: Scales) -> Self {
        let pool = Pool::new(1);
        let mut w = TernaryMatrix::new(rows, cols, scales);
        let filled = w.fill(&pool, |range, trits| {
            for (i, trit) in trits.iter_mut().enumerate() {
                *trit = (mixed(range.start * cols + i) % 3) as i8 - 1;
            }
            Ok::<(), std::convert::Infallible>(())
        });
        match filled {
            Ok(()) => Self { pool, w },
        }
    }

    /// Returns activations for some tokens, small and large ones of both signs.
    fn quantized(&self, kernel: &dyn Kernel, tokens: usize) -> QuantBatch {
        let cols = self.w.cols();
        let x: Vec<f32> = (0..tokens * cols).map(|i| mixed(i) as i16 as f32).collect();
        let mut codes = QuantBatch::new(tokens, cols);
        codes.quantize(kernel, &self.pool, &x, cols);
        codes
    }

    fn multiply(&self, codes: &QuantBatch, kernel: &dyn Kernel, y: &mut [f32]) {
        multiply(kernel, &self.pool, &self.w, codes, y);
    }
}

/// Returns numbers from -1 to 1 that look random.
fn floats(first: usize, len: usize) -> Vec<f32> {
    (first..first + len).map(|i| f32::from(mixed(i) as i16) / 32768.0).collect()
}

/// Returns a number that looks random.
fn mixed(i: usize) -> u32 {
    (i as u32 ^ 0x5bd1).wrapping_mul(0x9e37_79b9).rotate_left(15).wrapping_mul(0x85eb_ca6b) >> 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn kernels_that_agree_pass() {
        for kernel in crate::supported() {
            assert!(same_bits(kernel, &crate::arch::Scalar), "{}", kernel.isa());
            assert!(same_attention(kernel, &crate::arch::Scalar), "{}", kernel.isa());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "has no use there")]
    fn a_slower_kernel_is_not_faster() {
        let fast = crate::supported().find(|kernel| kernel.isa() >= crate::Isa::Avx2);
        if let Some(fast) = fast {
            assert!(is_faster(fast, &crate::arch::Scalar));
            assert!(!is_faster(&crate::arch::Scalar, fast));
        }
    }
}
