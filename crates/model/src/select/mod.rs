//! Attention over selected pages.
//!
//! Each row and K/V head selects pages by upper bounds on the scores of their keys (`choose.rs`), and then
//! attends to the selected ones as if they were the whole sequence: rotation is part of the keys, so a
//! position matters in no other way. The newest pages are always among them. A selection of all pages
//! therefore gives the bits of dense attention.
//!
//! A selection depends on the row's queries and on the pages before it alone, so it is the same for any
//! batch, chunking, thread count and instruction set.

mod choose;

use wf_core::{AttentionMode, Network};
use wf_kernels::{
    AttendScratch, CHUNK, KvHead, PAGE_LEN, Queries, attend, attend_parts, clear_parts, part_len,
    split_len,
};

use crate::attend::{AttendStep, TILES_PER_THREAD, sharing};
use crate::kv::PageId;
use choose::{Bounds, Choice, KnownMass, min_pages};

/// Newest pages of a row, which are always read: the last is not full, or just so.
const NEWEST: usize = 2;

/// Pages whose bounds are one job.
const BLOCK: usize = 128;

/// Pages whose scores are computed to know a part of the softmax mass: those of one chunk.
const KNOWN: usize = CHUNK / PAGE_LEN;

/// The mode of a model that selects pages, and its buffers.
pub(crate) struct Selector {
    mode: AttentionMode,
    threads: Vec<ThreadScratch>,
    selections: Selections,
}

impl Selector {
    /// Returns `None` if `mode` selects no pages.
    pub(crate) fn new(
        network: &Network,
        mode: AttentionMode,
        max_rows: usize,
        positions: usize,
        threads: usize,
    ) -> Option<Self> {
        let (heads, head_dim) =
            (network.max_attention(sharing), network.max_attention(|a| a.head_dim));
        let pages = positions.div_ceil(PAGE_LEN);
        let tiles =
            network.max_attention(|a| (max_rows * a.kv_heads).min(TILES_PER_THREAD * threads));
        mode.selects_pages().then(|| Self {
            mode,
            threads: (0..threads).map(|_| ThreadScratch::new(heads, head_dim, pages)).collect(),
            selections: Selections::new(tiles, heads, pages),
        })
    }

    /// Returns `true` if some row of `step` may read fewer pages than it sees. A layer with a window of its
    /// own reads few pages anyway.
    pub(crate) fn is_sparse(&self, step: &AttendStep<'_>) -> bool {
        let pages = step.visible.iter().map(|visible| visible.div_ceil(PAGE_LEN)).max();
        step.recipe.window.is_none() && pages.is_some_and(|pages| pages > min_pages(self.mode))
    }

    /// Computes every head of every row over the pages that it selects. `parts` has room for all chunks.
    pub(crate) fn run(&mut self, step: AttendStep<'_>, parts: &mut [f32], heads: &mut [f32]) {
        let Self { mode, threads, selections } = self;
        let tiles = step.rows.len() * step.recipe.kv_heads;
        let work = SelectedStep { step, mode: *mode, scale: step.scale() };
        if step.are_few(tiles) && tiles <= selections.visible.len() {
            work.select_tiles(threads, selections);
            work.run_chunks(threads, parts, selections, heads);
        } else {
            work.run_tiles(threads, heads);
        }
    }
}

/// Buffers of a thread.
struct ThreadScratch {
    attend: AttendScratch,
    select: SelectScratch,
}

/// Buffers of the selection of one tile.
struct SelectScratch {
    /// Split query heads of a group.
    queries: Vec<f32>,
    /// Bounds of all pages, block by block.
    blocks: Vec<f32>,
    /// The same, head by head.
    bounds: Vec<f32>,
    choice: Choice,
    pages: Vec<PageId>,
    parts: Vec<f32>,
}

impl ThreadScratch {
    fn new(heads: usize, head_dim: usize, max_pages: usize) -> Self {
        let select = SelectScratch {
            queries: vec![0.0; heads * split_len(head_dim)],
            blocks: vec![0.0; heads * max_pages.next_multiple_of(BLOCK)],
            bounds: vec![0.0; heads * max_pages],
            choice: Choice::new(max_pages, heads),
            pages: vec![0; max_pages],
            parts: vec![0.0; heads * part_len(head_dim)],
        };
        Self { attend: AttendScratch::new(heads, head_dim), select }
    }
}

/// Selections of several tiles, for steps that divide the work of each.
struct Selections {
    blocks: Vec<f32>,
    pages: Vec<PageId>,
    /// Number of positions in the pages of each tile.
    visible: Vec<usize>,
    max_pages: usize,
}

impl Selections {
    fn new(tiles: usize, heads: usize, max_pages: usize) -> Self {
        Self {
            blocks: vec![0.0; tiles * heads * max_pages.next_multiple_of(BLOCK)],
            pages: vec![0; tiles * max_pages],
            visible: vec![0; tiles],
            max_pages,
        }
    }
}

