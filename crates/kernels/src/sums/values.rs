//! Sums of weighted values, for attention.

use crate::int_lanes::{IntLanes, ValuePages, ValuePairs, WeightPair};

/// For each of `T` rows of weights and of `B` blocks of sixteen columns from block `first` on, returns
/// the sum of weight times value over all positions, which the caller knows to fit into 32 bits.
#[inline(always)]
pub(crate) fn value_sums<C: IntLanes, V: ValuePages, const T: usize, const B: usize>(
    cpu: C,
    values: &V,
    first: usize,
    weights: [&[WeightPair]; T],
) -> [[[i32; 16]; B]; T] {
    let len = weights[0].len();
    let mut sums = [[cpu.zero_columns(); B]; T];
    for start in (0..len).step_by(V::ROWS) {
        let mut page_weights = weights;
        for weights in &mut page_weights {
            *weights = &weights[start..len.min(start + V::ROWS)];
        }
        let page = start / V::ROWS;
        let rows = values.page(page).chunks_exact(values.columns());
        let mut ahead = values.ahead(page).skip(first * V::ROWS * size_of::<ValuePairs>());
        for (i, row) in rows.take(page_weights[0].len()).enumerate() {
            let row = &row[first..][..B];
            ahead.fetch::<[ValuePairs; B]>(i);
            for b in 0..B {
                let pairs = cpu.load_pairs(&row[b]);
                for (sums, weights) in sums.iter_mut().zip(page_weights) {
                    sums[b] = cpu.dot_pairs(sums[b], pairs, weights[i]);
                }
            }
        }
    }
    let mut results = [[[0; 16]; B]; T];
    for (results, sums) in results.iter_mut().zip(sums) {
        for (result, sum) in results.iter_mut().zip(sums) {
            cpu.store_columns(sum, result);
        }
    }
    results
}
