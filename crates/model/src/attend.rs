//! Which thread attends to what.
//!
//! A tile is some neighbouring rows of a step and one K/V head: what its rows and their query heads
//! share is read once for all of them. Where tiles are many, a job is a tile. Where they are few, as
//! when one sequence decodes, a job is one chunk of a tile's positions, and a second run joins the
//! chunks. Either way, the bits are those that the kernels define.

use wf_formats::ModelConfig;
use wf_kernels::{AttendScratch, CHUNK, Queries, attend, clear, finish, part_len};

use crate::compute::Compute;
use crate::kv::KvPool;
use crate::scratch::Row;
use crate::segment::Segment;

/// Query heads of a tile, unless one row has more: enough to make something of each key.
const TILE_QUERIES: usize = 16;

/// With this many tiles for each thread there is work for all, to the end.
const TILES_PER_THREAD: usize = 8;

/// Room to attend in.
pub(crate) struct AttendRoom {
    threads: Vec<AttendScratch>,
    /// Parts of all chunks of all query heads, where a job is a chunk.
    parts: Vec<f32>,
    /// How many positions each row of the step sees.
    visible: Vec<usize>,
    scale: f32,
}

impl AttendRoom {
    pub(crate) fn new(
        config: &ModelConfig,
        max_rows: usize,
        positions: usize,
        threads: usize,
    ) -> Self {
        let (sharing, head_dim) = (config.heads / config.kv_heads, config.head_dim);
        let queries = tile_rows_at_most(config) * sharing;
        // As many rows as can be too few, each with all of its chunks.
        let rows = max_rows.min((TILES_PER_THREAD * threads).div_ceil(config.kv_heads));
        let parts = rows * config.heads * positions.div_ceil(CHUNK) * part_len(head_dim);
        Self {
            threads: (0..threads).map(|_| AttendScratch::new(queries, head_dim)).collect(),
            parts: vec![0.0; parts],
            visible: Vec::with_capacity(max_rows),
            // Exact: the correctly rounded root of an integer, and one correctly rounded division.
            scale: 1.0 / (head_dim as f32).sqrt(),
        }
    }
}

/// What every job of a step knows.
#[derive(Clone, Copy)]
struct Step<'a> {
    cx: &'a Compute,
    config: &'a ModelConfig,
    kv: &'a KvPool,
    layer: usize,
    batch: &'a [Segment<'a>],
    rows: &'a [Row],
    query: &'a [f32],
    visible: &'a [usize],
    scale: f32,
}

