//! Leaving zeros out changes no bit: sparse products against the dense ones of the scalar kernel.

use wf_kernels::{
    ColumnScratch, Isa, Kernel, Layout, NonZeros, Pool, ProductScratch, QuantBatch, QuantRow,
    Relu2Matrices, Scales, Strip, TernaryColumns, TernaryMatrix, TernaryRows, kernel,
    multiply_add_columns, multiply_add_columns_of_each, multiply_columns_each, multiply_relu2,
    relu2_neurons, supported,
};

use crate::support::{Floats, Random, cases, matrix};

/// Rows and columns: tails of strips, of lines and of jobs, and two real layers.
const SHAPES: [(usize, usize); 14] = [
    (1, 1),
    (3, 70),
    (15, 64),
    (16, 255),
    (17, 256),
    (40, 257),
    (100, 320),
    (129, 500),
    (255, 31),
    (256, 100),
    (257, 513),
    (530, 1000),
    (2304, 72),
    (640, 2560),
];

fn dense(w: &TernaryMatrix, x: &QuantRow) -> Vec<f32> {
    let scalar = kernel(Isa::Scalar).unwrap();
    let mut y = vec![f32::NAN; w.rows()];
    for strip in 0..w.strips() {
        let y = &mut Strip::new(&mut y, w.rows(), 16, strip);
        scalar.multiply(w, strip, std::slice::from_ref(x), y);
    }
    y
}

fn scales(random: &mut Random, rows: usize) -> [Scales; 2] {
    [Scales::Tensor(random.unit()), Scales::Rows(random.floats(rows, Floats::Plain))]
}

/// Equal bits; any NaN equals any other.
#[track_caller]
fn assert_same(what: &str, kernel: &dyn Kernel, expected: &[f32], found: &[f32]) {
    for (i, (expected, found)) in expected.iter().zip(found).enumerate() {
        let same = expected.to_bits() == found.to_bits() || (expected.is_nan() && found.is_nan());
        assert!(same, "{what} on {}, row {i}: {found:e}, not {expected:e}", kernel.isa());
    }
}

#[test]
fn columns_that_are_left_out_add_nothing() {
    let random = &mut Random(41);
    for (rows, cols) in SHAPES {
        for (scales, layout) in scales(random, rows).into_iter().zip(Layout::ALL) {
            let w = matrix(layout, &random.trits(rows * cols), cols, scales);
            let columns = TernaryColumns::new(&Pool::new(2), &w).unwrap();
            // All zero, one code, a few, half, and none zero.
            for share in [0.0, -1.0, 0.1, 0.5, 1.0] {
                let codes = codes(random, cols, share);
                check_columns(&w, &columns, &QuantRow::from_codes(&codes, 0.37));
            }
        }
    }
}

/// Codes of which a share is not zero; a share below zero is one code in all.
fn codes(random: &mut Random, len: usize, share: f32) -> Vec<i8> {
    let mut codes = random.codes(len);
    if share < 0.0 {
        let at = random.below(len);
        return (0..len).map(|i| if i == at { -128 } else { 0 }).collect();
    }
    for code in &mut codes {
        let keep = random.unit() * 0.5 + 0.5 < share;
        *code = if keep { (*code).max(1) } else { 0 };
    }
    codes
}

fn check_columns(w: &TernaryMatrix, columns: &TernaryColumns, x: &QuantRow) {
    let expected = dense(w, x);
    let count = x.codes().iter().filter(|&&code| code != 0).count();
    let what = format!("{}x{}, {count} columns", w.rows(), w.cols());
    for kernel in supported() {
        let mut non_zeros = NonZeros::with_capacity(w.cols());
        non_zeros.find(kernel, x);
        assert_eq!(non_zeros.len(), count);
        for threads in [1, 2, 3] {
            let mut found = vec![f32::NAN; w.rows()];
            let mut total = vec![1.25; w.rows()];
            let (pool, y) = (Pool::new(threads), &mut found[..]);
            multiply_add_columns(kernel, &pool, columns, &non_zeros, y, &mut total);
            assert_same(&what, kernel, &expected, &found);
            let added: Vec<f32> = expected.iter().map(|y| 1.25 + y).collect();
            assert_same(&what, kernel, &added, &total);
        }
    }
    check_split(w, columns, x);
}

