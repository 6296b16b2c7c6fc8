//! Attention on tiles: sixteen query heads at a time.

use std::arch::asm;
use std::ops::Range;

use super::Amx;
use super::tiles::Tiles;
use crate::arch::numbers;
use crate::attend::Job;
use crate::attend::bf16::{self, Products};
use crate::kv::{BLOCK, PAGE_LEN, TILE};
use crate::lanes::Simd;
use crate::tiles::BAND;
use crate::{AttendScratch, CHUNK, KvDtype, KvHead, Queries, part_len};

/// Bytes in a row of a tile, and from one row to the next in a tile of keys.
const ROW: usize = 64;

/// Tiles of values, sixteen elements each, that are multiplied by one load of weights.
const COLUMNS_AT_ONCE: usize = 4;

/// See [`TileKernel::attend_chunk`](crate::TileKernel::attend_chunk).
pub(super) fn attend_chunk(
    cpu: Amx,
    q: &Queries<'_>,
    kv: &KvHead<'_>,
    chunk: usize,
    scratch: &mut AttendScratch,
    parts: &mut [f32],
) {
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")]
    fn compiled(cpu: Amx, job: &Job<'_>, scratch: &mut AttendScratch, parts: &mut [f32]) {
        bf16::attend(*cpu.vectors, &OnTiles(cpu), job, scratch, parts);
    }
    assert!(cpu.bf16 && kv.dtype() == KvDtype::Bf16, "tiles and keys in bf16");
    let job = Job::start(q, kv, chunk, parts);
    // SAFETY: `cpu` exists, so the CPU has the features.
    unsafe { compiled(cpu, &job, scratch, parts) };
}

struct OnTiles(Amx);

impl Products for OnTiles {
    #[inline(always)]
    fn scores(&self, job: &Job<'_>, queries: &[f32], bits: &mut [u16], scores: &mut [f32]) {
        let key_len = job.kv.key_len();
        narrow(queries, bits);
        for (tiles, range) in bands(self.0, job.q.len()) {
            let queries = &bits[range.start * key_len..range.end * key_len];
            let scores = &mut scores[range.start * CHUNK..range.end * CHUNK];
            for page in job.seen_pages() {
                if range.start == 0 {
                    prefetch_after_keys(*self.0.vectors, job, page);
                }
                let keys = numbers(job.kv.keys(job.first_page + page));
                tiles.multiply_keys(queries, keys, &mut scores[page * PAGE_LEN..]);
            }
        }
    }

    #[inline(always)]
    fn weigh(&self, job: &Job<'_>, weights: &[f32], bits: &mut [u16], parts: &mut [f32]) {
        let part_len = part_len(job.kv.head_dim());
        let seen = job.seen_pages();
        let mut pages: [&[u16]; CHUNK / PAGE_LEN] = Default::default();
        for (values, page) in pages.iter_mut().zip(seen.clone()) {
            *values = job.kv.values(job.first_page + page);
        }
        let pages = &pages[..seen.len()];
        narrow(weights, bits);
        for (tiles, range) in bands(self.0, job.q.len()) {
            let weights = &bits[range.start * CHUNK..range.end * CHUNK][seen.start * PAGE_LEN..];
            let parts = &mut parts[range.start * part_len..range.end * part_len];
            tiles.multiply_values(weights, pages, job.kv.row_len(), parts);
        }
    }
}

/// Prefetches what is read after the keys of a page: the keys of the next and the values of this one.
#[inline(always)]
fn prefetch_after_keys(cpu: impl Simd, job: &Job<'_>, page: usize) {
    if page + 1 < job.seen_pages().end {
        cpu.prefetch(job.kv.keys(job.first_page + page + 1));
    }
    cpu.prefetch(job.kv.values::<u8>(job.first_page + page));
}

/// Stores numbers that are bf16 already as such.
#[inline(always)]
fn narrow(numbers: &[f32], bits: &mut [u16]) {
    for (bits, number) in bits[..numbers.len()].iter_mut().zip(numbers) {
        *bits = (number.to_bits() >> 16) as u16;
    }
}

