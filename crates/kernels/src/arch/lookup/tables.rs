//! Tables of all sums of four columns.

use super::lanes::LookupLanes;
use super::{ENTRIES, Tokens};
use crate::QuantRow;
use crate::arch::Lines;
use crate::line::Line;

/// The activations of sixteen columns for `H` registers of tokens.
pub(super) type Columns<const H: usize> = [[Tokens; H]; 16];

/// Returns sixteen columns from `first` on of up to `16 * H` tokens. Missing tokens are zero.
#[inline(always)]
pub(super) fn columns_of<C: LookupLanes, const H: usize>(
    cpu: C,
    xs: &[QuantRow],
    first: usize,
) -> Columns<H> {
    let mut columns = [[[0; 16]; H]; 16];
    for (h, xs) in xs.chunks(16).enumerate() {
        let mut rows = [cpu.load_codes(&[0; 16]); 16];
        for (row, x) in rows.iter_mut().zip(xs) {
            *row = cpu.load_codes(&x.codes()[first..].as_chunks().0[0]);
        }
        for (columns, row) in columns.iter_mut().zip(transposed(cpu, rows)) {
            cpu.store_tokens(cpu.codes_to_tokens(row), &mut columns[h]);
        }
    }
    columns
}

/// Transposes sixteen rows of sixteen bytes. Each round moves the byte at bits `rrrrcccc` of its place,
/// register and byte, to the place with these bits rotated by one.
#[inline(always)]
fn transposed<C: LookupLanes>(cpu: C, mut rows: [C::Bytes; 16]) -> [C::Bytes; 16] {
    for _ in 0..4 {
        let mut next = rows;
        for i in 0..8 {
            [next[2 * i], next[2 * i + 1]] = cpu.zip_bytes(rows[i], rows[i + 8]);
        }
        rows = next;
    }
    rows
}

/// Fills a table: entry `c0 + 3 c1 + 9 c2 + 27 c3` is the sum of column `i` times `ci - 1`.
#[inline(always)]
pub(super) fn fill_table<C: LookupLanes, const H: usize>(
    cpu: C,
    columns: [&[Tokens; H]; 4],
    table: &mut [Tokens],
) {
    assert_eq!(table.len(), ENTRIES * H, "a whole table");
    for h in 0..H {
        let [mut a, mut b, mut c, mut d] = [cpu.zero_tokens(); 4];
        for (value, column) in [&mut a, &mut b, &mut c, &mut d].into_iter().zip(columns) {
            *value = cpu.load_tokens(&column[h]);
        }
        let highest = cpu.add_tokens(cpu.add_tokens(a, b), cpu.add_tokens(c, d));
        let mut triples = table.chunks_exact_mut(3 * H);
        let mut by_d = cpu.sub_tokens(cpu.zero_tokens(), highest);
        for _ in 0..3 {
            let mut by_c = by_d;
            for _ in 0..3 {
                let mut by_b = by_c;
                for _ in 0..3 {
                    let Some(triple) = triples.next() else { return };
                    let middle = cpu.add_tokens(by_b, a);
                    cpu.store_tokens(by_b, &mut triple[h]);
                    cpu.store_tokens(middle, &mut triple[H + h]);
                    cpu.store_tokens(cpu.add_tokens(middle, a), &mut triple[2 * H + h]);
                    by_b = cpu.add_tokens(by_b, b);
                }
                by_c = cpu.add_tokens(by_c, c);
            }
            by_d = cpu.add_tokens(by_d, d);
        }
    }
}

/// Returns lines of zeros for at least `bytes` bytes.
pub(super) fn lines(bytes: usize) -> Lines {
    Lines::filled(Line([0; 64]), bytes.div_ceil(size_of::<Line>()))
}
