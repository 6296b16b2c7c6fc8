//! Storage of keys and values in pages.
//!
//! A page holds [`PAGE_LEN`] positions of every K/V head of one layer, head by head, keys before
//! values:
//!
//! ```text
//! layer 0: page 0: head 0: keys, values   head 1: keys, values   …
//!          page 1: …
//! ```
//!
//! Keys are stored in the order in which scores are computed, sixteen positions side by side, so that
//! no sum crosses a vector: element `d` of sixteen positions, then element `d + 1`. Int8 keys have four
//! elements of each of sixteen positions, for byte dot products (a [`Line`]; see `int8.rs`), and bf16
//! keys two, for products of pairs. Values are stored in rows, one per position; int8 and bf16 values
//! pair two positions, element by element. Rows are padded to sixteen elements, int8 keys to 64 and bf16
//! keys to 32.
//!
//! Eight-bit types have a scale for each position and head, of the key and of the value. It is set when
//! the position is written, from that key or value alone.

mod bf16;
mod page;
mod summary;
mod write;

use wf_core::KvDtype;

use crate::arch::{Plain, ZeroLines, numbers, numbers_mut};
use crate::fp8::{E4M3_MAX, E5M2_MAX, f32_to_e4m3, f32_to_e5m2};
use crate::half::{f32_to_bf16, f32_to_f16};
use crate::int8::{BIAS, INT8_LINE_COLS};
use crate::lanes::E4M3_LOADED;
use crate::line::Line;
use crate::quant::RUN;
use crate::{Kernel, prefer_huge_pages};

pub(crate) use bf16::{BLOCK, bf16_operand};
use bf16::{encode_finite, encode_operands};
pub use page::PAGE_VERSION;
pub use write::KvRows;

/// Positions in a page.
pub const PAGE_LEN: usize = 32;

/// Positions whose keys are side by side.
pub(crate) const TILE: usize = 16;

/// Smallest magnitude that an fp8 scale is computed from: its inverse is finite.
const SMALLEST_ABSMAX: f32 = 1e-30;

/// The dimensions of a [`KvStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvShape {
    /// Number of layers.
    pub layers: usize,
    /// Number of pages of each layer.
    pub pages: usize,
    /// Number of K/V heads of each page.
    pub heads: usize,
    /// Number of elements of a key, and of a value.
    pub head_dim: usize,
}

impl KvShape {
    /// Returns the size of keys and values of this shape in bytes, scales included.
    pub fn size_bytes(&self, dtype: KvDtype) -> usize {
        let layout = PageLayout::new(dtype, self.head_dim);
        let scales = if dtype.is_scaled() { 2 * PAGE_LEN * size_of::<f32>() } else { 0 };
        self.layers * self.pages * self.heads * (layout.head_lines * size_of::<Line>() + scales)
    }
}

/// One position of one layer in a [`KvStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvSlot {
    /// Layer.
    pub layer: usize,
    /// Page of the layer.
    pub page: u32,
    /// Position within the page.
    pub slot: usize,
}

impl KvSlot {
    /// Returns the slot of `position` in the sequence that owns `pages`.
    pub fn new(layer: usize, pages: &[u32], position: usize) -> Self {
        Self { layer, page: pages[position / PAGE_LEN], slot: position % PAGE_LEN }
    }
}

/// The layout of one head of one page, in lines.
#[derive(Clone, Copy, Debug)]
struct PageLayout {
    /// Elements of a row of values, padding included.
    row_len: usize,
    /// Elements of a key, padding included.
    key_len: usize,
    key_lines: usize,
    head_lines: usize,
}

impl PageLayout {
    fn new(dtype: KvDtype, head_dim: usize) -> Self {
        let row_len = head_dim.next_multiple_of(TILE);
        let key_len = match dtype {
            KvDtype::Int8 => head_dim.next_multiple_of(RUN),
            KvDtype::Bf16 => head_dim.next_multiple_of(BLOCK),
            _ => row_len,
        };
        let lines = |len: usize| PAGE_LEN * len * dtype.size() / size_of::<Line>();
        Self { row_len, key_len, key_lines: lines(key_len), head_lines: lines(key_len + row_len) }
    }
}

/// Keys and values of all layers, in pages that belong to sequences.
pub struct KvStore {
    dtype: KvDtype,
    shape: KvShape,
    layout: PageLayout,
    lines: ZeroLines,
    /// For each head of each page: the scales of its keys, then those of its values.
    scales: Vec<f32>,
    /// For each head of each page, if pages have summaries; see `summary.rs`.
    summaries: Vec<f32>,
    /// For each thread that writes.
    codes: Vec<CodeBuffer>,
    /// The runs of the rows that are being written.
    runs: Vec<write::Run>,
}

