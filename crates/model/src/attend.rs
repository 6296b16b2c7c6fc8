//! Distribution of attention over threads.
//!
//! A tile is a few neighbouring rows of a step and one K/V head: the keys and values its query heads
//! share are read once for all of them. With many tiles, a job is a tile. With few, as when one
//! sequence decodes, a job is one chunk of a tile's positions, and a second pass joins the chunks.
//! The result is the same in both cases, as the kernels define it.

use wf_core::{Attention, Network, Window};
use wf_kernels::{
    AttendScratch, CHUNK, KvHead, Queries, attend, attend_in_turn, attend_parts, clear_parts,
    finish_parts, part_len,
};

use crate::compute::Compute;
use crate::kv::KvPool;
use crate::segment::{Row, Segment};

/// Query heads of a tile, unless one row has more: enough to make use of each key that is read.
const TILE_QUERIES: usize = 16;

/// Number of tiles per thread that keeps all threads busy to the end.
pub(crate) const TILES_PER_THREAD: usize = 8;

pub(crate) struct AttendScratchPool {
    threads: Vec<AttendScratch>,
    /// Parts of all chunks of all query heads, where a job is a chunk.
    pub(crate) parts: Vec<f32>,
}

impl AttendScratchPool {
    pub(crate) fn new(network: &Network, max_rows: usize, chunks: usize, threads: usize) -> Self {
        let queries = network.max_attention(|a| max_tile_rows(a) * sharing(a));
        let head_dim = network.max_attention(|a| a.head_dim);
        let parts = network.max_attention(|a| {
            // The largest number of rows that makes few tiles, each row with all of its chunks.
            let rows = max_rows.min((TILES_PER_THREAD * threads).div_ceil(a.kv_heads));
            rows * a.heads * chunks * part_len(a.head_dim)
        });
        Self {
            threads: (0..threads).map(|_| AttendScratch::new(queries, head_dim)).collect(),
            parts: vec![0.0; parts],
        }
    }
}

fn max_tile_rows(attention: &Attention) -> usize {
    (TILE_QUERIES / sharing(attention)).max(1)
}

/// Number of query heads that share a K/V head.
pub(crate) fn sharing(attention: &Attention) -> usize {
    attention.heads / attention.kv_heads
}

/// Attention of one layer for all rows of a step.
#[derive(Clone, Copy)]
pub(crate) struct AttendStep<'a> {
    pub(crate) cx: &'a Compute,
    pub(crate) recipe: &'a Attention,
    pub(crate) kv: &'a KvPool,
    pub(crate) layer: usize,
    pub(crate) batch: &'a [Segment<'a>],
    pub(crate) rows: &'a [Row],
    /// Number of positions that each row sees.
    pub(crate) visible: &'a [usize],
    pub(crate) query: &'a [f32],
    /// First positions that rows see apart from their window.
    pub(crate) sinks: Option<SinkQueries<'a>>,
}

/// Queries for the first positions of sequences, over which a window has slid.
#[derive(Clone, Copy)]
pub(crate) struct SinkQueries<'a> {
    pub(crate) window: Window,
    /// Number of first positions that each row sees apart from its window.
    pub(crate) sunk: &'a [usize],
    pub(crate) query: &'a [f32],
}

impl AttendStep<'_> {
    /// Computes every head of every row over the positions that the row sees.
    pub(crate) fn run(&self, scratch: &mut AttendScratchPool, heads: &mut [f32]) {
        let AttendScratchPool { threads, parts } = scratch;
        let longest_run = self.rows.chunk_by(|a, b| a.segment == b.segment).map(<[Row]>::len).max();
        let tile_rows = longest_run.unwrap_or(1).min(max_tile_rows(self.recipe));
        let tiles = self.rows.len().div_ceil(tile_rows) * self.recipe.kv_heads;
        let slot_len = tile_rows * sharing(self.recipe) * part_len(self.recipe.head_dim);
        let work = TiledStep { step: *self, scale: self.scale(), tile_rows };
        let chunks = work.chunks();
        match parts.get_mut(..tiles * chunks * slot_len) {
            Some(parts) if self.are_few(tiles) && chunks > 1 => {
                work.run_chunks(parts, slot_len, threads, heads);
            }
            _ => work.run_tiles(threads, heads),
        }
    }

    /// Returns the factor of the product of query and key.
    pub(crate) fn scale(&self) -> f32 {
        // Exact: the correctly rounded root of an integer, and one correctly rounded division.
        let usual = 1.0 / (self.recipe.head_dim as f32).sqrt();
        self.recipe.score_scale.unwrap_or(usual)
    }

    /// Returns `true` if tiles are too few to keep all threads busy.
    pub(crate) fn are_few(&self, tiles: usize) -> bool {
        tiles < TILES_PER_THREAD * self.cx.pool.threads()
    }

    /// Joins the chunks of each tile of `tile_rows` rows, and computes the results of all heads.
    pub(crate) fn finish_chunks(
        &self,
        tile_rows: usize,
        (parts, slot_len): (&mut [f32], usize),
        chunks: usize,
        heads: &mut [f32],
    ) {
        let (kv_heads, head_dim) = (self.recipe.kv_heads, self.recipe.head_dim);
        let part_len = part_len(head_dim);
        let row_len = sharing(self.recipe) * part_len;
        // The chunks of each tile are joined in the slot of the first.
        self.cx.pool.rows(parts, chunks * slot_len, |_, slots| {
            let (first, later) = slots.split_at_mut(slot_len);
            for next in later.chunks_exact(slot_len) {
                self.cx.kernel.join_chunks(part_len, first, next);
            }
        });
        let parts = &*parts;
        for (job, out) in heads.chunks_exact_mut(sharing(self.recipe) * head_dim).enumerate() {
            let (row, kv_head) = (job / kv_heads, job % kv_heads);
            let tile = row / tile_rows * kv_heads + kv_head;
            let slot = &parts[tile * chunks * slot_len..][row % tile_rows * row_len..];
            finish_parts(&slot[..row_len], head_dim, out);
        }
    }
}

