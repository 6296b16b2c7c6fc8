//! The scalar kernel computes what it says: checked against naive code that knows nothing of
//! layouts, lanes or pages, in integers where the result is exact and in `f64` where it is not.

mod support;

use proptest::prelude::*;
use support::{Floats, Random, Rows, cases, int8_matrix, matrix, quant_rows};
use wf_kernels::{
    Isa, Kernel, KvPages, Pool, QuantBatch, RotaryPairs, Scales, TernaryMatrix, int8_products,
    kernel, multiply,
};

fn scalar() -> &'static dyn Kernel {
    kernel(Isa::Scalar).expect("every CPU runs scalar code")
}

/// Whether `found` is `expected` but for rounding, relative to `size`.
#[track_caller]
fn assert_close(expected: f64, found: f32, size: f64) {
    let error = (expected - f64::from(found)).abs();
    assert!(error <= 1e-6 * size + 1e-30, "{found:e} is not {expected:e} (size {size:e})");
}

/// The dot product of plain trits and codes, scaled by its definition: by one scale, or by one for
/// each `group_len` of them.
fn naive_product(trits: &[i8], codes: &[i8], scales: &[f32], group_len: Option<usize>) -> f32 {
    let dot = |trits: &[i8], codes: &[i8]| -> i64 {
        trits.iter().zip(codes).map(|(t, c)| i64::from(*t) * i64::from(*c)).sum()
    };
    let Some(len) = group_len else { return dot(trits, codes) as f32 * scales[0] };
    let groups = trits.chunks(len).zip(codes.chunks(len)).zip(scales);
    groups.fold(0.0, |sum, ((trits, codes), scale)| (dot(trits, codes) as f32).mul_add(*scale, sum))
}