/// A buffer for the codes of a key or a value and their sums, or for its bf16 numbers.
#[derive(Clone)]
struct CodeBuffer {
    codes: Vec<i8>,
    sums: Vec<i32>,
    bits: Vec<u16>,
}

impl KvStore {
    /// Creates a store. Pages take memory only when written.
    pub fn new(dtype: KvDtype, shape: KvShape) -> Self {
        let layout = PageLayout::new(dtype, shape.head_dim);
        let heads = shape.layers * shape.pages * shape.heads;
        let scales = vec![0.0; if dtype.is_scaled() { heads * 2 * PAGE_LEN } else { 0 }];
        prefer_huge_pages(&scales);
        let codes_len = shape.head_dim.next_multiple_of(RUN);
        let codes = CodeBuffer {
            codes: vec![0; codes_len],
            sums: vec![0; codes_len / RUN],
            bits: vec![0; shape.head_dim],
        };
        Self {
            dtype,
            shape,
            layout,
            lines: ZeroLines::new(heads * layout.head_lines),
            scales,
            summaries: Vec::new(),
            codes: vec![codes],
            runs: Vec::with_capacity(shape.pages),
        }
    }

    /// Returns the storage type of keys and values.
    pub fn dtype(&self) -> KvDtype {
        self.dtype
    }

    /// Returns the dimensions.
    pub fn shape(&self) -> KvShape {
        self.shape
    }

    /// Writes the keys and values of one position, those of all heads one after another.
    ///
    /// # Panics
    ///
    /// Panics if there is no such slot, or if `keys` or `values` does not have all heads.
    pub fn write(
        &mut self,
        kernel: &dyn Kernel,
        KvSlot { layer, page, slot }: KvSlot,
        keys: &[f32],
        values: &[f32],
    ) {
        let KvShape { layers, pages, heads, head_dim } = self.shape;
        let (page, layout, dtype) = (page as usize, self.layout, self.dtype);
        assert!(layer < layers && page < pages && slot < PAGE_LEN, "a slot of a page of a layer");
        assert!(keys.len() == heads * head_dim && keys.len() == values.len(), "all heads");
        let rows = keys.chunks_exact(head_dim).zip(values.chunks_exact(head_dim));
        for (head, (key, value)) in rows.enumerate() {
            let at = (layer * pages + page) * heads + head;
            let lines = &mut self.lines[at * layout.head_lines..][..layout.head_lines];
            let (keys, values) = lines.split_at_mut(layout.key_lines);
            let scales_len = if dtype.is_scaled() { 2 * PAGE_LEN } else { 0 };
            let scales = &mut self.scales[at * scales_len..][..scales_len];
            let page = HeadPage { layout, keys, values, scales, slot };
            page.put(kernel, dtype, key, value, &mut self.codes[0]);
        }
    }

    /// Returns one K/V head of a layer for the sequence that owns `pages`.
    pub fn head<'a>(&'a self, layer: usize, head: usize, pages: &'a [u32]) -> KvHead<'a> {
        assert!(layer < self.shape.layers && head < self.shape.heads, "a head of a layer");
        let heads = self.shape.pages * self.shape.heads;
        let lines = &self.lines[layer * heads * self.layout.head_lines..];
        let scales =
            if self.scales.is_empty() { &[] } else { &self.scales[layer * heads * 2 * PAGE_LEN..] };
        let summary_len = summary::summary_len(self.shape.head_dim);
        let summaries = self.summaries.get(layer * heads * summary_len..).unwrap_or_default();
        KvHead {
            dtype: self.dtype,
            head_dim: self.shape.head_dim,
            layout: self.layout,
            lines: &lines[..heads * self.layout.head_lines],
            scales,
            summaries,
            pages,
            heads: self.shape.heads,
            head,
        }
    }
}

/// One slot of one head of a page, to be written.
struct HeadPage<'a> {
    layout: PageLayout,
    keys: &'a mut [Line],
    values: &'a mut [Line],
    /// Scales of the keys, then those of the values; empty for types without.
    scales: &'a mut [f32],
    slot: usize,
}

