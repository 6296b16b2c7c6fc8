//! Keys and values of one sequence, in pages that lie anywhere.

use wf_kernels::{
    AttendScratch, Kernel, KvDtype, KvHead, KvShape, KvSlot, KvStore, PAGE_LEN, Queries, Strip,
    attend, attend_parts, part_len,
};

use super::{Floats, Random};

pub(crate) struct Pages {
    pub(crate) store: KvStore,
    /// In the order of positions.
    pub(crate) pages: Vec<u32>,
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
}

impl Pages {
    /// Random keys and values of `positions` positions, the second of two heads of the second of two
    /// layers, written by `kernel`.
    pub(crate) fn random(
        random: &mut Random,
        dtype: KvDtype,
        head_dim: usize,
        positions: usize,
        (kind, kernel): (Floats, &dyn Kernel),
    ) -> Self {
        let keys = random.floats(positions * head_dim, kind);
        let values = random.floats(positions * head_dim, kind);
        Self::new(dtype, head_dim, (keys, values), random.below(100), kernel)
    }

    /// `shift` decides where the pages lie.
    pub(crate) fn new(
        dtype: KvDtype,
        head_dim: usize,
        (keys, values): (Vec<f32>, Vec<f32>),
        shift: usize,
        kernel: &dyn Kernel,
    ) -> Self {
        let positions = keys.len() / head_dim;
        let len = positions.div_ceil(PAGE_LEN);
        // Every page once, and few in their places.
        let pages = (0..len).map(|i| ((len - 1 - i + shift) % len) as u32).collect();
        let shape = KvShape { layers: 2, pages: len, heads: 2, head_dim };
        let mut all = Self { store: KvStore::new(dtype, shape), pages, keys, values };
        for position in 0..positions {
            let row = position * head_dim..(position + 1) * head_dim;
            let (key, value) = (all.keys[row.clone()].to_vec(), all.values[row].to_vec());
            all.write(kernel, position, &key, &value);
        }
        all
    }

    /// Writes a position, with something else for the other head.
    pub(crate) fn write(
        &mut self,
        kernel: &dyn Kernel,
        position: usize,
        key: &[f32],
        value: &[f32],
    ) {
        let slot = KvSlot::new(1, &self.pages, position);
        let other = vec![f32::NAN; key.len()];
        let (keys, values) = ([&other, key].concat(), [&other, value].concat());
        self.store.write(kernel, slot, &keys, &values);
    }

    pub(crate) fn head(&self) -> KvHead<'_> {
        self.store.head(1, 1, &self.pages)
    }

    /// The parts of one chunk.
    pub(crate) fn parts(&self, kernel: &dyn Kernel, q: &Queries<'_>, chunk: usize) -> Vec<f32> {
        let kv = self.head();
        let len = q.visible.len() * q.heads;
        let mut scratch = AttendScratch::new(len, kv.head_dim());
        let mut parts = vec![f32::NAN; len * part_len(kv.head_dim())];
        scratch.prepare(kernel, q, &kv);
        attend_parts(kernel, q, &kv, chunk, &mut scratch, &mut parts);
        parts
    }

    /// The whole, row after row.
    pub(crate) fn attend(&self, kernel: &dyn Kernel, q: &Queries<'_>) -> Vec<f32> {
        let kv = self.head();
        let width = q.heads * kv.head_dim();
        let mut out = vec![f32::NAN; q.visible.len() * width];
        let mut scratch = AttendScratch::new(q.visible.len() * q.heads, kv.head_dim());
        let mut strip = Strip::new(&mut out, width, width, 0);
        attend(kernel, q, &kv, &mut scratch, &mut strip, 0);
        out
    }
}

/// Rows of query heads, one after the other.
pub(crate) fn queries<'a>(data: &'a [f32], heads: usize, visible: &'a [usize]) -> Queries<'a> {
    Queries {
        data,
        stride: data.len() / visible.len(),
        heads,
        visible,
        window: None,
        sinks: 0,
        scale: 0.31,
    }
}