fn check_product(rows: usize, cols: usize, tokens: usize, seed: u64) {
    let random = &mut Random(seed);
    let pool = Pool::new(2);
    let trits = random.trits(rows * cols);
    let x = random.floats(tokens * cols, Floats::Plain);
    let mut xs = QuantBatch::new(tokens, cols);
    xs.quantize(scalar(), &pool, &x, cols);
    assert_eq!((xs.rows().len(), xs.cols()), (tokens, cols));
    for scales in random.scales(rows, cols) {
        let w = matrix(&trits, cols, scales.clone());
        let mut y = vec![f32::NAN; tokens * rows];
        multiply(scalar(), &pool, &w, &xs, &mut y);
        for (token, x) in xs.rows().iter().enumerate() {
            for row in 0..rows {
                let (scales, group_len) = match &scales {
                    Scales::Tensor(scale) => (std::slice::from_ref(scale), None),
                    Scales::Rows(values) => (&values[row..=row], None),
                    Scales::Groups { len, values } => {
                        let groups = cols.div_ceil(*len);
                        (&values[row * groups..][..groups], Some(*len))
                    }
                };
                let trits = &trits[row * cols..][..cols];
                let expected = naive_product(trits, x.codes(), scales, group_len) * x.scale();
                let found = y[token * rows + row];
                assert_eq!(expected.to_bits(), found.to_bits(), "token {token}, row {row}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(64) as u32))]

    #[test]
    fn packing_keeps_every_trit_in_its_place(
        rows in 1_usize..50, cols in 1_usize..200, seed: u64, threads in 1_usize..4,
    ) {
        let trits = Random(seed).trits(rows * cols);
        let mut w = TernaryMatrix::new(rows, cols, Scales::Tensor(1.0));
        let read = |range: std::ops::Range<usize>, out: &mut [i8]| {
            out.copy_from_slice(&trits[range.start * cols..range.end * cols]);
            Ok::<(), ()>(())
        };
        w.fill(&Pool::new(threads), read).unwrap();
        for (row, expected) in trits.chunks(cols).enumerate() {
            let mut found = vec![7; cols];
            w.unpack(row, &mut found);
            prop_assert_eq!(expected, &found);
        }
    }

    #[test]
    fn a_product_is_what_naive_integers_say(
        rows in 1_usize..40, cols in 1_usize..600, tokens in 1_usize..10, seed: u64,
    ) {
        check_product(rows, cols, tokens, seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(64) as u32))]

    #[test]
    fn an_int8_product_is_what_naive_integers_say(
        rows in 1_usize..50, cols in 1_usize..300, tokens in 1_usize..10, seed: u64,
    ) {
        let random = &mut Random(seed);
        let pool = Pool::new(2);
        let weights = random.weight_codes(rows * cols);
        let w = int8_matrix(&weights, cols);
        let mut xs = QuantBatch::new(tokens, cols);
        xs.quantize(scalar(), &pool, &random.floats(tokens * cols, Floats::Plain), cols);
        let mut y = vec![i32::MIN; tokens * rows];
        int8_products(scalar(), &pool, &w, &xs, &mut y);
        for (row, weights) in weights.chunks(cols).enumerate() {
            let mut unpacked = vec![0; cols];
            w.unpack(row, &mut unpacked);
            prop_assert_eq!(weights, &unpacked);
            for (token, x) in xs.rows().iter().enumerate() {
                let products = weights.iter().zip(x.codes()).map(|(w, a)| i32::from(*w) * i32::from(*a));
                prop_assert_eq!(products.sum::<i32>(), y[token * rows + row]);
            }
        }
    }
}

#[test]
#[should_panic(expected = "-128 is not a code")]
fn a_code_out_of_range_is_refused() {
    int8_matrix(&[0, -128], 2);
}

#[test]
fn one_trit_reaches_one_output() {
    // Each single trit against codes that name their column: any slip of a position shows.
    let (rows, cols) = (17, 80);
    let codes: Vec<i8> = (0..cols as i8).map(|i| i - 40).collect();
    for place in 0..rows * cols {
        let mut trits = vec![0; rows * cols];
        trits[place] = -1;
        let w = matrix(&trits, cols, Scales::Tensor(1.0));
        let xs = quant_rows(&codes, cols);
        let mut y = vec![f32::NAN; rows];
        for strip in 0..w.strips() {
            let mut strip_of_y = wf_kernels::Strip::new(&mut y, rows, 16, strip);
            scalar().multiply(&w, strip, &xs, &mut strip_of_y);
        }
        for (row, found) in y.iter().enumerate() {
            let hit = row == place / cols;
            let expected = if hit { -f32::from(codes[place % cols]) * xs[0].scale() } else { 0.0 };
            assert_eq!(expected, *found, "trit {place}, row {row}");
        }
    }
}

#[test]
fn the_first_unreadable_strip_is_the_error() {
    for threads in [1, 2, 5] {
        let mut w = TernaryMatrix::new(1000, 64, Scales::Tensor(1.0));
        let read = |rows: std::ops::Range<usize>, _: &mut [i8]| {
            if rows.start >= 160 { Err(rows) } else { Ok(()) }
        };
        assert_eq!(w.fill(&Pool::new(threads), read), Err(160..176));
    }
}

#[test]
#[should_panic(expected = "only -1, 0 and 1 are trits")]
fn a_number_that_is_no_trit_is_refused() {
    matrix(&[0, 1, 2, -1], 4, Scales::Tensor(1.0));
}

#[test]
#[should_panic(expected = "one scale a group")]
fn scales_must_fit() {
    TernaryMatrix::new(3, 100, Scales::Groups { len: 64, values: vec![1.0; 5] });
}

#[test]
fn the_shape_of_a_matrix_is_what_was_asked_for() {
    let w = TernaryMatrix::new(33, 100, Scales::Rows(vec![1.0; 33]));
    assert_eq!((w.rows(), w.cols(), w.strips()), (33, 100, 3));
    // 3 strips of 16 rows times 128 columns, four trits a byte.
    assert_eq!(w.bytes_len(), 3 * 16 * 128 / 4);
    let mut row = [7; 100];
    w.unpack(32, &mut row);
    assert_eq!(row, [0; 100]);
}

#[test]
fn codes_are_the_nearest_with_ties_to_even() {
    let random = &mut Random(20);
    for kind in [Floats::Plain, Floats::Wide, Floats::Subnormal] {
        let x = random.floats(200, kind);
        let (mut codes, mut sums) = ([0; 256], [0; 4]);
        let scale = scalar().quantize(&x, &mut codes, &mut sums);
        let absmax = x.iter().fold(1e-5_f32, |max, x| max.max(x.abs()));
        assert_close(f64::from(absmax) / 127.0, scale, f64::from(absmax) / 127.0);
        for (x, code) in x.iter().zip(codes) {
            assert_eq!((x * (127.0 / absmax)).round_ties_even(), f32::from(code));
        }
        assert_eq!(codes[200..], [0; 56]);
        for (run, sum) in codes.chunks(64).zip(sums) {
            assert_eq!(run.iter().map(|&code| i32::from(code)).sum::<i32>(), sum);
        }
    }
    let (mut codes, mut sums) = ([0; 64], [0]);
    let ties = [127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.499_999_97];
    assert_eq!(scalar().quantize(&ties, &mut codes, &mut sums), 1.0);
    assert_eq!(codes[..8], [127, 0, 2, 2, 0, -2, -2, 0]);
}

#[test]
fn a_nan_survives_quantization_as_the_scale() {
    let mut x = vec![1.0; 40];
    for place in [0, 17, 39] {
        x[place] = f32::NAN;
        let mut codes = [77; 64];
        let scale = scalar().quantize(&x, &mut codes, &mut [0]);
        assert!(scale.is_nan());
        assert_eq!(codes[40..], [0; 24], "padding stays zero all the same");
    }
}

#[test]
fn a_dot_product_runs_in_sixteen_lanes_and_folds_by_halves() {
    let random = &mut Random(21);
    for len in [0, 1, 16, 17, 40, 130] {
        let (a, x) = (random.floats(len, Floats::Plain), random.floats(len, Floats::Plain));
        for rows in Rows::each(&a) {
            let a = rows.values();
            let mut lanes = [0.0_f32; 16];
            // A partly filled last step is filled up with zeros, in every lane.
            for i in 0..len.next_multiple_of(16) {
                let (a, x) = (a.get(i).unwrap_or(&0.0), x.get(i).unwrap_or(&0.0));
                lanes[i % 16] = a.mul_add(*x, lanes[i % 16]);
            }
            let mut lanes = lanes.to_vec();
            while lanes.len() > 1 {
                let (low, high) = lanes.split_at(lanes.len() / 2);
                lanes = low.iter().zip(high).map(|(a, b)| a + b).collect();
            }
            let mut y = [f32::NAN];
            scalar().dots(rows.view(), &x, &mut y);
            assert_eq!(lanes[0].to_bits(), y[0].to_bits());
            let exact: f64 = a.iter().zip(&x).map(|(a, x)| f64::from(*a) * f64::from(*x)).sum();
            let size: f64 = a.iter().zip(&x).map(|(a, x)| f64::from(a * x).abs()).sum();
            assert_close(exact, y[0], size);
        }
    }
}

#[test]
fn rms_norm_divides_by_the_root_of_the_mean_square() {
    let random = &mut Random(22);
    for (len, kind) in [(1, Floats::Plain), (100, Floats::Plain), (2560, Floats::Wide)] {
        let (x, weight) = (random.floats(len, kind), random.floats(len, Floats::Plain));
        let mean = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / len as f64;
        let mut out = vec![f32::NAN; len];
        scalar().rms_norm(&x, &weight, 1e-3, &mut out);
        for ((x, weight), out) in x.iter().zip(&weight).zip(out) {
            let expected = f64::from(*x) / (mean + 1e-3).sqrt() * f64::from(*weight);
            assert_close(expected, out, expected.abs());
        }
    }
}

#[test]
fn rotating_turns_each_pair_by_its_angle() {
    let random = &mut Random(23);
    let head = random.floats(20, Floats::Plain);
    let (cos, sin) = (random.floats(10, Floats::Plain), random.floats(10, Floats::Plain));
    for pairs in [RotaryPairs::Halves, RotaryPairs::Adjacent] {
        let mut turned = head.clone();
        scalar().rotate(&mut turned, &cos, &sin, pairs);
        for i in 0..10 {
            let (a, b) = match pairs {
                RotaryPairs::Halves => (i, i + 10),
                RotaryPairs::Adjacent => (2 * i, 2 * i + 1),
            };
            assert_eq!(turned[a], head[a] * cos[i] - head[b] * sin[i]);
            assert_eq!(turned[b], head[b] * cos[i] + head[a] * sin[i]);
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the platform's exp is what we compare with")]
fn activations_are_what_their_names_say() {
    let random = &mut Random(24);
    let (gate, up) = (random.floats(333, Floats::Plain), random.floats(333, Floats::Plain));
    let (mut relu2, mut silu, mut sum) = (gate.clone(), gate.clone(), gate.clone());
    scalar().relu2_mul(&mut relu2, &up);
    scalar().silu_mul(&mut silu, &up);
    scalar().add(&mut sum, &up);
    for i in 0..gate.len() {
        assert_eq!(relu2[i], gate[i].max(0.0) * gate[i].max(0.0) * up[i]);
        assert_eq!(sum[i], gate[i] + up[i]);
        let (gate, up) = (f64::from(gate[i]), f64::from(up[i]));
        let expected = gate / (1.0 + (-gate).exp()) * up;
        assert_close(expected, silu[i], expected.abs());
    }
    let mut nan = [f32::NAN; 3];
    scalar().relu2_mul(&mut nan, &[1.0; 3]);
    assert!(nan[0].is_nan());
    // Where the gate is shut, nothing of `up` comes through, not even its sign.
    for kernel in wf_kernels::supported() {
        for shut in [-1.0, -0.0, 0.0, f32::NEG_INFINITY] {
            let ups = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -1.0];
            let mut gates = [shut; 4];
            kernel.relu2_mul(&mut gates, &ups);
            assert_eq!(gates.map(f32::to_bits), [0; 4], "{shut} on {}", kernel.isa());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the platform's exp is what we compare with")]
fn naive_softmax(x: &[f64]) -> Vec<f64> {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = x.iter().map(|x| (x - max).exp()).sum();
    x.iter().map(|x| (x - max).exp() / sum).collect()
}

#[test]
fn softmax_is_softmax() {
    let random = &mut Random(25);
    for len in [1, 2, 16, 17, 1000] {
        let mut x: Vec<f32> = (0..len).map(|_| random.unit() * 30.0).collect();
        let expected = naive_softmax(&x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>());
        scalar().softmax(&mut x);
        for (expected, found) in expected.iter().zip(&x) {
            // Differences of up to 60 are rounded before `exp` sees them.
            assert_close(*expected, *found, 4.0 * expected);
        }
    }
    let mut masked = [f32::NEG_INFINITY, 3.0, f32::NEG_INFINITY];
    scalar().softmax(&mut masked);
    assert_eq!(masked, [0.0, 1.0, 0.0]);
}

#[test]
fn attention_reads_every_position_where_it_lies() {
    let random = &mut Random(26);
    for (head_dim, visible) in [(1, 1), (16, 5), (24, 40), (128, 33), (7, 0)] {
        let (page_len, page_stride, key_offset, value_offset) = (4, 3000, 11, 1400);
        let pages = [9, 2, 7, 0, 5, 1, 8, 3, 6, 4];
        let q = random.floats(head_dim, Floats::Plain);
        for rows in Rows::each(&random.floats(10 * page_stride, Floats::Plain)) {
            let data = rows.values();
            let at = |offset: usize, position: usize, d: usize| {
                let page = pages[position / page_len] as usize * page_stride;
                f64::from(data[page + offset + position % page_len * head_dim + d])
            };
            let score = |position| -> f64 {
                0.2 * (0..head_dim)
                    .map(|d| f64::from(q[d]) * at(key_offset, position, d))
                    .sum::<f64>()
            };
            let weights = naive_softmax(&(0..visible).map(score).collect::<Vec<_>>());

            let kv = KvPages {
                data: rows.view(),
                pages: &pages,
                page_len,
                page_stride,
                key_offset,
                value_offset,
                head_dim,
            };
            let mut out = vec![f32::NAN; head_dim];
            scalar().attend(&q, &kv, visible, 0.2, &mut vec![0.0; visible], &mut out);
            for (d, found) in out.iter().enumerate() {
                let values = (0..visible).map(|p| weights[p] * at(value_offset, p, d));
                // Scores near 30 are off by some 1e-6, and the weights by as much, relatively.
                assert_close(values.sum(), *found, 20.0);
            }
        }
    }
}