/// Compares products that divide columns between threads with the dense ones: of one row of codes, and of two.
fn check_split(w: &TernaryMatrix, columns: &TernaryColumns, x: &QuantRow) {
    // As many codes as the first row has, some of them in other columns.
    let mut codes = x.codes()[..w.cols()].to_vec();
    codes.rotate_left(w.cols() / 3);
    let fine = QuantRow::from_codes(&codes, 0.0029);
    let expected = dense(w, x);
    let both: Vec<f32> = expected.iter().zip(dense(w, &fine)).map(|(a, b)| a + b).collect();
    // Too small for the first token, and then reused.
    let mut non_zeros = NonZeros::with_capacity(1);
    let mut scratch = ColumnScratch::default();
    for (rows, expected) in [
        (&[x.clone()][..], &expected),
        (&[x.clone(), fine.clone()][..], &both),
        (&[x.clone()][..], &expected),
    ] {
        for kernel in supported() {
            non_zeros.find_token(kernel, rows);
            let what = format!("{}x{}, {} columns", w.rows(), w.cols(), non_zeros.len());
            for threads in [1, 2, 3] {
                let mut found = [vec![f32::NAN; w.rows()], vec![f32::NAN; w.rows()]];
                let products = found.each_mut().map(|y| (columns, &mut y[..]));
                let pool = Pool::new(threads);
                multiply_columns_each(kernel, &pool, products, &non_zeros, &mut scratch);
                assert_same(&what, kernel, expected, &found[0]);
                assert_same(&what, kernel, expected, &found[1]);
            }
        }
    }
}

#[test]
fn the_largest_sums_fit() {
    for (trit, code) in [(1, -128), (-1, -128), (1, 127), (-1, 127)] {
        for cols in [64, 640, 6912, cases(1 << 16)] {
            let w = matrix(Layout::QuadLines, &vec![trit; 17 * cols], cols, Scales::Tensor(1.0));
            let x = QuantRow::from_codes(&vec![code; cols], 1.0);
            check_columns(&w, &TernaryColumns::new(&Pool::new(1), &w).unwrap(), &x);
            check_neurons(&w, &w, &x);
        }
    }
}

#[test]
fn rows_that_are_left_out_were_zero() {
    let random = &mut Random(42);
    for (rows, cols) in SHAPES {
        for (scales, layout) in scales(random, rows).into_iter().zip(Layout::ALL) {
            let up = matrix(layout, &random.trits(rows * cols), cols, scales);
            let codes = random.codes(cols);
            let x = QuantRow::from_codes(&codes, 0.011);
            // Rows that look along x have an open gate.
            let along = |row: usize, open: bool| {
                let sign = move |code: &i8| code.signum() * if open { 1 } else { -1 };
                codes.iter().map(sign).enumerate().map(move |(i, t)| if i == row { 0 } else { t })
            };
            let some = random.below(rows);
            let gates: [Vec<i8>; 4] = [
                (0..rows).flat_map(|r| along(r, true)).collect(),
                (0..rows).flat_map(|r| along(r, false)).collect(),
                (0..rows).flat_map(|r| along(r, r == some)).collect(),
                random.trits(rows * cols),
            ];
            for gate in gates {
                check_neurons(&matrix(layout, &gate, cols, Scales::Tensor(0.03)), &up, &x);
            }
        }
    }
}

#[test]
fn what_is_not_a_number_is_not_lost() {
    let random = &mut Random(43);
    let scales = Scales::Rows(random.floats(40, Floats::Special));
    let w = matrix(Layout::QuadLines, &random.trits(40 * 70), 70, scales);
    for scale in [f32::NAN, f32::INFINITY, 1.0] {
        let x = QuantRow::from_codes(&random.codes(70), scale);
        check_neurons(&w, &w, &x);
        check_columns(&w, &TernaryColumns::new(&Pool::new(1), &w).unwrap(), &x);
    }
}

