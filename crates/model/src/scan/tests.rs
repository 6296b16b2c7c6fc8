//! Scans agree with the whole table, also on adversarial tables.

use wf_formats::FloatEncoding;
use wf_kernels::half::f32_to_bf16;
use wf_kernels::{NoiseKey, Pool};

use super::hidden::HiddenCodes;
use super::*;
use crate::adjustment::Adjustment;
use crate::draw::{Draw, DrawQuery};
use crate::head::difference;
use crate::logits::LogitsRow;
use crate::segment::{Scoring, Segment};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// Nearly normal, of variance 1.
    fn float(&mut self) -> f32 {
        let sum: u64 = (0..4).map(|_| self.bits() >> 40).sum();
        (sum as f32 / (1 << 24) as f32 - 2.0) * 3.0_f32.sqrt()
    }

    fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.float()).collect()
    }
}

/// A table in bf16, as heads are published.
fn table(values: &[f32], cols: usize) -> FloatTable {
    let bytes: Vec<u8> = values.iter().flat_map(|&v| f32_to_bf16(v).to_le_bytes()).collect();
    FloatTable::new(&Pool::new(1), FloatEncoding::BF16, cols, &bytes)
}

fn table_f32(values: &[f32], cols: usize) -> FloatTable {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    FloatTable::new(&Pool::new(1), FloatEncoding::F32, cols, &bytes)
}

