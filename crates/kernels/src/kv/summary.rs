//! Summaries of pages: the smallest and largest key of each page, by K/V head and dimension.
//!
//! A summary bounds the product of a query and any key of its page: `Σ max(q·smallest, q·largest)`. It is
//! computed from the keys as they are stored, so it holds for every type, and does not depend on how the
//! keys came into the page.

use wf_core::KvDtype;

use super::{KvHead, KvShape, KvStore, PAGE_LEN, TILE};
use crate::Pool;
use crate::arch::numbers;
use crate::fp8::{e4m3_to_f32, e5m2_to_f32};
use crate::half::{bf16_to_f32, f16_to_f32};
use crate::int8::{BIAS, INT8_LINE_COLS};

/// Margin of a bound, relative to the magnitudes of the products that it sums up: sums of fewer than 2⁸
/// products in single precision, of a score as well as of a bound, are off by less than half of it each.
const MARGIN: f32 = 1.0 / 32_768.0;

/// Pages from which on summarizing them takes longer than waking threads.
const MIN_PARALLEL_PAGES: usize = 2;

impl KvShape {
    /// Returns the size of the summaries of all pages in bytes.
    pub fn summaries_bytes(&self) -> usize {
        self.layers * self.pages * self.heads * summary_len(self.head_dim) * size_of::<f32>()
    }
}

/// Returns the number of floats in the summary of one head of a page: the smallest elements, padded to a
/// multiple of sixteen, then the largest.
pub(super) fn summary_len(head_dim: usize) -> usize {
    2 * head_dim.next_multiple_of(TILE)
}

impl KvStore {
    /// Adds room for the summaries of all pages. It takes memory only when written.
    #[must_use]
    pub fn with_summaries(mut self) -> Self {
        let KvShape { layers, pages, heads, head_dim } = self.shape;
        self.summaries = vec![0.0; layers * pages * heads * summary_len(head_dim)];
        self
    }

    /// Returns `true` if pages have summaries.
    pub fn has_summaries(&self) -> bool {
        !self.summaries.is_empty()
    }

    /// Summarizes pages of a layer, all of whose positions have been written.
    ///
    /// # Panics
    ///
    /// Panics if there are no summaries, or no such layer or page.
    pub fn summarize(&mut self, pool: &Pool, layer: usize, pages: &[u32]) {
        if pages.len() < MIN_PARALLEL_PAGES {
            return pages.iter().for_each(|&page| self.summarize_page(layer, page));
        }
        let (shape, len) = (self.shape, summary_len(self.shape.head_dim));
        let page_len = shape.heads * len;
        let mut summaries = std::mem::take(&mut self.summaries);
        let of_layer = &mut summaries[layer * shape.pages * page_len..][..shape.pages * page_len];
        pool.strips(of_layer, page_len, len, |head, mut strip| {
            for &page in pages {
                self.summarize_head(layer, head, page, strip.row(page as usize));
            }
        });
        self.summaries = summaries;
    }

    /// Summarizes a page of a layer on this thread.
    pub(super) fn summarize_page(&mut self, layer: usize, page: u32) {
        let (shape, len) = (self.shape, summary_len(self.shape.head_dim));
        let mut summaries = std::mem::take(&mut self.summaries);
        let first = (layer * shape.pages + page as usize) * shape.heads * len;
        let heads = summaries[first..][..shape.heads * len].chunks_exact_mut(len).enumerate();
        heads.for_each(|(head, out)| self.summarize_head(layer, head, page, out));
        self.summaries = summaries;
    }

    fn summarize_head(&self, layer: usize, head: usize, page: u32, out: &mut [f32]) {
        let (smallest, largest) = out.split_at_mut(out.len() / 2);
        self.head(layer, head, &[page]).bound_keys(smallest, largest);
    }
}

impl<'a> KvHead<'a> {
    /// Returns the smallest and the largest elements of the keys of page `i` of the sequence.
    #[inline(always)]
    pub(crate) fn summary(&self, i: usize) -> (&'a [f32], &'a [f32]) {
        let len = summary_len(self.head_dim);
        self.summaries[self.at(i) * len..][..len].split_at(len / 2)
    }

    /// Computes the smallest and the largest elements of the keys of the first page, wider by [`MARGIN`].
    /// An element that is not finite has no bounds.
    fn bound_keys(&self, smallest: &mut [f32], largest: &mut [f32]) {
        for d in 0..self.head_dim {
            let (mut low, mut high, mut all_finite) = (f32::INFINITY, f32::NEG_INFINITY, true);
            for slot in 0..PAGE_LEN {
                let key = self.key_element(slot, d);
                low = if key < low { key } else { low };
                high = if key > high { key } else { high };
                all_finite &= key.is_finite();
            }
            let margin = low.abs().max(high.abs()) * MARGIN;
            let unbounded = (f32::NEG_INFINITY, f32::INFINITY);
            (smallest[d], largest[d]) =
                if all_finite { (low - margin, high + margin) } else { unbounded };
        }
    }

    /// Returns element `d` of the key in `slot` of the first page, as attention reads it.
    #[inline(always)]
    fn key_element(&self, slot: usize, d: usize) -> f32 {
        let (tile, lane) = (slot / TILE, slot % TILE);
        let at = (tile * self.layout.key_len + d) * TILE + lane;
        let keys = self.keys(0);
        match self.dtype {
            KvDtype::F32 => numbers::<f32>(keys)[at],
            KvDtype::F16 => f16_to_f32(numbers::<u16>(keys)[at]),
            KvDtype::Bf16 => {
                let pair = (tile * self.layout.key_len / 2 + d / 2) * TILE + lane;
                bf16_to_f32(numbers::<u16>(keys)[2 * pair + d % 2])
            }
            // The scale holds the factor of loaded lanes, which loading a single code does not have.
            KvDtype::Fp8E4m3 => {
                let code = e4m3_to_f32(numbers::<u8>(keys)[at]);
                code / crate::lanes::E4M3_LOADED * self.key_scales(0)[slot]
            }
            KvDtype::Fp8E5m2 => e5m2_to_f32(numbers::<u8>(keys)[at]) * self.key_scales(0)[slot],
            KvDtype::Int8 => {
                let line = &keys[tile * self.layout.key_len / INT8_LINE_COLS + d / INT8_LINE_COLS];
                let code = line.0[lane * INT8_LINE_COLS + d % INT8_LINE_COLS] ^ BIAS;
                f32::from(code.cast_signed()) * self.key_scales(0)[slot]
            }
        }
    }
}