fn check_neurons(gate: &TernaryMatrix, up: &TernaryMatrix, x: &QuantRow) {
    let (mut expected, gates) = (dense(gate, x), dense(gate, x));
    kernel(Isa::Scalar).unwrap().relu2_mul(&mut expected, &dense(up, x));
    let closed = gates.iter().filter(|gate| **gate <= 0.0).count();
    let rows = TernaryRows::new(&Pool::new(2), up).unwrap();
    let what = format!("{}x{}, {closed} closed", up.rows(), up.cols());
    for kernel in supported() {
        for threads in [1, 3] {
            let mut found = vec![f32::NAN; up.rows()];
            let pool = Pool::new(threads);
            let count = relu2_neurons(kernel, &pool, (gate, &rows), x, &mut found);
            assert_eq!(count, closed, "{what} on {}", kernel.isa());
            assert_same(&what, kernel, &expected, &found);
        }
    }
}

#[test]
fn tokens_side_by_side_have_the_bits_of_each_alone() {
    let random = &mut Random(44);
    for (rows, cols) in [(40, 257), (257, 513), (530, 1000), (1300, 70)] {
        let gate = matrix(Layout::QuadLines, &random.trits(rows * cols), cols, Scales::Tensor(0.2));
        let w = matrix(Layout::QuadLines, &random.trits(rows * cols), cols, Scales::Tensor(0.3));
        let by_column = TernaryColumns::new(&Pool::new(2), &w).unwrap();
        let by_row = TernaryRows::new(&Pool::new(2), &w).unwrap();
        for tokens in [1, 2, 9, 33, 131] {
            let shares = [0.0, -1.0, 0.1, 0.5, 1.0].into_iter().cycle();
            let codes = shares.take(tokens).flat_map(|share| codes(random, cols, share));
            let x: Vec<f32> = codes.map(f32::from).collect();
            let mut batch = QuantBatch::new(tokens, cols);
            batch.quantize(kernel(Isa::Scalar).unwrap(), &Pool::new(1), &x, cols);
            let xs = batch.rows();
            let expected: Vec<f32> = xs.iter().flat_map(|x| dense(&w, x)).collect();
            let gates: Vec<f32> = xs.iter().flat_map(|x| dense(&gate, x)).collect();
            let closed = gates.iter().filter(|gate| **gate <= 0.0).count();
            let mut neurons = gates.clone();
            kernel(Isa::Scalar).unwrap().relu2_mul(&mut neurons, &expected);
            let added: Vec<f32> = expected.iter().map(|y| 1.25 + y).collect();
            for (kernel, threads) in supported().flat_map(|k| [1, 2, 5].map(|threads| (k, threads)))
            {
                let (pool, what) =
                    (Pool::new(threads), format!("{tokens} tokens of {rows}x{cols}"));
                let find = |x: &QuantRow| {
                    let mut found = NonZeros::with_capacity(cols);
                    found.find(kernel, x);
                    found
                };
                let non_zeros: Vec<NonZeros> = xs.iter().map(find).collect();
                let mut total = vec![1.25; rows * tokens];
                multiply_add_columns_of_each(kernel, &pool, &by_column, &non_zeros, &mut total);
                assert_same(&what, kernel, &added, &total);
                // Rows are skipped always, never, and by some jobs.
                for max_open in [1.0, -1.0, 0.5] {
                    let matrices =
                        Relu2Matrices { gate: &gate, up: &w, up_rows: &by_row, max_open };
                    let mut found = vec![f32::NAN; rows * tokens];
                    let out = (&mut found[..], &mut ProductScratch::new(threads));
                    let counts = multiply_relu2(kernel, &pool, &matrices, &batch, out);
                    assert_same(&what, kernel, &neurons, &found);
                    assert_eq!(counts.closed, closed, "{what} on {}", kernel.isa());
                    match max_open {
                        1.0 => assert_eq!(counts.skipping, rows * tokens),
                        0.5 => assert!(counts.skipping <= rows * tokens),
                        _ => assert_eq!(counts.skipping, 0),
                    }
                }
            }
        }
    }
}

#[test]
fn scales_of_groups_have_no_copies() {
    let groups = Scales::Groups { len: 64, values: vec![1.0; 32] };
    let w = matrix(Layout::QuadLines, &[1; 16 * 128], 128, groups);
    assert!(TernaryRows::new(&Pool::new(1), &w).is_none());
    assert!(TernaryColumns::new(&Pool::new(1), &w).is_none());
}