/// Each head of each row attends to the positions its row sees, read back from the pages.
pub(crate) fn attend_all(
    cx: &Compute,
    config: &ModelConfig,
    (kv, layer): (&KvPool, usize),
    batch: &[Segment<'_>],
    rows: &[Row],
    query: &[f32],
    (heads, room): (&mut [f32], &mut AttendRoom),
) {
    room.visible.clear();
    room.visible.extend(rows.iter().map(|row| row.visible));
    let (visible, scale) = (&room.visible[..], room.scale);
    let step = Step { cx, config, kv, layer, batch, rows, query, visible, scale };
    let longest_run = rows.chunk_by(|a, b| a.segment == b.segment).map(<[Row]>::len).max();
    let tile_rows = longest_run.unwrap_or(1).min(tile_rows_at_most(config));
    let tiles = rows.len().div_ceil(tile_rows) * config.kv_heads;
    let chunks = visible.iter().max().map_or(0, |visible| visible.div_ceil(CHUNK));
    let slot_len = tile_rows * step.sharing() * part_len(config.head_dim);
    let few = tiles < TILES_PER_THREAD * cx.pool.threads();
    match room.parts.get_mut(..tiles * chunks * slot_len) {
        Some(parts) if few && chunks > 1 => {
            step.chunk_by_chunk(tile_rows, (parts, slot_len), &mut room.threads, heads);
        }
        _ => step.tile_by_tile(tile_rows, &mut room.threads, heads),
    }
}

fn tile_rows_at_most(config: &ModelConfig) -> usize {
    (TILE_QUERIES / (config.heads / config.kv_heads)).max(1)
}

impl<'a> Step<'a> {
    /// Query heads of a row that share a K/V head.
    fn sharing(&self) -> usize {
        self.config.heads / self.config.kv_heads
    }

    /// Elements of the query heads of a row that share a K/V head.
    fn width(&self) -> usize {
        self.sharing() * self.config.head_dim
    }

    fn tile_by_tile(&self, tile_rows: usize, scratch: &mut [AttendScratch], heads: &mut [f32]) {
        let query_len = self.config.heads * self.config.head_dim;
        let tile = (tile_rows, self.width());
        self.cx.pool.tiles_with((heads, query_len), tile, scratch, |tile, kv_head, mut out, s| {
            for (first, run) in self.runs(tile * tile_rows, tile_rows) {
                let (q, kv) = self.queries(first, run, kv_head);
                attend(self.cx.kernel, &q, &kv, s, (&mut out, first - tile * tile_rows));
            }
        });
    }

    fn chunk_by_chunk(
        &self,
        tile_rows: usize,
        (parts, slot_len): (&mut [f32], usize),
        scratch: &mut [AttendScratch],
        heads: &mut [f32],
    ) {
        let (kernel, kv_heads) = (self.cx.kernel, self.config.kv_heads);
        let row_len = self.sharing() * part_len(self.config.head_dim);
        let tiles = self.rows.len().div_ceil(tile_rows) * kv_heads;
        let chunks = parts.len() / slot_len / tiles;
        self.cx.pool.rows_with(parts, slot_len, scratch, |job, slot, s| {
            let (tile, chunk) = (job / chunks, job % chunks);
            let start = tile / kv_heads * tile_rows;
            for (first, run) in self.runs(start, tile_rows) {
                let (q, kv) = self.queries(first, run, tile % kv_heads);
                let parts = &mut slot[(first - start) * row_len..][..run * row_len];
                if chunk < q.chunks() {
                    s.prepare(kernel, &q, &kv);
                    kernel.attend_chunk(&q, &kv, chunk, s, parts);
                } else {
                    clear(parts);
                }
            }
        });
        // Each row and K/V head joins its chunks in the first one's place.
        self.cx.pool.rows(parts, chunks * slot_len, |_, slots| {
            let (first, later) = slots.split_at_mut(slot_len);
            for next in later.chunks_exact(slot_len) {
                kernel.join_chunks(part_len(self.config.head_dim), first, next);
            }
        });
        let parts = &*parts;
        for (job, out) in heads.chunks_exact_mut(self.width()).enumerate() {
            let (row, kv_head) = (job / kv_heads, job % kv_heads);
            let tile = row / tile_rows * kv_heads + kv_head;
            let slot = &parts[tile * chunks * slot_len..][row % tile_rows * row_len..];
            finish(&slot[..row_len], self.config.head_dim, out);
        }
    }

    /// The runs of rows of one segment among the `len` rows from `start` on: first row, and length.
    fn runs(&self, start: usize, len: usize) -> impl Iterator<Item = (usize, usize)> {
        let rows = &self.rows[start..self.rows.len().min(start + len)];
        rows.chunk_by(|a, b| a.segment == b.segment).scan(start, |first, run| {
            let place = (*first, run.len());
            *first += run.len();
            Some(place)
        })
    }

    fn queries(
        &self,
        first: usize,
        rows: usize,
        kv_head: usize,
    ) -> (Queries<'a>, wf_kernels::KvHead<'a>) {
        let stride = self.config.heads * self.config.head_dim;
        let q = Queries {
            data: &self.query[first * stride + kv_head * self.width()..],
            stride,
            heads: self.sharing(),
            visible: &self.visible[first..first + rows],
            scale: self.scale,
        };
        let pages = self.batch[self.rows[first].segment].pages;
        (q, self.kv.head(self.layer, kv_head, pages))
    }
}