/// A step whose rows are divided into tiles.
#[derive(Clone, Copy)]
struct TiledStep<'a> {
    step: AttendStep<'a>,
    scale: f32,
    tile_rows: usize,
}

impl<'a> TiledStep<'a> {
    /// Number of elements of the query heads of a row that share a K/V head.
    fn width(&self) -> usize {
        sharing(self.step.recipe) * self.step.recipe.head_dim
    }

    fn run_tiles(&self, scratch: &mut [AttendScratch], heads: &mut [f32]) {
        let &Self { step, tile_rows, .. } = self;
        let tile = (tile_rows, self.width());
        let out = (heads, step.recipe.query_len());
        step.cx.pool.tiles_with(out, tile, scratch, |tile, kv_head, mut out, s| {
            for (first, run) in self.runs(tile * tile_rows) {
                let (q, kv) = self.queries(first, run, kv_head);
                let (kernel, at) = (step.cx.kernel, first - tile * tile_rows);
                match self.sink_queries(first, run, kv_head) {
                    None => attend(kernel, &q, &kv, s, &mut out, at),
                    Some(sinks) => attend_in_turn(kernel, &[sinks, q], &kv, s, &mut out, at),
                }
            }
        });
    }

    /// Runs one job per chunk of a tile, then joins the chunks.
    fn run_chunks(
        &self,
        parts: &mut [f32],
        slot_len: usize,
        scratch: &mut [AttendScratch],
        heads: &mut [f32],
    ) {
        let &Self { step, tile_rows, .. } = self;
        let (kernel, kv_heads) = (step.cx.kernel, step.recipe.kv_heads);
        let part_len = part_len(step.recipe.head_dim);
        let row_len = sharing(step.recipe) * part_len;
        let tiles = step.rows.len().div_ceil(tile_rows) * kv_heads;
        let chunks = parts.len() / slot_len / tiles;
        step.cx.pool.rows_with(parts, slot_len, scratch, |job, slot, s| {
            let (tile, chunk) = (job / chunks, job % chunks);
            let start = tile / kv_heads * tile_rows;
            for (first, run) in self.runs(start) {
                let (q, kv) = self.queries(first, run, tile % kv_heads);
                let parts = &mut slot[(first - start) * row_len..][..run * row_len];
                let (q, chunk) = match self.sink_queries(first, run, tile % kv_heads) {
                    Some(sinks) if chunk < self.sink_chunks() => (sinks, chunk),
                    _ => (q, q.chunks().start + chunk - self.sink_chunks()),
                };
                if q.chunks().contains(&chunk) {
                    s.prepare(kernel, &q, &kv);
                    attend_parts(kernel, &q, &kv, chunk, s, parts);
                } else {
                    clear_parts(parts);
                }
            }
        });
        step.finish_chunks(tile_rows, (parts, slot_len), chunks, heads);
    }

    /// Returns the number of chunks that the rows of a tile read at most: those of sinks, then those of each run
    /// of rows from its first one on.
    fn chunks(&self) -> usize {
        let starts = (0..self.step.rows.len()).step_by(self.tile_rows);
        let runs = starts.flat_map(|start| self.runs(start));
        let chunks = runs.map(|(first, run)| self.queries(first, run, 0).0.chunks().len());
        chunks.max().unwrap_or(0) + self.sink_chunks()
    }

    fn sink_chunks(&self) -> usize {
        self.step.sinks.map_or(0, |sinks| sinks.window.sinks.div_ceil(CHUNK))
    }

    /// Iterates over the runs of rows of one segment in the tile that starts at row `start`: first
    /// row and number of rows.
    fn runs(&self, start: usize) -> impl Iterator<Item = (usize, usize)> {
        let rows = &self.step.rows[start..self.step.rows.len().min(start + self.tile_rows)];
        rows.chunk_by(|a, b| a.segment == b.segment).scan(start, |first, run| {
            let range = (*first, run.len());
            *first += run.len();
            Some(range)
        })
    }

    fn queries(&self, first: usize, rows: usize, kv_head: usize) -> (Queries<'a>, KvHead<'a>) {
        let step = self.step;
        let stride = step.recipe.query_len();
        let q = Queries {
            data: &step.query[first * stride + kv_head * self.width()..],
            stride,
            heads: sharing(step.recipe),
            visible: &step.visible[first..first + rows],
            window: step.sinks.map_or(step.recipe.window, |sinks| Some(sinks.window.len)),
            sinks: step.sinks.map_or(0, |sinks| sinks.window.sinks),
            scale: self.scale,
        };
        let pages = step.batch[step.rows[first].segment].pages;
        (q, step.kv.head(step.layer, kv_head, pages))
    }

    /// Returns the queries for the first positions of the rows that do not see them in their window.
    fn sink_queries(&self, first: usize, rows: usize, kv_head: usize) -> Option<Queries<'a>> {
        let SinkQueries { sunk, query, .. } = self.step.sinks?;
        let stride = self.step.recipe.query_len();
        Some(Queries {
            data: &query[first * stride + kv_head * self.width()..],
            stride,
            heads: sharing(self.step.recipe),
            visible: &sunk[first..first + rows],
            window: None,
            sinks: 0,
            scale: self.scale,
        })
    }
}
