//! Distribution of attention over threads.
//!
//! A tile is a few neighbouring rows of a step and one K/V head: the keys and values its query heads
//! share are read once for all of them. With many tiles, a job is a tile. With few, as when one
//! sequence decodes, a job is one chunk of a tile's positions, and a second pass joins the chunks
//! (`chunks`). The result is the same in both cases, as the kernels define it.

mod chunks;
mod sinks;

use wf_core::{Attention, Network};
use wf_kernels::{AttendScratch, KvHead, Queries, attend, attend_in_turn, part_len};

use crate::compute::Compute;
use crate::kv::KvPool;
use crate::segment::{Row, Segment};
pub(crate) use sinks::SinkQueries;

/// Query heads of a tile, unless one row has more: enough to make use of each key that is read.
const TILE_QUERIES: usize = 16;

/// Maximum number of query heads of a tile where there are many: keys and values of a long context come from
/// memory once for all of them.
const MAX_TILE_QUERIES: usize = 64;

/// Number of tiles per thread that keeps all threads busy to the end.
pub(crate) const TILES_PER_THREAD: usize = 8;

pub(crate) struct AttendScratchPool {
    threads: Vec<AttendScratch>,
    /// Parts of all chunks of all query heads, where a job is a chunk.
    pub(crate) parts: Vec<f32>,
}

impl AttendScratchPool {
    pub(crate) fn new(network: &Network, max_rows: usize, chunks: usize, threads: usize) -> Self {
        let queries = network
            .max_attention(|a| tile_rows((sharing(a), a.kv_heads), max_rows, 0) * sharing(a));
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

/// Returns the number of rows of a tile: as many as leave `min_tiles` tiles, but no fewer than make use of the keys.
fn tile_rows((sharing, kv_heads): (usize, usize), rows: usize, min_tiles: usize) -> usize {
    let [min_rows, max_rows] =
        [TILE_QUERIES, MAX_TILE_QUERIES].map(|queries| (queries / sharing).max(1));
    let enough = (rows * kv_heads).checked_div(min_tiles).unwrap_or(max_rows);
    (enough.min(max_rows) / min_rows * min_rows).max(min_rows)
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

impl AttendStep<'_> {
    /// Computes every head of every row over the positions that the row sees.
    pub(crate) fn run(&self, scratch: &mut AttendScratchPool, heads: &mut [f32]) {
        let AttendScratchPool { threads, parts } = scratch;
        let longest_run = self.rows.chunk_by(|a, b| a.segment == b.segment).map(<[Row]>::len).max();
        let min_tiles = TILES_PER_THREAD * self.cx.pool.threads();
        let shape = (sharing(self.recipe), self.recipe.kv_heads);
        let tile_rows = tile_rows(shape, self.rows.len(), min_tiles);
        let tile_rows = longest_run.unwrap_or(1).min(tile_rows);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_as_large_as_leaves_work_for_all_threads() {
        // 20 query heads and 5 K/V heads, on two threads.
        assert_eq!(tile_rows((4, 5), 1, 16), 4);
        assert_eq!(tile_rows((4, 5), 32, 16), 8);
        assert_eq!(tile_rows((4, 5), 256, 16), 16);
        // The same on sixteen threads.
        assert_eq!(tile_rows((4, 5), 256, 128), 8);
        // As many K/V heads as query heads, and one for many.
        assert_eq!(tile_rows((1, 20), 256, 16), 64);
        assert_eq!(tile_rows((100, 1), 256, 16), 1);
        // Scratch is made for as many rows as a tile can have.
        for sharing in 1..80 {
            let most = tile_rows((sharing, 2), 4096, 0);
            assert!((1..4096).all(|rows| tile_rows((sharing, 2), rows, 16) <= most), "{sharing}");
        }
    }
}
