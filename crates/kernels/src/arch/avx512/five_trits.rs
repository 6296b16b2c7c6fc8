//! Sums over lines of five trits per byte, with VBMI: `vpermb` looks up 64 bytes in a table of 64.
//!
//! `high` of a byte depends on its upper six bits alone, which select from three tables: one for each of
//! the two codes in `high`, and one for the amount that `high` adds to the byte. The rest of the byte is
//! `low`, with a table for each of its three codes. A line thus takes a shift, six lookups and a
//! subtraction for any number of tokens.

use std::arch::x86_64::*;

use crate::ahead::Ahead;
use crate::arch::x86_64::{prefetch_after, quad_as_i32};
use crate::layout::five_trits::{HIGH, LINE_COLS, codes};
use crate::line::{Line, STRIP};

/// Activations for one line, by four.
type Quads = [[i8; 4]; LINE_COLS / 4];

/// Codes are at most 2 and activations at least -128, so a sum stays within 2^8 * 2^17 = 2^25
/// (`MAX_COLS` is 2^17).
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512vbmi")]
pub(super) fn five_trit_sums<const T: usize>(
    lines: &[Line],
    tokens: [&[i8]; T],
    ahead: Ahead,
) -> [[i32; STRIP]; T] {
    let tables = Tables::load();
    // One for each part of a byte, because a `vpdpbusd` takes four cycles.
    let mut sums = [[_mm512_setzero_si512(); 5]; T];
    let whole_lines = lines.len().min(tokens[0].len() / LINE_COLS);
    let (lines, last_line) = lines.split_at(whole_lines);
    let quads = tokens.map(|codes| &quads_by_line(codes)[..whole_lines]);
    for (i, line) in lines.iter().enumerate() {
        if T <= 2 {
            prefetch_after(line);
        } else {
            ahead.of(line);
        }
        add_line(&tables, line, quads.map(|quads| &quads[i]), &mut sums);
    }
    for line in last_line {
        let padded = tokens.map(|codes| padded(&codes[whole_lines * LINE_COLS..]));
        add_line(&tables, line, padded.each_ref(), &mut sums);
    }
    let mut results = [[0; STRIP]; T];
    for (result, [a, b, c, d, e]) in results.iter_mut().zip(sums) {
        let sum = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
        // SAFETY: 64 writable bytes; the store needs no alignment.
        unsafe { _mm512_storeu_si512(result.as_mut_ptr().cast(), _mm512_add_epi32(sum, e)) };
    }
    results
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512vbmi")]
fn add_line<const T: usize>(
    tables: &Tables,
    line: &Line,
    tokens: [&Quads; T],
    sums: &mut [[__m512i; 5]; T],
) {
    let packed = load(line);
    // A shift of 16-bit words: the two bits that come over from the next byte are ignored.
    let upper = _mm512_srli_epi16::<2>(packed);
    let low = _mm512_sub_epi8(packed, _mm512_permutexvar_epi8(upper, tables.high));
    for part in 0..5 {
        let index = if part < 2 { upper } else { low };
        let codes = _mm512_permutexvar_epi8(index, tables.parts[part]);
        for (sums, quads) in sums.iter_mut().zip(tokens) {
            let quad = _mm512_set1_epi32(quad_as_i32(quads[part]));
            sums[part] = _mm512_dpbusd_epi32(sums[part], codes, quad);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(line: &Line) -> __m512i {
    // SAFETY: 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(line.0.as_ptr().cast()) }
}

fn quads_by_line(codes: &[i8]) -> &[Quads] {
    codes.as_chunks::<4>().0.as_chunks().0
}

/// Pads activations to the columns of a line with zeros.
fn padded(codes: &[i8]) -> Quads {
    let mut quads = [[0; 4]; LINE_COLS / 4];
    quads.as_flattened_mut()[..codes.len()].copy_from_slice(codes);
    quads
}

/// Tables in registers.
struct Tables {
    /// The amount that `high` adds to a byte, by its upper six bits.
    high: __m512i,
    /// The codes: two by the upper six bits of a byte, three by `low`.
    parts: [__m512i; 5],
}

impl Tables {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load() -> Self {
        Self { high: load(&HIGH_TABLE), parts: std::array::from_fn(|i| load(&CODE_TABLES[i])) }
    }
}

static HIGH_TABLE: Line = {
    let mut table = [0; 64];
    let mut upper = 0;
    while upper < 64 {
        table[upper] = 4 * upper as u8 / HIGH * HIGH;
        upper += 1;
    }
    Line(table)
};

static CODE_TABLES: [Line; 5] = {
    let mut tables = [Line([0; 64]); 5];
    let mut i = 0;
    while i < 64 {
        let (by_upper, by_low) = (codes(4 * i as u8), codes(i as u8 % HIGH));
        tables[0].0[i] = by_upper[0];
        tables[1].0[i] = by_upper[1];
        tables[2].0[i] = by_low[2];
        tables[3].0[i] = by_low[3];
        tables[4].0[i] = by_low[4];
        i += 1;
    }
    tables
};
