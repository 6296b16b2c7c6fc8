//! Keys and values of all rows of a step, written by several threads.

use std::ops::Range;

use super::{CodeBuffer, HeadPage, KvShape, KvSlot, KvStore, PAGE_LEN};
use crate::line::Line;
use crate::{Kernel, Pool};

/// Rows from which on writing them takes longer than waking threads.
const MIN_PARALLEL_ROWS: usize = 4;

/// Rows of keys and values to be written at once, those of all heads one after another.
pub struct KvRows<'a, F> {
    /// Keys.
    pub keys: &'a [f32],
    /// Values.
    pub values: &'a [f32],
    /// Returns the slot of a row.
    pub slot: F,
}

/// A page, and rows that follow each other and belong to it.
pub(super) type Run = (usize, Range<usize>);

impl KvStore {
    /// Writes rows of keys and values to a layer, on the threads of `pool`. Rows of the same slot are written in
    /// order. Does not allocate if as many threads wrote before.
    ///
    /// # Panics
    ///
    /// Panics if a slot does not exist or belongs to another layer, if the rows do not have all heads,
    /// or if there are not as many keys as values.
    pub fn write_rows(
        &mut self,
        kernel: &dyn Kernel,
        pool: &Pool,
        layer: usize,
        KvRows { keys, values, slot }: KvRows<'_, impl Fn(usize) -> KvSlot + Sync>,
    ) {
        let KvShape { layers, pages, heads, head_dim } = self.shape;
        let row_len = heads * head_dim;
        assert!(keys.len() == values.len() && keys.len().is_multiple_of(row_len), "all heads");
        assert!(layer < layers, "layer {layer} of {layers}");
        let rows = keys.len() / row_len;
        self.find_runs(rows, |row| {
            let at = slot(row);
            let exists = at.layer == layer && (at.page as usize) < pages && at.slot < PAGE_LEN;
            assert!(exists, "a slot of a page of the layer");
            at.page as usize
        });
        if self.codes.len() < pool.threads() {
            self.codes.resize(pool.threads(), self.codes[0].clone());
        }
        let Self { dtype, layout, runs, codes, .. } = self;
        let (dtype, layout) = (*dtype, *layout);
        let head_scales = if dtype.is_scaled() { 2 * PAGE_LEN } else { 0 };
        let (lines_len, scales_len) =
            (pages * heads * layout.head_lines, pages * heads * head_scales);
        let lines = &mut self.lines[layer * lines_len..][..lines_len];
        let scales = &mut self.scales[layer * scales_len..][..scales_len];
        let write = |run: &Range<usize>,
                     head,
                     lines: &mut [Line],
                     scales: &mut [f32],
                     codes: &mut CodeBuffer| {
            for row in run.clone() {
                let of_head = row * row_len + head * head_dim..;
                let [key, value] = [keys, values].map(|rows| &rows[of_head.clone()][..head_dim]);
                let (keys, values) = lines.split_at_mut(layout.key_lines);
                let scales = &mut *scales;
                let page = HeadPage { layout, keys, values, scales, slot: slot(row).slot };
                page.put(kernel, dtype, key, value, codes);
            }
        };
        if rows >= MIN_PARALLEL_ROWS && runs.is_sorted_by(|(a, _), (b, _)| a < b) {
            let (lines, scales) = ((lines, layout.head_lines), (scales, head_scales));
            return pool.cells_with(runs, heads, lines, scales, codes, |run, head, cell, codes| {
                write(run, head, cell.0, cell.1, codes);
            });
        }
        for ((page, run), head) in
            runs.iter().flat_map(|run| (0..heads).map(move |head| (run, head)))
        {
            let at = page * heads + head;
            let lines = &mut lines[at * layout.head_lines..][..layout.head_lines];
            let scales = &mut scales[at * head_scales..][..head_scales];
            write(run, head, lines, scales, &mut codes[0]);
        }
    }

    /// Divides rows into runs, by page and, of one page, in their order.
    fn find_runs(&mut self, rows: usize, page: impl Fn(usize) -> usize) {
        self.runs.clear();
        for row in 0..rows {
            let page = page(row);
            match self.runs.last_mut() {
                Some((last, run)) if *last == page => run.end = row + 1,
                _ => self.runs.push((page, row..row + 1)),
            }
        }
        self.runs.sort_unstable_by_key(|(page, run)| (*page, run.start));
    }
}

#[cfg(test)]
mod tests {
    use wf_core::KvDtype;

    use super::*;

    /// Writes a row for each slot, all at once and one by one, and compares the pages.
    fn check(dtype: KvDtype, slots: &[(u32, usize)]) {
        let (layers, layer, pages) = (2, 1, 6);
        let shape = KvShape { layers, pages, heads: 3, head_dim: 40 };
        let floats = |seed: usize| -> Vec<f32> {
            let number = |i: usize| ((i * 37 + seed) % 101) as f32 / 7.0 - 6.0;
            (0..slots.len() * 120).map(number).collect()
        };
        let (keys, values, kernel) = (floats(1), floats(5), crate::best());
        let slot = |row: usize| KvSlot { layer, page: slots[row].0, slot: slots[row].1 };
        let (mut at_once, mut one_by_one) =
            (KvStore::new(dtype, shape), KvStore::new(dtype, shape));
        let rows = KvRows { keys: &keys, values: &values, slot };
        at_once.write_rows(kernel, &Pool::new(3), layer, rows);
        for (row, (keys, values)) in keys.chunks(120).zip(values.chunks(120)).enumerate() {
            one_by_one.write(kernel, slot(row), keys, values);
        }
        for page in 0..pages as u32 {
            let [found, expected] = [&at_once, &one_by_one].map(|store| {
                let mut bytes = Vec::new();
                store.read_page(page, &mut bytes);
                bytes
            });
            assert!(found == expected, "{dtype}, page {page}, slots {slots:?}");
        }
    }

    #[test]
    fn rows_are_written_as_one_by_one() {
        for dtype in KvDtype::ALL {
            // A prompt over three pages that are not in order, and a few sequences of one row each.
            let prompt = (20..90).map(|at| ([4, 1, 3][at / PAGE_LEN], at % PAGE_LEN));
            let slots: Vec<_> = prompt.chain([(5, 31), (0, 0), (2, 7)]).collect();
            check(dtype, &slots);
            check(dtype, &slots[..3]);
            check(dtype, &[]);
        }
    }

    #[test]
    fn the_last_row_of_a_slot_stays() {
        for dtype in KvDtype::ALL {
            check(dtype, &[(1, 4), (2, 4), (1, 4), (1, 5), (2, 4), (0, 9)]);
        }
    }
}