/// Scores the rows of `hidden`, which are those of the segments.
fn run(
    scan: &Scan,
    context: ScanContext<'_>,
    hidden: &[f32],
    segments: &[Segment<'_>],
    scratch: &mut ScanScratch,
) -> Logits {
    let mut out = Logits::new(scan.vocab_len);
    out.resize(hidden.len() / context.table.cols());
    let queries = ScanQueries { hidden, rows: RowQueries::new(segments) };
    scan.score(context, queries, (&mut out, 0), scratch);
    out
}

/// Compares both scans with the table for several `k`, and returns their counters.
fn check(cx: &Compute, table: &FloatTable, hidden: &[f32]) -> [HeadCounts; 2] {
    let (cols, vocab_len) = (table.cols(), table.rows());
    let mut exact = vec![0.0; hidden.len() / cols * vocab_len];
    table.scores(cx, hidden, &mut exact);
    let mut scratch = ScanScratch::new(cx, vocab_len, cols);
    let mut sorted = vec![0.0; vocab_len];
    let scored: Vec<usize> = (0..hidden.len() / cols).collect();
    let all = Segment::causal(&[], 0, &[], &scored);
    [("scan", Depth::Bytes), ("scan4", Depth::Nibbles)].map(|(name, depth)| {
        let scan = Scan::new(cx, table, depth);
        let counts = HeadCounts::default();
        for k in [1, 2, 17, 50, vocab_len, 2 * vocab_len] {
            let segment = Segment { scoring: Scoring::Top(k), ..all };
            let context = ScanContext { cx, table, counts: &counts };
            let found = run(&scan, context, hidden, &[segment], &mut scratch);
            for (row, exact) in exact.chunks_exact(vocab_len).enumerate() {
                let found = found.filled_row(row);
                let difference = difference(name, k, &found, exact, &mut sorted);
                assert!(difference.is_none(), "row {row}: {}", difference.unwrap());
            }
        }
        counts
    })
}

#[test]
fn random_tables_of_many_shapes() {
    let random = &mut Random(1);
    let cx = Compute::new(2);
    for _ in 0..60 {
        let (rows, cols) = (1 + random.below(900), 1 + random.below(300));
        let states = 1 + random.below(SCANNED_AT_ONCE);
        let table = table(&random.floats(rows * cols), cols);
        check(&cx, &table, &random.floats(states * cols));
    }
}

#[test]
fn the_best_of_those_allowed() {
    let random = &mut Random(11);
    let cx = Compute::new(2);
    for round in 0..40 {
        let (rows, cols) = (40 + random.below(900), 1 + random.below(300));
        let states = 1 + random.below(SCANNED_AT_ONCE);
        let table = table(&random.floats(rows * cols), cols);
        let hidden = random.floats(states * cols);
        // From nearly all to nearly none, and one row with every token.
        let words = rows.div_ceil(32);
        let mut bits: Vec<u32> = (0..states * words).map(|_| random.bits() as u32).collect();
        for _ in 0..round % 4 {
            bits.iter_mut().for_each(|word| *word &= random.bits() as u32);
        }
        bits[..words].fill(u32::MAX);
        let scored: Vec<usize> = (0..states).collect();
        let segment = Segment { allowed: &bits, ..Segment::causal(&[], 0, &[], &scored) };
        let mut exact = vec![0.0; states * rows];
        table.scores(&cx, &hidden, &mut exact);
        for (row, exact) in exact.chunks_exact_mut(rows).enumerate() {
            let is_allowed = |token: usize| bits[row * words + token / 32] >> (token % 32) & 1 == 1;
            let others = exact.iter_mut().enumerate().filter(|(token, _)| !is_allowed(*token));
            others.for_each(|(_, score)| *score = f32::NEG_INFINITY);
        }
        let (mut scratch, counts) = (ScanScratch::new(&cx, rows, cols), HeadCounts::default());
        let mut sorted = vec![0.0; rows];
        for (name, depth) in [("scan", Depth::Bytes), ("scan4", Depth::Nibbles)] {
            let scan = Scan::new(&cx, &table, depth);
            for k in [1, 3, 5] {
                let segment = Segment { scoring: Scoring::Top(k), ..segment };
                let context = ScanContext { cx: &cx, table: &table, counts: &counts };
                let found = run(&scan, context, &hidden, &[segment], &mut scratch);
                for (row, exact) in exact.chunks_exact(rows).enumerate() {
                    let mut found = found.filled_row(row);
                    // A table that was read whole has the others too.
                    let both = found.iter_mut().zip(exact);
                    both.filter(|(_, e)| !e.is_finite()).for_each(|(f, _)| *f = f32::NEG_INFINITY);
                    let difference = difference(name, k, &found, exact, &mut sorted);
                    assert!(difference.is_none(), "row {row}: {}", difference.unwrap());
                }
            }
        }
    }
}

/// Every kind of draw gives the token that it gives on all logits.
#[test]
fn draws_are_those_of_all_logits() {
    let random = &mut Random(12);
    let cx = Compute::new(2);
    let mut scratch_of_draw = Vec::new();
    // Distributions from nearly flat to nearly certain.
    for (round, spread) in [0.02, 0.1, 0.3, 1.0].into_iter().cycle().take(24).enumerate() {
        let (rows, cols) = (2000 + random.below(9000), 64 + random.below(100));
        let states = 1 + random.below(8);
        let table = table(&random.floats(rows * cols), cols);
        let hidden: Vec<f32> = random.floats(states * cols).iter().map(|x| x * spread).collect();
        let mut exact = vec![0.0; states * rows];
        table.scores(&cx, &hidden, &mut exact);
        let adjusted = if round % 3 == 0 { 0 } else { random.below(40) };
        let queries: Vec<DrawQuery> = (0..states)
            .map(|_| {
                let any = |random: &mut Random, of: &[f32]| of[random.below(of.len())];
                let mut tokens: Vec<u32> =
                    (0..adjusted).map(|_| random.below(rows) as u32).collect();
                tokens.sort_unstable();
                tokens.dedup();
                let adjustment = |token| Adjustment {
                    token,
                    bias: [0.0, 3.0, f32::NEG_INFINITY][token as usize % 3],
                    repetition: 1.3,
                    penalty: 0.5,
                };
                DrawQuery {
                    draw: Draw {
                        temperature: any(random, &[0.3, 0.8, 1.0, 2.0]),
                        top_k: None,
                        top_p: any(random, &[1.0, 1.0, 0.3, 0.9, 0.95, 0.999]),
                        min_p: any(random, &[0.0, 0.0, 0.05, 0.5]),
                        key: NoiseKey(std::array::from_fn(|_| random.bits() as u32)),
                    },
                    adjustments: tokens.into_iter().map(adjustment).collect(),
                }
            })
            .collect();
        let words = rows.div_ceil(32);
        let mut bits: Vec<u32> = vec![];
        if round % 2 == 1 {
            bits.extend((0..states * words).map(|_| random.bits() as u32));
        }
        let scored: Vec<usize> = (0..states).collect();
        let segment = Segment {
            scoring: Scoring::Draw,
            allowed: &bits,
            draws: &queries,
            ..Segment::causal(&[], 0, &[], &scored)
        };
        let row_queries = RowQueries::new(std::slice::from_ref(&segment));
        let (mut scratch, counts) = (ScanScratch::new(&cx, rows, cols), HeadCounts::default());
        for depth in [Depth::Bytes, Depth::Nibbles] {
            let scan = Scan::new(&cx, &table, depth);
            let context = ScanContext { cx: &cx, table: &table, counts: &counts };
            let mut found = run(&scan, context, &hidden, &[segment], &mut scratch);
            for (row, exact) in exact.chunks_exact(rows).enumerate() {
                let query = row_queries.row(row);
                let mut exact = exact.to_vec();
                query.forbid(&mut exact);
                let expected = queries[row].token(LogitsRow::All(&mut exact), &mut scratch_of_draw);
                let mut found = found.row_mut(row);
                if let LogitsRow::All(logits) = &mut found {
                    query.forbid(logits);
                }
                let found = queries[row].token(found, &mut scratch_of_draw);
                assert_eq!(found, expected, "{depth:?}, round {round}: {:?}", queries[row].draw);
            }
        }
        if spread > 0.2 {
            assert!(counts.whole.get() * 4 <= counts.picks.get(), "round {round}: {counts:?}");
        }
    }
}

#[test]
fn large_tables_are_scanned_and_not_read_whole() {
    let random = &mut Random(2);
    let (rows, cols) = (20_000, 512);
    let table = table(&random.floats(rows * cols), cols);
    let [scan, scan4] = check(&Compute::new(2), &table, &random.floats(3 * cols));
    for counts in [&scan, &scan4] {
        // Of six `k`, two are as large as the table.
        assert_eq!((counts.picks.get(), counts.whole.get()), (12, 6));
        assert!(counts.candidates.get() / counts.picks.get() < 1000, "{counts:?}");
    }
    assert_eq!(scan4.widened.get(), 0);
}

#[test]
fn ties_duplicates_and_zero_rows() {
    let random = &mut Random(3);
    let cx = Compute::new(2);
    let (rows, cols) = (2000, 96);
    let mut values = random.floats(rows * cols);
    for row in 0..rows {
        if row % 3 == 1 {
            values.copy_within((row - 1) * cols..row * cols, row * cols);
        } else if row % 7 == 0 {
            values[row * cols..][..cols].fill(0.0);
        }
    }
    check(&cx, &table(&values, cols), &random.floats(4 * cols));
    check(&cx, &table(&vec![0.0; rows * cols], cols), &random.floats(2 * cols));
    check(&cx, &table(&vec![0.25; rows * cols], cols), &random.floats(2 * cols));
    check(&cx, &table(&values, cols), &vec![0.0; 2 * cols]);
}

#[test]
fn rows_that_differ_in_the_last_bit() {
    let random = &mut Random(4);
    let (rows, cols) = (3000, 128);
    let first = random.floats(cols);
    let mut values = first.repeat(rows);
    for row in values.chunks_exact_mut(cols) {
        let at = random.below(cols);
        let bits = f32::from(random.bits() & 1 == 0).to_bits() >> 29;
        row[at] = f32::from_bits(row[at].to_bits() ^ (bits | 1));
    }
    let hidden = [first, random.floats(cols)].concat();
    check(&Compute::new(2), &table_f32(&values, cols), &hidden);
}

#[test]
fn one_huge_element_makes_codes_coarse() {
    let random = &mut Random(5);
    let (rows, cols) = (4000, 256);
    let mut values = random.floats(rows * cols);
    for row in values.chunks_exact_mut(cols) {
        row[random.below(cols)] = 1000.0;
    }
    let table = table(&values, cols);
    let cx = Compute::new(2);
    // Also where the huge element meets nothing, and decides nothing.
    let mut hidden = random.floats(3 * cols);
    hidden[..cols / 2].fill(0.0);
    let [_, scan4] = check(&cx, &table, &hidden);
    assert!(scan4.widened.get() + scan4.whole.get() > 0, "{scan4:?}");
}

#[test]
fn hidden_states_with_outliers_and_of_any_size() {
    let random = &mut Random(6);
    let (rows, cols) = (5000, 320);
    let table = table(&random.floats(rows * cols), cols);
    let mut hidden = random.floats(6 * cols);
    hidden[7] = 500.0;
    hidden[cols..2 * cols].fill(0.0);
    hidden[cols + 3] = 1.0;
    hidden[2 * cols..3 * cols].iter_mut().for_each(|x| *x *= 1e-30);
    hidden[3 * cols..4 * cols].iter_mut().for_each(|x| *x *= 1e30);
    hidden[4 * cols] = f32::NAN;
    hidden[5 * cols] = f32::INFINITY;
    check(&Compute::new(2), &table, &hidden);
}

#[test]
fn tables_of_tiny_and_of_huge_values() {
    let random = &mut Random(7);
    let (rows, cols) = (1500, 64);
    for scale in [1e-38, 1e-30, 1e-20, 1e-6, 1e10, 1e25, 1e36] {
        let values: Vec<f32> = random.floats(rows * cols).iter().map(|v| v * scale).collect();
        check(&Compute::new(2), &table_f32(&values, cols), &random.floats(2 * cols));
    }
}

/// Where rounding to nibbles would err in the direction of the hidden state in every column, the fixed numbers
/// of the columns keep the bound true.
#[test]
fn errors_that_would_add_up_stay_random() {
    let random = &mut Random(8);
    let (rows, cols) = (4096, 1024);
    let hidden: Vec<f32> =
        (0..cols).map(|_| if random.bits() & 1 == 0 { 1.0 } else { -1.0 }).collect();
    let mut values = Vec::with_capacity(rows * cols);
    for row in 0..rows {
        for (column, sign) in hidden.iter().enumerate() {
            // Just below a step where the state is positive, and just above one where it is not.
            let value = sign * 0.49 + random.below(14) as f32 - 7.0;
            values.push(if column == 0 { 7.49 } else { value } * (1.0 + row as f32 * 1e-5));
        }
    }
    let [_, scan4] = check(&Compute::new(2), &table_f32(&values, cols), &hidden);
    assert_eq!(scan4.widened.get(), 0, "{scan4:?}");
}

#[test]
fn instruction_sets_threads_and_neighbours_change_no_bit() {
    let random = &mut Random(9);
    let (rows, cols) = (3001, 200);
    let table = table(&random.floats(rows * cols), cols);
    let hidden = random.floats(5 * cols);
    for depth in [Depth::Bytes, Depth::Nibbles] {
        let run = |cx: &Compute, hidden: &[f32]| {
            let scan = Scan::new(cx, &table, depth);
            let (mut scratch, counts) = (ScanScratch::new(cx, rows, cols), HeadCounts::default());
            let scored: Vec<usize> = (0..hidden.len() / cols).collect();
            let all = Segment::causal(&[], 0, &[], &scored);
            let segment = Segment { scoring: Scoring::Top(20), ..all };
            let context = ScanContext { cx, table: &table, counts: &counts };
            let found = run(&scan, context, hidden, &[segment], &mut scratch);
            let out: Vec<f32> = scored.iter().flat_map(|&row| found.filled_row(row)).collect();
            let mut all = vec![0.0; out.len()];
            scan.approximate(cx, hidden, &mut all, &mut scratch);
            let bits = |scores: Vec<f32>| scores.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            (bits(out), bits(all))
        };
        let expected = run(&Compute::new(1), &hidden);
        for isa in Compute::supported() {
            for threads in [1, 3] {
                let cx = Compute::chosen(Some(isa), threads, None).unwrap();
                assert!(run(&cx, &hidden) == expected, "{depth:?}, {isa}, {threads} threads");
            }
        }
        let cx = Compute::new(2);
        for (row, x) in hidden.chunks_exact(cols).enumerate() {
            let (top, all) = run(&cx, x);
            assert!(top == expected.0[row * rows..][..rows], "row {row}");
            assert!(all == expected.1[row * rows..][..rows], "row {row}");
        }
    }
}

#[test]
fn int8_scores_are_near_those_of_the_table() {
    let random = &mut Random(10);
    let (rows, cols) = (700, 640);
    let table = table(&random.floats(rows * cols), cols);
    let hidden = random.floats(2 * cols);
    let cx = Compute::new(2);
    let mut exact = vec![0.0; 2 * rows];
    table.scores(&cx, &hidden, &mut exact);
    let mut found = vec![0.0; 2 * rows];
    let scan = Scan::new(&cx, &table, Depth::Bytes);
    scan.approximate(&cx, &hidden, &mut found, &mut ScanScratch::new(&cx, rows, cols));
    // Scores have a deviation of 25; codes are off by 1 % of a value.
    let furthest = found.iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!((0.01..1.5).contains(&furthest), "{furthest}");
}

/// Errors of estimates by nibbles, in standard deviations of the bound, are those of a normal distribution.
#[test]
fn errors_of_nibbles_are_as_large_as_the_bound_says() {
    let random = &mut Random(13);
    let (rows, cols) = (6000, 700);
    let table = table(&random.floats(rows * cols), cols);
    let mut hidden = random.floats(cols);
    // Outliers, as real hidden states have them.
    hidden.iter_mut().step_by(97).for_each(|x| *x *= 20.0);
    let cx = Compute::new(2);
    let mut exact = vec![0.0; rows];
    table.scores(&cx, &hidden, &mut exact);
    let scan = Scan::new(&cx, &table, Depth::Nibbles);
    let mut codes = HiddenCodes::new(1, cols);
    codes.quantize_for(&cx, &hidden, scan.nibbles.as_ref().unwrap());
    let mut errors = Vec::new();
    for strip in 0..rows / STRIP {
        let bounds = scan.bounds_of(&cx, Depth::Nibbles, strip, &codes, 0);
        for at in 0..STRIP {
            let sigma = (bounds.upper[at] - bounds.estimate[at]) / 10.0;
            errors.push(f64::from((exact[strip * STRIP + at] - bounds.estimate[at]) / sigma));
        }
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let square = errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64;
    let largest = errors.iter().fold(0.0, |max: f64, e| max.max(e.abs()));
    // The bounds of both errors are added, though these are independent.
    assert!(mean.abs() < 0.05 && (0.3..1.05).contains(&square.sqrt()), "{mean}, {square}");
    assert!(largest < 5.0, "{largest}");
}