/// A step whose rows select pages. A tile is one row and one K/V head.
#[derive(Clone, Copy)]
struct SelectedStep<'a> {
    step: AttendStep<'a>,
    mode: AttentionMode,
    scale: f32,
}

impl<'a> SelectedStep<'a> {
    fn run_tiles(&self, threads: &mut [ThreadScratch], heads: &mut [f32]) {
        let Self { step, .. } = self;
        let tile = (1, sharing(step.recipe) * step.recipe.head_dim);
        let out = (heads, step.recipe.query_len());
        step.cx.pool.tiles_with(out, tile, threads, |row, kv_head, mut out, s| {
            let ThreadScratch { attend: buffers, select } = s;
            let tile = row * step.recipe.kv_heads + kv_head;
            let (q, kv) = self.tile(tile, &step.visible[row], self.pages(row));
            buffers.prepare(step.cx.kernel, &q, &kv);
            let mut blocks = std::mem::take(&mut select.blocks);
            for (block, out) in blocks.chunks_exact_mut(sharing(step.recipe) * BLOCK).enumerate() {
                self.bound(tile, block, buffers, select, out);
            }
            let mut pages = std::mem::take(&mut select.pages);
            let visible = self.choose(tile, &blocks, buffers, select, &mut pages);
            let (q, kv) = self.tile(tile, &visible, &pages);
            attend(step.cx.kernel, &q, &kv, buffers, &mut out, 0);
            (select.blocks, select.pages) = (blocks, pages);
        });
    }

    /// Selects the pages of all tiles: bounds block by block, then choices.
    fn select_tiles(&self, threads: &mut [ThreadScratch], selections: &mut Selections) {
        let Self { step, .. } = self;
        let tiles = step.rows.len() * step.recipe.kv_heads;
        let Selections { blocks, pages, visible, max_pages } = selections;
        let slot_len = sharing(step.recipe) * BLOCK;
        let visible_pages =
            step.visible.iter().max().map_or(0, |visible| visible.div_ceil(PAGE_LEN));
        let blocks_len = visible_pages.div_ceil(BLOCK).max(1);
        let blocks = &mut blocks[..tiles * blocks_len * slot_len];
        step.cx.pool.rows_with(blocks, slot_len, threads, |job, out, s| {
            let (tile, block) = (job / blocks_len, job % blocks_len);
            let row = tile / step.recipe.kv_heads;
            let ThreadScratch { attend: buffers, select } = s;
            let (q, kv) = self.tile(tile, &step.visible[row], self.pages(row));
            buffers.prepare(step.cx.kernel, &q, &kv);
            self.bound(tile, block, buffers, select, out);
        });
        let blocks = &*blocks;
        let pages = (&mut pages[..tiles * *max_pages], *max_pages);
        let visible = (&mut visible[..tiles], 1);
        step.cx.pool.row_pairs_with(pages, visible, threads, |tile, pages, visible, s| {
            let ThreadScratch { attend: buffers, select } = s;
            let blocks = &blocks[tile * blocks_len * slot_len..][..blocks_len * slot_len];
            visible[0] = self.choose(tile, blocks, buffers, select, pages);
        });
    }

    /// Runs one job per chunk of selected positions, then joins the chunks.
    fn run_chunks(
        &self,
        threads: &mut [ThreadScratch],
        parts: &mut [f32],
        selections: &Selections,
        heads: &mut [f32],
    ) {
        let Self { step, .. } = self;
        let tiles = step.rows.len() * step.recipe.kv_heads;
        let visible = &selections.visible[..tiles];
        let chunks = visible.iter().max().map_or(1, |visible| visible.div_ceil(CHUNK));
        let slot_len = sharing(step.recipe) * part_len(step.recipe.head_dim);
        let parts = &mut parts[..tiles * chunks * slot_len];
        step.cx.pool.rows_with(parts, slot_len, threads, |job, slot, s| {
            let (tile, chunk) = (job / chunks, job % chunks);
            let pages = &selections.pages[tile * selections.max_pages..][..selections.max_pages];
            let (q, kv) = self.tile(tile, &visible[tile], pages);
            if q.chunks().contains(&chunk) {
                s.attend.prepare(step.cx.kernel, &q, &kv);
                attend_parts(step.cx.kernel, &q, &kv, chunk, &mut s.attend, slot);
            } else {
                clear_parts(slot);
            }
        });
        step.finish_chunks(1, (parts, slot_len), chunks, heads);
    }

