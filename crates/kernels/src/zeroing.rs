//! Sets the smallest activations of a token to zero.
//!
//! The codes of a row decide, and nothing else: which of them become zero depends on the row and the rule, so products
//! afterwards are exact integers of fewer terms. A row of sixteen bits keeps or loses both of its codes.

use std::cell::RefCell;

use crate::QuantRow;

/// Activations of a token that are set to zero, after they have codes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Zeroing {
    /// None.
    #[default]
    None,
    /// All but this share, those of the largest magnitudes; of equal ones, those of lower columns are kept.
    AllBut(f32),
    /// Those whose magnitude is at most this. A NaN is kept.
    UpTo(f32),
}

impl Zeroing {
    /// Returns the number of columns of `cols` that [`AllBut`](Self::AllBut) a share keeps: rounded, and at least
    /// one.
    pub fn kept(share: f32, cols: usize) -> usize {
        ((f64::from(share) * cols as f64).round() as usize).clamp(1, cols.max(1))
    }

    /// Returns `true` if a row of `cols` columns stays as it is.
    fn keeps_all(self, cols: usize) -> bool {
        match self {
            Self::None => true,
            Self::AllBut(share) => Self::kept(share, cols) >= cols,
            Self::UpTo(_) => false,
        }
    }

    /// Sets codes of a token to zero: of one row, or of both rows of sixteen bits.
    pub(crate) fn apply(self, rows: &mut [QuantRow], cols: usize) {
        if self.keeps_all(cols) {
            return;
        }
        BUFFERS.with_borrow_mut(|Buffers { keys, kept }| {
            let bits = match self {
                Self::UpTo(limit) => {
                    fill(kept, magnitudes(rows, cols).map(|x| !is_up_to(x, limit)));
                    None
                }
                _ => Some(fill_keys(keys, rows, cols)),
            };
            if let (Self::AllBut(share), Some(bits)) = (self, bits) {
                keep_largest(keys, bits, Self::kept(share, cols), kept);
            }
            for row in rows {
                row.keep_codes(kept);
            }
        });
    }

    /// Sets values of a token that has no codes to zero.
    pub(crate) fn apply_to_floats(self, x: &mut [f32]) {
        if self.keeps_all(x.len()) {
            return;
        }
        BUFFERS.with_borrow_mut(|Buffers { keys, kept }| {
            match self {
                Self::UpTo(limit) => fill(kept, x.iter().map(|x| !is_up_to(x.abs(), limit))),
                Self::AllBut(share) => {
                    fill(keys, x.iter().map(|x| x.abs().to_bits()));
                    keep_largest(keys, u32::BITS, Self::kept(share, x.len()), kept);
                }
                Self::None => unreachable!("keeps all"),
            }
            for (x, kept) in x.iter_mut().zip(kept) {
                *x = if *kept { *x } else { 0.0 };
            }
        });
    }
}

#[derive(Default)]
struct Buffers {
    /// Numbers that are ordered as magnitudes are.
    keys: Vec<u32>,
    /// True for columns that keep their codes.
    kept: Vec<bool>,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = const { RefCell::new(Buffers { keys: Vec::new(), kept: Vec::new() }) };
}

fn fill<T>(buffer: &mut Vec<T>, values: impl Iterator<Item = T>) {
    buffer.clear();
    buffer.extend(values);
}

fn is_up_to(magnitude: f32, limit: f32) -> bool {
    magnitude <= limit
}

/// Returns the magnitudes of the columns of a token.
pub(crate) fn magnitudes(rows: &[QuantRow], cols: usize) -> impl Iterator<Item = f32> {
    let coarse = &rows[0];
    let fine = rows.get(1);
    (0..cols).map(move |column| {
        let value = f32::from(coarse.codes()[column]) * coarse.scale_of(column);
        let rest = fine.map_or(0.0, |fine| f32::from(fine.codes()[column]) * fine.scale());
        (value + rest).abs()
    })
}

