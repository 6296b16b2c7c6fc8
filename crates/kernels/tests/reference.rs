//! The scalar kernel computes what it says: checked against naive code that knows nothing of
//! layouts, lanes or pages, in integers where the result is exact and in `f64` where it is not.

use proptest::prelude::*;
use wf_kernels::{
    Isa, Kernel, KvDtype, Layout, Pool, QuantBatch, Queries, RmsNorm, RotaryPairs, Scales, Strip,
    TernaryMatrix, best, int8_products, kernel, multiply,
};

use crate::support::pages::{Pages, queries};
use crate::support::{
    Floats, LAYOUTS, Random, Rows, cases, int8_matrix, matrix, nibble_matrix, quant_rows,
};

fn scalar() -> &'static dyn Kernel {
    kernel(Isa::Scalar).expect("every CPU runs scalar code")
}

/// Returns `true` if `found` is `expected` up to rounding, relative to `size`.
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
    for scales in random.scales(rows, cols).into_iter().chain(random.half_scales(rows, cols)) {
        let y = LAYOUTS.map(|layout| {
            let w = matrix(layout, &trits, cols, scales.clone());
            let mut y = vec![f32::NAN; tokens * rows];
            multiply(scalar(), &pool, &w, &xs, &mut y);
            y
        });
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
                let found = y.each_ref().map(|y| y[token * rows + row].to_bits());
                assert_eq!(found, [expected.to_bits(); 2], "token {token}, row {row}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(64) as u32))]

    #[test]
    fn packing_keeps_every_trit_in_its_place(
        rows in 1_usize..50, cols in 1_usize..200, seed: u64, threads in 1_usize..4,
        layout in prop::sample::select(&LAYOUTS[..]),
    ) {
        let trits = Random(seed).trits(rows * cols);
        let mut w = TernaryMatrix::with_layout(layout, rows, cols, Scales::Tensor(1.0));
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(64) as u32))]

    #[test]
    fn a_nibble_product_is_what_naive_integers_say(
        rows in 1_usize..50, cols in 1_usize..300, tokens in 1_usize..6, seed: u64,
    ) {
        let random = &mut Random(seed);
        let weights = random.nibbles(rows * cols);
        let w = nibble_matrix(&weights, cols);
        let xs = quant_rows(&random.codes(tokens * cols), cols);
        for strip in 0..w.strips() {
            let width = rows.min(16 * (strip + 1)) - 16 * strip;
            let mut y = vec![i32::MIN; tokens * width];
            scalar().nibble_dots(&w, strip, &xs, &mut Strip::new(&mut y, width, width, 0));
            for (i, row) in (16 * strip..).take(width).enumerate() {
                let weights = &weights[row * cols..][..cols];
                let mut unpacked = vec![0; cols];
                w.unpack(row, &mut unpacked);
                prop_assert_eq!(weights, &unpacked);
                for (token, x) in xs.iter().enumerate() {
                    let products = weights.iter().zip(x.codes()).map(|(w, a)| i32::from(*w) * i32::from(*a));
                    prop_assert_eq!(products.sum::<i32>(), y[token * width + i]);
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "0 to 15")]
fn rejects_a_nibble_out_of_range() {
    nibble_matrix(&[0, 16], 2);
}

#[test]
#[should_panic(expected = "-127 to 127")]
fn rejects_a_code_out_of_range() {
    int8_matrix(&[0, -128], 2);
}

#[test]
fn one_trit_reaches_one_output() {
    // Each single trit against codes that name their column: any slip of a position shows.
    let (rows, cols) = (17, 80);
    let codes: Vec<i8> = (0..cols as i8).map(|i| i - 40).collect();
    for (place, layout) in (0..rows * cols).flat_map(|place| LAYOUTS.map(|layout| (place, layout)))
    {
        let mut trits = vec![0; rows * cols];
        trits[place] = -1;
        let w = matrix(layout, &trits, cols, Scales::Tensor(1.0));
        let xs = quant_rows(&codes, cols);
        let mut y = vec![f32::NAN; rows];
        for strip in 0..w.strips() {
            let mut strip_of_y = Strip::new(&mut y, rows, 16, strip);
            scalar().multiply(&w, strip, &xs, &mut strip_of_y);
        }
        for (row, found) in y.iter().enumerate() {
            let hit = row == place / cols;
            let expected = if hit { -f32::from(codes[place % cols]) * xs[0].scale() } else { 0.0 };
            assert_eq!(expected, *found, "{layout:?}: trit {place}, row {row}");
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
fn rejects_a_number_that_is_not_a_trit() {
    matrix(Layout::FiveTrits, &[0, 1, 2, -1], 4, Scales::Tensor(1.0));
}

#[test]
#[should_panic(expected = "one scale per group")]
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
fn five_trits_take_a_byte_unless_groups_have_scales() {
    let mut w = TernaryMatrix::with_layout(Layout::FiveTrits, 33, 101, Scales::Tensor(1.0));
    assert_eq!(w.layout(), Layout::FiveTrits);
    // 3 strips of 16 rows times 120 columns.
    assert_eq!(w.bytes_len(), 3 * 16 * 120 / 5);
    let mut row = [7; 101];
    w.unpack(32, &mut row);
    assert_eq!(row, [0; 101]);

    let groups = Scales::Groups { len: 64, values: vec![1.0; 66] };
    w = TernaryMatrix::with_layout(Layout::FiveTrits, 33, 101, groups);
    assert_eq!(w.layout(), Layout::QuadLines);
}

#[test]
fn the_layout_to_prefer_is_one_there_is_code_for() {
    let pool = Pool::new(2);
    assert_eq!(Layout::fastest(scalar(), &pool), Layout::QuadLines);
    assert!(best().reads_layout(Layout::fastest(best(), &pool)));
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
        scalar().rms_norm(&x, RmsNorm::new(&weight, 1e-3), &mut out);
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
    let mut gelu = gate.clone();
    scalar().gelu_mul(&mut gelu, &up);
    scalar().add(&mut sum, &up);
    for i in 0..gate.len() {
        assert_eq!(relu2[i], gate[i].max(0.0) * gate[i].max(0.0) * up[i]);
        assert_eq!(sum[i], gate[i] + up[i]);
        let (gate, up) = (f64::from(gate[i]), f64::from(up[i]));
        let expected = gate / (1.0 + (-gate).exp()) * up;
        assert_close(expected, silu[i], expected.abs());
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (gate + 0.044_715 * gate.powi(3));
        let expected = gate / 2.0 * (1.0 + inner.tanh()) * up;
        // Far to the left, 1 + tanh is less than it could be told from 0 by.
        assert_close(expected, gelu[i], (gate * up).abs());
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

/// Largest allowed error of a type, relative to the size of values.
fn tolerance(dtype: KvDtype) -> f64 {
    match dtype {
        KvDtype::F32 => 5e-6,
        KvDtype::F16 => 2e-3,
        KvDtype::Bf16 | KvDtype::Int8 => 2e-2,
        KvDtype::Fp8E4m3 => 8e-2,
        KvDtype::Fp8E5m2 => 1.6e-1,
    }
}

#[test]
fn attention_is_the_softmax_of_scores_times_values() {
    let random = &mut Random(26);
    for (head_dim, visible) in [(1, 1), (16, 5), (24, 40), (128, 33), (64, 700), (128, 256)] {
        for dtype in KvDtype::ALL {
            let kv = Pages::random(random, dtype, head_dim, visible, (Floats::Plain, scalar()));
            let q: Vec<f32> = (0..head_dim).map(|_| random.unit() / 4.0).collect();
            let score = |key: &[f32]| {
                0.31 * q.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum::<f64>()
            };
            for window in [None, Some(1), Some(19), Some(300), Some(1000)] {
                let first = window.map_or(0, |window| visible.saturating_sub(window));
                let scores: Vec<f64> = kv.keys.chunks(head_dim).skip(first).map(score).collect();
                let weights = naive_softmax(&scores);
                let ends = [visible];
                let q = Queries { window, ..queries(&q, 1, &ends) };
                for (d, found) in kv.attend(scalar(), &q).iter().enumerate() {
                    let values = kv.values.chunks(head_dim).skip(first).zip(&weights);
                    let expected: f64 = values.map(|(value, w)| w * f64::from(value[d])).sum();
                    let error = (expected - f64::from(*found)).abs();
                    let context = || format!("{dtype}, {visible}, {window:?}: {found}, {expected}");
                    assert!(error <= 4.0 * tolerance(dtype), "{}", context());
                }
            }
        }
    }
}
