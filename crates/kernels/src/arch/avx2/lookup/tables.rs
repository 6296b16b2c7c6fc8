//! Tables of all sums of four columns.

use std::arch::x86_64::*;

use super::{ENTRIES, Tokens};
use crate::QuantRow;
use crate::arch::Lines;
use crate::line::Line;

/// The activations of sixteen columns for `H` registers of tokens.
pub(super) type Columns<const H: usize> = [[Tokens; H]; 16];

/// Returns sixteen columns from `first` on of up to `16 * H` tokens. Missing tokens are zero.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn columns_of<const H: usize>(xs: &[QuantRow], first: usize) -> Columns<H> {
    let mut columns = [[[0; 16]; H]; 16];
    for (h, xs) in xs.chunks(16).enumerate() {
        let mut rows = [_mm_setzero_si128(); 16];
        for (row, x) in rows.iter_mut().zip(xs) {
            let codes: &[i8; 16] = &x.codes()[first..].as_chunks().0[0];
            // SAFETY: sixteen readable bytes; the load needs no alignment.
            *row = unsafe { _mm_loadu_si128(codes.as_ptr().cast()) };
        }
        for (columns, row) in columns.iter_mut().zip(transposed(rows)) {
            store(&mut columns[h], _mm256_cvtepi8_epi16(row));
        }
    }
    columns
}

/// Transposes sixteen rows of sixteen bytes. Each round moves the byte at bits `rrrrcccc` of its place,
/// register and byte, to the place with these bits rotated by one.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(mut rows: [__m128i; 16]) -> [__m128i; 16] {
    for _ in 0..4 {
        let mut next = rows;
        for i in 0..8 {
            next[2 * i] = _mm_unpacklo_epi8(rows[i], rows[i + 8]);
            next[2 * i + 1] = _mm_unpackhi_epi8(rows[i], rows[i + 8]);
        }
        rows = next;
    }
    rows
}

/// Fills a table: entry `c0 + 3 c1 + 9 c2 + 27 c3` is the sum of column `i` times `ci - 1`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn fill_table<const H: usize>(columns: [&[Tokens; H]; 4], table: &mut [Tokens]) {
    assert_eq!(table.len(), ENTRIES * H, "a whole table");
    let [a, b, c, d] = columns;
    for (h, (((a, b), c), d)) in a.iter().zip(b).zip(c).zip(d).enumerate() {
        let (a, b, c, d) = (load(a), load(b), load(c), load(d));
        let highest = _mm256_add_epi16(_mm256_add_epi16(a, b), _mm256_add_epi16(c, d));
        let lowest = _mm256_sub_epi16(_mm256_setzero_si256(), highest);
        let mut entry = table.as_mut_ptr().wrapping_add(h).cast::<__m256i>();
        let mut by_d = lowest;
        for _ in 0..3 {
            let mut by_c = by_d;
            for _ in 0..3 {
                let mut by_b = by_c;
                for _ in 0..3 {
                    let middle = _mm256_add_epi16(by_b, a);
                    // SAFETY: 27 times three entries, register `h` of each, are the table, whose length is
                    // checked above; the stores need no alignment.
                    unsafe {
                        _mm256_storeu_si256(entry, by_b);
                        _mm256_storeu_si256(entry.add(H), middle);
                        _mm256_storeu_si256(entry.add(2 * H), _mm256_add_epi16(middle, a));
                    }
                    entry = entry.wrapping_add(3 * H);
                    by_b = _mm256_add_epi16(by_b, b);
                }
                by_c = _mm256_add_epi16(by_c, c);
            }
            by_d = _mm256_add_epi16(by_d, d);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load(tokens: &Tokens) -> __m256i {
    // SAFETY: 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(tokens.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store(tokens: &mut Tokens, values: __m256i) {
    // SAFETY: 32 writable bytes; the store needs no alignment.
    unsafe { _mm256_storeu_si256(tokens.as_mut_ptr().cast(), values) };
}

/// Returns lines of zeros for at least `bytes` bytes.
pub(super) fn lines(bytes: usize) -> Lines {
    Lines::filled(Line([0; 64]), bytes.div_ceil(size_of::<Line>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_the_sum_of_its_trits_times_their_columns() {
        if !super::super::super::has_avx2() {
            return;
        }
        let column =
            |i: i16| [0, 1].map(|h| std::array::from_fn(|t| 31 * i - 9 * h + t as i16 - 40));
        let columns: [[Tokens; 2]; 4] = [0, 1, 2, 3].map(column);
        let mut table = [[0; 16]; 2 * ENTRIES];
        // SAFETY: the CPU has AVX2.
        unsafe { fill_table(columns.each_ref(), &mut table) };
        for (index, entry) in table.as_chunks::<2>().0.iter().enumerate() {
            for (h, tokens) in entry.iter().enumerate() {
                for (t, &sum) in tokens.iter().enumerate() {
                    let trit = |i: u32| (index / 3_usize.pow(i) % 3) as i16 - 1;
                    let expected: i16 = (0..4).map(|i| trit(i) * columns[i as usize][h][t]).sum();
                    assert_eq!(sum, expected, "entry {index}, token {t} of register {h}");
                }
            }
        }
    }
}