    /// Returns the pages of a row.
    fn pages(&self, row: usize) -> &'a [PageId] {
        self.step.batch[self.step.rows[row].segment].pages
    }

    /// Returns the queries and the K/V head of a tile, for attention to `visible` positions in `pages`.
    fn tile<'b>(
        &'b self,
        tile: usize,
        visible: &'b usize,
        pages: &'b [PageId],
    ) -> (Queries<'b>, KvHead<'b>) {
        let recipe = self.step.recipe;
        let (row, kv_head) = (tile / recipe.kv_heads, tile % recipe.kv_heads);
        let (stride, heads) = (recipe.query_len(), sharing(recipe));
        let q = Queries {
            data: &self.step.query[row * stride + kv_head * heads * recipe.head_dim..],
            stride,
            heads,
            visible: std::slice::from_ref(visible),
            window: None,
            sinks: 0,
            scale: self.scale,
        };
        (q, self.step.kv.head(self.step.layer, kv_head, pages))
    }

    /// Returns the number of pages that a row may skip: all before its own and before the newest ones.
    fn candidates(&self, row: usize) -> usize {
        let own = self.step.rows[row].position / PAGE_LEN;
        let newest = self.step.visible[row].div_ceil(PAGE_LEN).saturating_sub(NEWEST);
        own.min(newest)
    }

    /// Computes the bounds of a block of pages that the row of a tile may skip.
    fn bound(
        &self,
        tile: usize,
        block: usize,
        buffers: &AttendScratch,
        select: &mut SelectScratch,
        out: &mut [f32],
    ) {
        let row = tile / self.step.recipe.kv_heads;
        let pages = self.candidates(row).saturating_sub(block * BLOCK).min(BLOCK);
        if pages > 0 {
            let (q, kv) = self.tile(tile, &self.step.visible[row], self.pages(row));
            let queries = &mut select.queries[..q.heads * split_len(kv.head_dim())];
            buffers.split_queries(&q, &kv, queries);
            let out = &mut out[..q.heads * pages];
            self.step.cx.kernel.bound_pages(queries, &kv, block * BLOCK, out);
        }
    }

    /// Writes the selected pages of a tile to `out`, and returns the number of positions in them.
    fn choose(
        &self,
        tile: usize,
        blocks: &[f32],
        buffers: &mut AttendScratch,
        select: &mut SelectScratch,
        out: &mut [PageId],
    ) -> usize {
        let row = tile / self.step.recipe.kv_heads;
        let heads = sharing(self.step.recipe);
        let (pages, visible) = (self.pages(row), self.step.visible[row]);
        let candidates = self.candidates(row);
        let all = visible.div_ceil(PAGE_LEN);
        let SelectScratch { bounds, choice, parts, .. } = select;
        let bounds = &mut bounds[..heads * candidates];
        gather(blocks, heads, candidates, bounds);
        let data = Bounds { data: bounds, pages: candidates };
        let kernel = self.step.cx.kernel;
        match self.mode {
            AttentionMode::TopK(count) => {
                choice.highest(data, count.saturating_sub(all - candidates));
            }
            AttentionMode::Dynamic(share) => choice.share_of_mass(kernel, data, share),
            AttentionMode::Threshold(skipped) => {
                choice.highest(data, KNOWN.saturating_sub(all - candidates));
                let is_read = |page: usize| choice.is_read.get(page).copied().unwrap_or(true);
                let known = keep(pages, all, is_read, out);
                let seen = (visible - (all - known) * PAGE_LEN).min(CHUNK);
                let parts = &mut parts[..heads * part_len(self.step.recipe.head_dim)];
                let (q, kv) = self.tile(tile, &seen, out);
                buffers.prepare(kernel, &q, &kv);
                attend_parts(kernel, &q, &kv, 0, buffers, parts);
                let parts = parts.chunks_exact(part_len(self.step.recipe.head_dim));
                let known = parts.map(|part| KnownMass {
                    largest: part[part.len() - 2],
                    sum: part[part.len() - 1],
                });
                gather(blocks, heads, candidates, bounds);
                let data = Bounds { data: bounds, pages: candidates };
                choice.all_but(kernel, data, known, skipped);
            }
            AttentionMode::Dense | AttentionMode::Window(_) => {
                unreachable!("a mode that selects pages")
            }
        }
        let is_read = |page: usize| choice.is_read.get(page).copied().unwrap_or(true);
        let read = keep(pages, all, is_read, out);
        // Only full pages are skipped.
        visible - (all - read) * PAGE_LEN
    }
}

/// Copies the bounds of all heads and pages from blocks, one head after the other.
fn gather(blocks: &[f32], heads: usize, pages: usize, out: &mut [f32]) {
    for (block, first) in blocks.chunks_exact(heads * BLOCK).zip((0..pages).step_by(BLOCK)) {
        let len = BLOCK.min(pages - first);
        for (head, bounds) in block[..heads * len].chunks_exact(len).enumerate() {
            out[head * pages + first..][..len].copy_from_slice(bounds);
        }
    }
}

/// Writes the first `all` pages that are read to `out`, in order, and returns their number.
fn keep(
    pages: &[PageId],
    all: usize,
    is_read: impl Fn(usize) -> bool,
    out: &mut [PageId],
) -> usize {
    let mut len = 0;
    for (at, page) in pages[..all].iter().enumerate() {
        if is_read(at) {
            out[len] = *page;
            len += 1;
        }
    }
    len
}

#[cfg(test)]
mod tests;