/// Iterates over bands of at most sixteen query heads, with tiles that have a row for each.
fn bands(cpu: Amx, queries: usize) -> impl Iterator<Item = (QueryTiles, Range<usize>)> {
    (0..queries).step_by(BAND).map(move |first| {
        let range = first..queries.min(first + BAND);
        (QueryTiles::configure(cpu, range.len()), range)
    })
}

/// The tile registers of this thread, configured for some query heads: `tmm0` to `tmm3` are sums, `tmm4`
/// queries or weights, `tmm6` keys or values.
struct QueryTiles {
    /// Proves the configuration.
    _tiles: Tiles,
    /// Number of query heads: rows of `tmm0` to `tmm4`.
    heads: usize,
}

impl QueryTiles {
    fn configure(cpu: Amx, heads: usize) -> Self {
        Self { _tiles: Tiles::configure_rows(cpu, heads, &[0, 1, 2, 3, 4]), heads }
    }

    /// Computes the dot products of the query heads and the keys of a page. Those of a head follow each
    /// other in `scores`, [`CHUNK`] elements from those of the head before.
    fn multiply_keys(&self, queries: &[u16], keys: &[u16], scores: &mut [f32]) {
        let key_len = queries.len() / self.heads;
        assert_eq!(queries.len(), self.heads * key_len, "whole queries");
        assert!(key_len >= BLOCK && key_len.is_multiple_of(BLOCK), "whole blocks");
        assert_eq!(keys.len(), PAGE_LEN * key_len, "the keys of a page");
        assert!(scores.len() >= (self.heads - 1) * CHUNK + PAGE_LEN, "the scores of a page");
        let (left, right) = keys.split_at(TILE * key_len);
        // SAFETY: the tiles are configured, and their shapes fit. `tmm4` has a row for each query head,
        // `2 * key_len` bytes apart, and reads 64 bytes of each in every one of `key_len / 32` steps, in
        // which `tmm6` reads sixteen rows of 64 bytes of `left` and of `right`, which have as many.
        // `tmm0` and `tmm1` have a row of 64 bytes for each query head.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "2:",
                "tileloadd tmm4, [{queries} + {query}*1]",
                "tileloadd tmm6, [{left} + {row}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm6, [{right} + {row}*1]",
                "tdpbf16ps tmm1, tmm4, tmm6",
                "add {queries}, 64",
                "add {left}, 1024",
                "add {right}, 1024",
                "dec {blocks}",
                "jnz 2b",
                "tilestored [{scores} + {head}*1], tmm0",
                "tilestored [{scores} + {head}*1 + 64], tmm1",
                queries = inout(reg) queries.as_ptr() => _,
                left = inout(reg) left.as_ptr() => _,
                right = inout(reg) right.as_ptr() => _,
                blocks = inout(reg) key_len / BLOCK => _,
                scores = in(reg) scores.as_mut_ptr(),
                query = in(reg) key_len * size_of::<u16>(),
                head = in(reg) CHUNK * size_of::<f32>(),
                row = in(reg) ROW,
                out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _,
                options(nostack)
            );
        }
    }

    /// Computes the weighted values of some pages. Weights of a head follow each other, [`CHUNK`] elements
    /// from those of the head before.
    fn multiply_values(
        &self,
        weights: &[u16],
        pages: &[&[u16]],
        row_len: usize,
        parts: &mut [f32],
    ) {
        let part_len = parts.len() / self.heads;
        assert!(parts.len() == self.heads * part_len && part_len >= row_len, "whole parts");
        assert!(row_len.is_multiple_of(TILE), "whole tiles");
        assert!(
            weights.len() >= (self.heads - 1) * CHUNK + pages.len() * PAGE_LEN,
            "the weights of all pages"
        );
        let mut starts = [std::ptr::null(); CHUNK / PAGE_LEN];
        let starts = &mut starts[..pages.len()];
        for (start, page) in starts.iter_mut().zip(pages) {
            assert_eq!(page.len(), PAGE_LEN * row_len, "the values of a page");
            *start = page.as_ptr();
        }
        if starts.is_empty() {
            return;
        }
        let columns = row_len / TILE;
        let whole = columns - columns % COLUMNS_AT_ONCE;
        for column in (0..whole).step_by(COLUMNS_AT_ONCE) {
            // SAFETY: `column` and the next three are columns, the rest was checked.
            unsafe { multiply_four(weights, starts, (row_len, column), parts, part_len) };
        }
        for column in whole..columns {
            // SAFETY: `column` is one, the rest was checked.
            unsafe { multiply_one(weights, starts, (row_len, column), parts, part_len) };
        }
    }
}

