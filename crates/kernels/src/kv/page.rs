//! Whole pages as bytes, to keep them elsewhere.

use super::{KvShape, KvStore, PAGE_LEN};
use crate::arch::{numbers, numbers_mut};

/// Version of the bytes of a page. Another layout of keys or values needs another version.
pub const PAGE_VERSION: u32 = 1;

impl KvStore {
    /// Returns the number of bytes of a page of all layers, scales included.
    pub fn page_size_bytes(&self) -> usize {
        KvShape { pages: 1, ..self.shape }.size_bytes(self.dtype)
    }

    /// Appends the keys and values of a page to `out`: for each layer the lines, then the scales.
    pub fn read_page(&self, page: u32, out: &mut Vec<u8>) {
        for layer in 0..self.shape.layers {
            let (lines, scales) = self.of_page(layer, page);
            out.extend_from_slice(numbers(&self.lines[lines]));
            out.extend(self.scales[scales].iter().flat_map(|scale| scale.to_le_bytes()));
        }
    }

    /// Sets a page to bytes that [`read_page`](Self::read_page) returned for a store of the same type and
    /// dimensions, and summarizes it if pages have summaries.
    ///
    /// # Panics
    ///
    /// Panics if there are more or fewer bytes than a page has.
    pub fn write_page(&mut self, page: u32, mut bytes: &[u8]) {
        assert_eq!(bytes.len(), self.page_size_bytes(), "the bytes of a page");
        for layer in 0..self.shape.layers {
            let (lines, scales) = self.of_page(layer, page);
            let lines = numbers_mut::<u8>(&mut self.lines[lines]);
            let (now, later) = bytes.split_at(lines.len());
            lines.copy_from_slice(now);
            let scales = &mut self.scales[scales];
            let (now, later) = later.split_at(size_of_val(scales));
            for (scale, bytes) in scales.iter_mut().zip(now.as_chunks().0) {
                *scale = f32::from_le_bytes(*bytes);
            }
            bytes = later;
        }
        if self.has_summaries() {
            (0..self.shape.layers).for_each(|layer| self.summarize_page(layer, page));
        }
    }

    /// Returns the lines and the scales of a page of a layer.
    fn of_page(&self, layer: usize, page: u32) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let KvShape { layers, pages, heads, .. } = self.shape;
        let page = page as usize;
        assert!(layer < layers && page < pages, "a page of a layer");
        let first = (layer * pages + page) * heads;
        let range = |of_head: usize| first * of_head..(first + heads) * of_head;
        let scales = if self.dtype.is_scaled() { 2 * PAGE_LEN } else { 0 };
        (range(self.layout.head_lines), range(scales))
    }
}

#[cfg(test)]
mod tests {
    use wf_core::KvDtype;

    use super::*;
    use crate::{KvSlot, Pool};

    /// Fills a page with numbers that depend on all of its coordinates.
    fn fill(store: &mut KvStore, page: u32, seed: usize) {
        let KvShape { layers, heads, head_dim, .. } = store.shape();
        for layer in 0..layers {
            for slot in 0..PAGE_LEN {
                let number =
                    |at: usize| ((seed + layer * 31 + slot * 7 + at * 13) % 97) as f32 - 48.0;
                let keys: Vec<f32> = (0..heads * head_dim).map(number).collect();
                let values: Vec<f32> = keys.iter().map(|key| key / 3.0 + 1.0).collect();
                store.write(crate::best(), KvSlot { layer, page, slot }, &keys, &values);
            }
        }
    }

    #[test]
    fn a_page_moves_to_another_store_and_leaves_its_neighbours_alone() {
        for dtype in KvDtype::ALL {
            let shape = |pages| KvShape { layers: 3, pages, heads: 2, head_dim: 40 };
            let (mut from, mut to) = (KvStore::new(dtype, shape(2)), KvStore::new(dtype, shape(4)));
            fill(&mut from, 1, 5);
            (0..4).for_each(|page| fill(&mut to, page, 60 + page as usize));
            let bytes = |store: &KvStore, page| {
                let mut bytes = Vec::new();
                store.read_page(page, &mut bytes);
                bytes
            };
            let neighbours = [0, 1, 3].map(|page| bytes(&to, page));
            let moved = bytes(&from, 1);
            assert_eq!(moved.len(), from.page_size_bytes(), "{dtype}");
            assert_ne!(moved, bytes(&to, 2), "{dtype}");
            to.write_page(2, &moved);
            assert_eq!(moved, bytes(&to, 2), "{dtype}");
            assert_eq!(neighbours, [0, 1, 3].map(|page| bytes(&to, page)), "{dtype}");
        }
    }

    #[test]
    fn a_moved_page_has_the_summary_of_its_keys() {
        for dtype in KvDtype::ALL {
            let shape = KvShape { layers: 2, pages: 2, heads: 2, head_dim: 40 };
            let store = || KvStore::new(dtype, shape).with_summaries();
            let (mut from, mut to, pool) = (store(), store(), Pool::new(1));
            fill(&mut from, 1, 5);
            (0..2).for_each(|layer| from.summarize(&pool, layer, &[1]));
            let mut bytes = Vec::new();
            from.read_page(1, &mut bytes);
            to.write_page(0, &bytes);
            for (layer, head) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let moved = to.head(layer, head, &[0]).summary(0);
                assert!(moved.0.iter().any(|&element| element != 0.0), "{dtype}");
                assert_eq!(moved, from.head(layer, head, &[1]).summary(0), "{dtype}");
            }
        }
    }
}