impl HeadPage<'_> {
    fn put(
        mut self,
        kernel: &dyn Kernel,
        dtype: KvDtype,
        key: &[f32],
        value: &[f32],
        codes: &mut CodeBuffer,
    ) {
        match dtype {
            KvDtype::F32 => self.put_floats((key, value), |x| x),
            KvDtype::Bf16 => self.put_bf16(key, value, &mut codes.bits),
            KvDtype::F16 => self.put_floats((key, value), f32_to_f16),
            KvDtype::Fp8E4m3 => self.put_fp8((key, value), (E4M3_MAX, E4M3_LOADED), f32_to_e4m3),
            KvDtype::Fp8E5m2 => self.put_fp8((key, value), (E5M2_MAX, 1.0), f32_to_e5m2),
            KvDtype::Int8 => self.put_int8(kernel, (key, value), codes),
        }
    }

    fn put_floats<T: Plain>(&mut self, (key, value): (&[f32], &[f32]), encode: impl Fn(f32) -> T) {
        self.put_key(key, &encode);
        self.put_value(value, &encode);
    }

    fn put_key<T: Plain>(&mut self, key: &[f32], encode: impl Fn(f32) -> T) {
        let start = self.slot / TILE * TILE * self.layout.row_len;
        let tile = &mut numbers_mut::<T>(self.keys)[start..];
        for (side_by_side, x) in tile.as_chunks_mut::<TILE>().0.iter_mut().zip(key) {
            side_by_side[self.slot % TILE] = encode(*x);
        }
    }

    fn put_value<T: Plain>(&mut self, value: &[f32], encode: impl Fn(f32) -> T) {
        let row = &mut numbers_mut::<T>(self.values)[self.slot * self.layout.row_len..];
        for (element, x) in row.iter_mut().zip(value) {
            *element = encode(*x);
        }
    }

    /// Writes bf16 numbers. If an element of the value is not finite, the key becomes NaN instead, and with
    /// it the scores of those who see it.
    fn put_bf16(&mut self, key: &[f32], value: &[f32], bits: &mut [u16]) {
        let PageLayout { row_len, key_len, .. } = self.layout;
        let slot = self.slot;
        let finite = encode_finite(value, bits);
        let pairs = &mut numbers_mut::<u16>(self.values)[slot / 2 * 2 * row_len..][..2 * row_len];
        for (pair, element) in pairs.as_chunks_mut::<2>().0.iter_mut().zip(&*bits) {
            pair[slot % 2] = *element;
        }
        if finite {
            encode_operands(key, bits);
        } else {
            bits.fill(f32_to_bf16(f32::NAN));
        }
        let tile = &mut numbers_mut::<u16>(self.keys)[slot / TILE * TILE * key_len..];
        let lines = tile.as_chunks_mut::<{ 2 * TILE }>().0.iter_mut();
        let (pairs, last) = bits.as_chunks::<2>();
        let last = last.first().map(|element| [*element, 0]);
        for (line, pair) in lines.zip(pairs.iter().copied().chain(last)) {
            line.as_chunks_mut::<2>().0[slot % TILE] = pair;
        }
    }

    /// Writes fp8 codes. `largest` is the largest number of the type, `loaded` the factor of loaded
    /// lanes.
    fn put_fp8(
        &mut self,
        (key, value): (&[f32], &[f32]),
        (largest, loaded): (f32, f32),
        encode: impl Fn(f32) -> u8,
    ) {
        let absmaxes = [absmax(key), absmax(value)];
        let [key_factor, value_factor] = absmaxes.map(|absmax| largest / absmax);
        self.put_key(key, |x| encode(x * key_factor));
        self.put_value(value, |x| encode(x * value_factor));
        self.put_scales(absmaxes.map(|absmax| absmax / largest * loaded));
    }

    fn put_int8(
        &mut self,
        kernel: &dyn Kernel,
        (key, value): (&[f32], &[f32]),
        CodeBuffer { codes, sums, .. }: &mut CodeBuffer,
    ) {
        let PageLayout { row_len, key_len, .. } = self.layout;
        let slot = self.slot;
        let key_scale = kernel.quantize(key, codes, sums);
        let tile = &mut self.keys[slot / TILE * (key_len / INT8_LINE_COLS)..];
        for (line, codes) in tile.iter_mut().zip(codes.as_chunks::<INT8_LINE_COLS>().0) {
            let quad = &mut line.0.as_chunks_mut::<INT8_LINE_COLS>().0[slot % TILE];
            *quad = codes.map(|code| code.cast_unsigned() ^ BIAS);
        }
        let value_scale = kernel.quantize(value, codes, sums);
        let pairs = &mut numbers_mut::<i8>(self.values)[slot / 2 * 2 * row_len..][..2 * row_len];
        for (pair, code) in pairs.as_chunks_mut::<2>().0.iter_mut().zip(&*codes) {
            pair[slot % 2] = *code;
        }
        // The codes of a row with an infinity are meaningless, so its scale is NaN.
        let nan_unless_finite = |scale: f32| if scale.is_finite() { scale } else { f32::NAN };
        self.put_scales([key_scale, value_scale].map(nan_unless_finite));
    }

    fn put_scales(&mut self, [key, value]: [f32; 2]) {
        self.scales[self.slot] = key;
        self.scales[PAGE_LEN + self.slot] = value;
    }
}