/// Defines a function that computes sixteen elements of the weighted values for each of some tiles of sums, from
/// `16 * column` on.
macro_rules! weighted_values {
    ($name:ident: zero [$($zero:literal)*], multiply [$($multiply:literal)*], store [$($store:literal)*]) => {
        /// # Safety
        ///
        /// The tiles are configured as [`QueryTiles`] says. The row of each head has room for the elements,
        /// `part_len` elements from the row before. There are pages, each has sixteen rows of `row_len` pairs,
        /// and each head has 32 weights for each.
        unsafe fn $name(
            weights: &[u16],
            pages: &[*const u16],
            (row_len, column): (usize, usize),
            parts: &mut [f32],
            part_len: usize,
        ) {
            // SAFETY: the shapes of the tiles fit: `tmm0` to `tmm4` have a row for each head, of 32 weights or
            // sixteen sums, `tmm6` sixteen rows of sixteen pairs. The caller has checked the bounds.
            unsafe {
                asm!(
                    $($zero,)*
                    "2:",
                    "mov {values}, [{pages}]",
                    "add {values}, {column}",
                    "tileloadd tmm4, [{weights} + {weight_row}*1]",
                    $($multiply,)*
                    "add {weights}, 64",
                    "add {pages}, 8",
                    "dec {steps}",
                    "jnz 2b",
                    $($store,)*
                    values = out(reg) _,
                    pages = inout(reg) pages.as_ptr() => _,
                    steps = inout(reg) pages.len() => _,
                    column = in(reg) column * ROW,
                    weights = inout(reg) weights.as_ptr() => _,
                    weight_row = in(reg) CHUNK * size_of::<u16>(),
                    row = in(reg) row_len * size_of::<[u16; 2]>(),
                    parts = in(reg) parts.as_mut_ptr().add(column * TILE),
                    part = in(reg) part_len * size_of::<f32>(),
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm6") _,
                    options(nostack)
                );
            }
        }
    };
}

weighted_values! { multiply_four:
    zero ["tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3"],
    multiply [
        "tileloadd tmm6, [{values} + {row}*1]"
        "tdpbf16ps tmm0, tmm4, tmm6"
        "tileloadd tmm6, [{values} + {row}*1 + 64]"
        "tdpbf16ps tmm1, tmm4, tmm6"
        "tileloadd tmm6, [{values} + {row}*1 + 128]"
        "tdpbf16ps tmm2, tmm4, tmm6"
        "tileloadd tmm6, [{values} + {row}*1 + 192]"
        "tdpbf16ps tmm3, tmm4, tmm6"
    ],
    store [
        "tilestored [{parts} + {part}*1], tmm0"
        "tilestored [{parts} + {part}*1 + 64], tmm1"
        "tilestored [{parts} + {part}*1 + 128], tmm2"
        "tilestored [{parts} + {part}*1 + 192], tmm3"
    ]
}

weighted_values! { multiply_one:
    zero ["tilezero tmm0"],
    multiply ["tileloadd tmm6, [{values} + {row}*1]" "tdpbf16ps tmm0, tmm4, tmm6"],
    store ["tilestored [{parts} + {part}*1], tmm0"]
}