/// Fills `keys` with a number for each column, ordered as magnitudes are, and returns their width in bits.
fn fill_keys(keys: &mut Vec<u32>, rows: &[QuantRow], cols: usize) -> u32 {
    match rows {
        [row] if row.group_scales().is_some() => {
            fill(keys, magnitudes(rows, cols).map(f32::to_bits));
            u32::BITS
        }
        [row] => {
            fill(keys, row.codes()[..cols].iter().map(|code| u32::from(code.unsigned_abs())));
            8
        }
        [coarse, fine, ..] => {
            let pairs = coarse.codes()[..cols].iter().zip(fine.codes());
            fill(keys, pairs.map(|(&coarse, &fine)| key_of_both(coarse, fine)));
            16
        }
        [] => unreachable!("a token has a row"),
    }
}

/// Orders pairs of codes by magnitude. The second is at most half a step of the first, so the first decides, and
/// then what the second adds to it or takes away.
fn key_of_both(coarse: i8, fine: i8) -> u32 {
    let rest = match coarse.signum() {
        0 => return u32::from(fine.unsigned_abs()),
        sign => i32::from(sign) * i32::from(fine),
    };
    256 * u32::from(coarse.unsigned_abs()) + (rest + 128) as u32
}

/// Sets `kept` for the `count` largest of `keys`, which have `bits` bits; of equal ones, for the first.
fn keep_largest(keys: &[u32], bits: u32, count: usize, kept: &mut Vec<bool>) {
    let (smallest, mut places) = smallest_kept(keys, bits, count);
    fill(
        kept,
        keys.iter().map(|&key| {
            let takes_place = key == smallest && places > 0;
            places -= usize::from(takes_place);
            key > smallest || takes_place
        }),
    );
}

