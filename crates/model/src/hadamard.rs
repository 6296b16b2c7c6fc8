//! The Walsh–Hadamard transform of the inputs of ternary products, for networks whose weights are under it.

use std::sync::Arc;

use wf_core::{Hadamard, Network};

use crate::compute::Compute;

/// The transform with its signs as floats.
pub(crate) struct Rotation {
    block_len: usize,
    /// Root of a block, inverted: a power of two if that of the block is even.
    scale: f32,
    /// Signs for each length of a row.
    signs: Vec<Vec<f32>>,
    ones: Vec<f32>,
}

impl Rotation {
    /// Returns the transform of a network, if it has one.
    pub(crate) fn of(network: &Network) -> Option<Arc<Self>> {
        let Hadamard { block_len, signs, .. } = network.hadamard.as_ref()?;
        let floats = |signs: &Vec<i8>| signs.iter().map(|&sign| f32::from(sign)).collect();
        Some(Arc::new(Self {
            block_len: *block_len,
            scale: (1.0 / (*block_len as f64).sqrt()) as f32,
            signs: signs.iter().map(floats).collect(),
            ones: vec![1.0; *block_len],
        }))
    }

    /// Returns the signs of a block of rows of `len` elements.
    fn signs(&self, len: usize, block: usize) -> &[f32] {
        let first = block * self.block_len % len;
        let signs = self.signs.iter().find(|signs| signs.len() == len);
        signs.map_or(&self.ones, |signs| &signs[first..first + self.block_len])
    }

    /// Sets `out` to the transformed rows of `x`, of `len` elements each.
    pub(crate) fn apply(&self, cx: &Compute, x: &[f32], len: usize, out: &mut [f32]) {
        cx.pool.rows(out, self.block_len, |block, out| {
            let x = &x[block * self.block_len..][..self.block_len];
            cx.kernel.hadamard(x, self.signs(len, block), self.scale, out);
        });
    }

    /// Sets `out` to the row that was transformed into `x`.
    pub(crate) fn invert(&self, cx: &Compute, x: &[f32], out: &mut [f32]) {
        let len = x.len();
        let blocks = x.chunks_exact(self.block_len).zip(out.chunks_exact_mut(self.block_len));
        for (block, (x, out)) in blocks.enumerate() {
            cx.kernel.hadamard(x, &self.ones, self.scale, out);
            let signs = self.signs(len, block);
            out.iter_mut().zip(signs).for_each(|(out, sign)| *out *= sign);
        }
    }
}