/// Returns the largest magnitude of a row, at least [`SMALLEST_ABSMAX`], or NaN if there is one.
fn absmax(row: &[f32]) -> f32 {
    // Magnitudes compare like their bits, and a NaN is above infinity.
    let bits = row.iter().fold(0, |max, x| x.abs().to_bits().max(max));
    f32::from_bits(bits.max(SMALLEST_ABSMAX.to_bits()))
}

/// The keys and values of one sequence in one K/V head of one layer.
#[derive(Clone, Copy)]
pub struct KvHead<'a> {
    dtype: KvDtype,
    head_dim: usize,
    layout: PageLayout,
    /// Lines of the layer.
    lines: &'a [Line],
    scales: &'a [f32],
    /// Summaries of the layer; none if pages have none.
    summaries: &'a [f32],
    pages: &'a [u32],
    heads: usize,
    head: usize,
}

impl<'a> KvHead<'a> {
    /// Returns the storage type of keys and values.
    pub fn dtype(&self) -> KvDtype {
        self.dtype
    }

    /// Returns the number of elements of a key, and of a value.
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// Returns the number of elements of a row of values, padding included.
    pub(crate) fn row_len(&self) -> usize {
        self.layout.row_len
    }

    /// Returns the number of elements of a key, padding included.
    pub(crate) fn key_len(&self) -> usize {
        self.layout.key_len
    }

    /// Returns the keys of page `i` of the sequence.
    #[inline(always)]
    pub(crate) fn keys(&self, i: usize) -> &'a [Line] {
        &self.lines[self.at(i) * self.layout.head_lines..][..self.layout.key_lines]
    }

    /// Returns the address of the keys of page `i`, of this head or of the one after it, for prefetching: the page
    /// need not exist.
    #[inline(always)]
    pub(crate) fn keys_address(&self, i: usize, is_of_next_head: bool) -> usize {
        let bytes = self.layout.head_lines * size_of::<Line>();
        self.lines.as_ptr().addr().wrapping_add(bytes.wrapping_mul(self.near(i, is_of_next_head)))
    }

    /// Returns the number of bytes from the keys of a page to its values.
    #[inline(always)]
    pub(crate) fn keys_bytes(&self) -> usize {
        self.layout.key_lines * size_of::<Line>()
    }

    /// Returns the addresses of the lines with the scales of page `i`, of this head or of the one after it, for
    /// prefetching: the page need not exist. There are none without scales.
    #[inline(always)]
    pub(crate) fn scale_lines(
        &self,
        i: usize,
        is_of_next_head: bool,
    ) -> impl Iterator<Item = usize> {
        let bytes = if self.dtype.is_scaled() { 2 * PAGE_LEN * size_of::<f32>() } else { 0 };
        let offset = bytes.wrapping_mul(self.near(i, is_of_next_head));
        let first = self.scales.as_ptr().addr().wrapping_add(offset);
        (0..bytes).step_by(size_of::<Line>()).map(move |line| first.wrapping_add(line))
    }

    /// Returns the index of this head of page `i`, or of the one after it, among all heads of the layer, if they exist.
    #[inline(always)]
    fn near(&self, i: usize, is_of_next_head: bool) -> usize {
        let page = self.pages.get(i).map_or(0, |page| *page as usize);
        page * self.heads + self.head + usize::from(is_of_next_head)
    }

    /// Returns `true` if no head of the layer follows.
    pub(crate) fn is_last_head(&self) -> bool {
        self.head + 1 == self.heads
    }

    /// Returns the values of page `i` of the sequence.
    #[inline(always)]
    pub(crate) fn values<T: Plain>(&self, i: usize) -> &'a [T] {
        let PageLayout { key_lines, head_lines, .. } = self.layout;
        numbers(&self.lines[self.at(i) * head_lines..][key_lines..head_lines])
    }

    /// Returns the scales of the keys of page `i` of the sequence.
    #[inline(always)]
    pub(crate) fn key_scales(&self, i: usize) -> &'a [f32] {
        &self.scales[self.at(i) * 2 * PAGE_LEN..][..PAGE_LEN]
    }

    /// Returns the scales of the values of page `i` of the sequence.
    #[inline(always)]
    pub(crate) fn value_scales(&self, i: usize) -> &'a [f32] {
        &self.scales[(self.at(i) * 2 + 1) * PAGE_LEN..][..PAGE_LEN]
    }

    /// Returns the number of pages of the sequence.
    pub(crate) fn pages_len(&self) -> usize {
        self.pages.len()
    }

    /// Returns the index of this head of page `i` among all heads of the layer.
    #[inline(always)]
    fn at(&self, i: usize) -> usize {
        self.pages[i] as usize * self.heads + self.head
    }
}