/// Returns the smallest of the `count` largest keys, and how many of those are equal to it.
///
/// Digits of eight bits are found from the highest on, by counting the keys that have the digits before.
fn smallest_kept(keys: &[u32], bits: u32, mut count: usize) -> (u32, usize) {
    let (mut prefix, mut shift) = (0, bits);
    while shift > 0 {
        shift -= 8;
        // Neighbours are often equal, and two tables let their counts pass each other.
        let mut counts = [[0_usize; 256]; 2];
        for (i, &key) in keys.iter().enumerate() {
            // A shift by all 32 bits would not be one.
            if u64::from(key) >> (shift + 8) == prefix {
                counts[i % 2][(key >> shift) as usize % 256] += 1;
            }
        }
        let of_digit = |digit: usize| counts[0][digit] + counts[1][digit];
        let mut digit = 255;
        while of_digit(digit) < count {
            count -= of_digit(digit);
            digit -= 1;
        }
        prefix = prefix << 8 | digit as u64;
    }
    (prefix as u32, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, QuantBatch, best};

    fn codes_of(rows: &[QuantRow], cols: usize) -> Vec<Vec<i8>> {
        rows.iter().map(|row| row.codes()[..cols].to_vec()).collect()
    }

    fn random(len: usize, seed: u32) -> Vec<f32> {
        let mut state = seed | 1;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..len).map(next).map(|x: f32| x * x * x).collect()
    }

    #[test]
    fn the_largest_codes_are_kept_and_of_equal_ones_the_first() {
        let codes = [3, -5, 0, 5, 1, -3, 3, 2];
        for (share, expected) in [
            (1.0, [3, -5, 0, 5, 1, -3, 3, 2]),
            (0.5, [3, -5, 0, 5, 0, -3, 0, 0]),
            (0.25, [0, -5, 0, 5, 0, 0, 0, 0]),
            (0.01, [0, -5, 0, 0, 0, 0, 0, 0]),
        ] {
            let mut row = QuantRow::from_codes(&codes, 0.5);
            Zeroing::AllBut(share).apply(std::slice::from_mut(&mut row), codes.len());
            assert_eq!(row.codes()[..8], expected, "{share}");
            assert_eq!(row.sum(), expected.iter().map(|&code| i32::from(code)).sum::<i32>());
        }
        let mut row = QuantRow::from_codes(&codes, 0.5);
        Zeroing::UpTo(1.0).apply(std::slice::from_mut(&mut row), codes.len());
        assert_eq!(
            row.codes()[..8],
            [3, -5, 0, 5, 0, -3, 3, 0],
            "a limit is for values, not codes"
        );
    }

    #[test]
    fn as_many_are_kept_as_the_share_says_for_all_codes() {
        let (cols, pool) = (300, Pool::new(2));
        let x = random(3 * cols, 7);
        for share in [0.013_f32, 0.5, 0.6, 0.999] {
            let zeroing = Zeroing::AllBut(share);
            let kept = Zeroing::kept(share, cols);
            let mut whole = QuantBatch::new(6, cols);
            whole.quantize_twice(best(), &pool, &x, &mut vec![0.0; x.len()], cols);
            let mut batch = QuantBatch::new(6, cols);
            let mut errors = vec![0.0; x.len()];
            batch.set_zeroing(zeroing);
            batch.quantize_twice(best(), &pool, &x, &mut errors, cols);
            for (token, rows) in batch.rows().chunks(2).enumerate() {
                let smallest_kept = magnitudes(rows, cols).filter(|x| *x > 0.0).fold(1.0, f32::min);
                let zeros = magnitudes(rows, cols).filter(|x| *x == 0.0).count();
                let whole = magnitudes(&whole.rows()[2 * token..][..2], cols);
                let non_zeros = whole.filter(|x| *x > 0.0).count();
                assert_eq!(cols - zeros, kept.min(non_zeros), "share {share}, token {token}");
                let dropped =
                    (0..cols).filter(|&i| rows[0].codes()[i] == 0 && rows[1].codes()[i] == 0);
                for column in dropped {
                    let was = x[token * cols + column].abs();
                    assert!(was <= smallest_kept * 1.001, "column {column}: {was} {smallest_kept}");
                }
            }
            batch.quantize_groups(best(), &pool, &x, cols);
            for row in batch.rows() {
                assert!(row.codes().iter().filter(|code| **code != 0).count() <= kept);
            }
            let mut floats = QuantBatch::of_floats(3, cols);
            floats.set_zeroing(zeroing);
            floats.copy_floats(&x, cols);
            for row in floats.floats().chunks(cols) {
                assert_eq!(row.iter().filter(|x| **x != 0.0).count(), kept);
            }
        }
    }

    #[test]
    fn a_row_does_not_depend_on_the_others_or_on_tiles() {
        let (cols, pool) = (200, Pool::new(2));
        let x = random(40 * cols, 3);
        for zeroing in [Zeroing::AllBut(0.4), Zeroing::UpTo(0.1), Zeroing::None] {
            let mut all = QuantBatch::new(40, cols);
            all.set_zeroing(zeroing);
            all.quantize_to_tiles(best(), &pool, (&x, false), cols);
            for token in 0..40 {
                let mut one = QuantBatch::new(1, cols);
                one.set_zeroing(zeroing);
                one.quantize(best(), &pool, &x[token * cols..][..cols], cols);
                let expected = codes_of(one.rows(), cols);
                assert_eq!(codes_of(&all.rows()[token..=token], cols), expected);
                let band = all.tiles().band(token / 16);
                let tiled: Vec<i8> = (0..cols.div_ceil(64))
                    .flat_map(|tile| band[tile][token % 16].0.map(u8::cast_signed))
                    .collect();
                assert_eq!(tiled[..cols], expected[0]);
            }
        }
    }

    #[test]
    fn a_row_that_is_not_a_number_stays_none() {
        let mut x = random(64, 1);
        x[5] = f32::NAN;
        for zeroing in [Zeroing::AllBut(0.1), Zeroing::UpTo(100.0)] {
            let mut batch = QuantBatch::new(1, 64);
            batch.set_zeroing(zeroing);
            batch.quantize(best(), &Pool::new(1), &x, 64);
            assert!(batch.rows()[0].scale().is_nan());
            let mut floats = x.clone();
            zeroing.apply_to_floats(&mut floats);
            assert!(floats[5].is_nan());
        }
    }

    #[test]
    fn pairs_of_codes_are_ordered_as_their_values() {
        let value = |(coarse, fine): (i8, i8)| (i32::from(coarse) * 254 + i32::from(fine)).abs();
        let pairs: Vec<(i8, i8)> =
            (-127..=127).flat_map(|a: i8| [-127, -64, -1, 0, 1, 90, 126].map(|b| (a, b))).collect();
        for &a in pairs.iter().step_by(5) {
            for &b in &pairs {
                let keys = key_of_both(a.0, a.1).cmp(&key_of_both(b.0, b.1));
                let values = value(a).cmp(&value(b));
                // The ends of neighbouring steps meet.
                assert!(keys == values || (value(a) - value(b)).abs() <= 1, "{a:?} {b:?}");
            }
        }
    }
}
