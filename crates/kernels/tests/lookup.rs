//! Products of many tokens and rows, for which kernels may choose table lookups, have the bits of the scalar
//! kernel.

use wf_kernels::{
    Isa, Kernel, Layout, Pool, ProductScratch, QuantBatch, Scales, TernaryMatrix, kernel, multiply,
    multiply_each, multiply_gated, supported,
};

use crate::support::{Floats, Random, matrix};

/// Rows, columns and tokens: below and above the sizes from which on lookups are used, tails of strips, of
/// runs, of jobs and of blocks of tokens.
const SHAPES: [(usize, usize, usize); 12] = [
    (255, 64, 32),
    (256, 64, 13),
    (256, 64, 14),
    (264, 1, 16),
    (272, 63, 17),
    (333, 130, 31),
    (640, 200, 33),
    (1281, 100, 48),
    (2570, 48, 64),
    (300, 1000, 65),
    (400, 96, 77),
    (700, 320, 130),
];

fn scalar() -> &'static dyn Kernel {
    kernel(Isa::Scalar).expect("every CPU runs scalar code")
}

fn product(kernel: &dyn Kernel, threads: usize, w: &TernaryMatrix, x: &[f32]) -> Vec<u32> {
    let (pool, tokens) = (Pool::new(threads), x.len() / w.cols());
    let mut xs = QuantBatch::new(tokens, w.cols());
    xs.quantize(kernel, &pool, x, w.cols());
    let mut y = vec![f32::NAN; tokens * w.rows()];
    multiply(kernel, &pool, w, &xs, &mut y);
    y.into_iter().map(f32::to_bits).collect()
}

#[track_caller]
fn check(w: &TernaryMatrix, x: &[f32]) {
    let expected = product(scalar(), 2, w, x);
    for kernel in supported() {
        for threads in [1, 3] {
            let same = product(kernel, threads, w, x) == expected;
            let (rows, cols, tokens) = (w.rows(), w.cols(), x.len() / w.cols());
            assert!(same, "{} of {rows}x{cols} and {tokens} tokens", kernel.isa());
        }
    }
}

#[test]
fn many_tokens_have_the_bits_of_scalar() {
    let random = &mut Random(51);
    for (rows, cols, tokens) in SHAPES {
        let all_scales = [Scales::Tensor(0.3), Scales::Rows(random.floats(rows, Floats::Plain))];
        for (scales, layout) in all_scales.into_iter().zip(Layout::ALL.into_iter().cycle()) {
            let w = matrix(layout, &random.trits(rows * cols), cols, scales);
            check(&w, &random.floats(tokens * cols, Floats::Plain));
        }
        let w = matrix(Layout::QuadLines, &random.trits(rows * cols), cols, Scales::Tensor(0.7));
        check(&w, &random.floats(tokens * cols, Floats::Plain));
    }
}

#[test]
fn groups_have_the_bits_of_scalar() {
    let random = &mut Random(52);
    let (rows, cols) = (256, 384);
    let scales = Scales::Groups { len: 128, values: random.floats(rows * 3, Floats::Plain) };
    let w = matrix(Layout::QuadLines, &random.trits(rows * cols), cols, scales);
    check(&w, &random.floats(20 * cols, Floats::Plain));
}

/// Rows of one sign, whose sums leave 16 bits, beside tokens whose sums do not.
#[test]
fn the_largest_sums_are_exact() {
    let (rows, cols) = (256, 6912);
    for trit in [1, -1] {
        let w = matrix(Layout::QuadLines, &vec![trit; rows * cols], cols, Scales::Tensor(1.0));
        for tokens in [16, 32] {
            let sign = |token: usize, column: usize| match token % 4 {
                0 => 1.0,
                1 => -1.0,
                2 => f32::from(u8::from(column == 0)),
                _ => 0.003 * column as f32 - 5.0,
            };
            let x: Vec<f32> = (0..tokens * cols).map(|i| sign(i / cols, i % cols)).collect();
            check(&w, &x);
        }
    }
}

#[test]
fn several_matrices_of_different_sizes_share_their_jobs() {
    let (random, cols, tokens) = (&mut Random(53), 192, 40);
    let mut w = |rows: usize| {
        matrix(Layout::QuadLines, &random.trits(rows * cols), cols, Scales::Tensor(0.5))
    };
    let (large, small, second) = (w(1500), w(72), w(1500));
    let x = Random(54).floats(tokens * cols, Floats::Plain);
    for kernel in supported() {
        let pool = Pool::new(2);
        let mut xs = QuantBatch::new(tokens, cols);
        xs.quantize(kernel, &pool, &x, cols);
        let (mut a, mut b) = (vec![0.0; tokens * 1500], vec![0.0; tokens * 72]);
        multiply_each(kernel, &pool, [(&large, &mut a[..]), (&small, &mut b[..])], &xs);
        let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&a), product(scalar(), 1, &large, &x), "{}", kernel.isa());
        assert_eq!(bits(&b), product(scalar(), 1, &small, &x), "{}", kernel.isa());

        let mut gate = vec![0.0; tokens * 1500];
        let out = (&mut gate[..], &mut ProductScratch::new(2));
        multiply_gated(kernel, &pool, (&large, &second), &xs, out, |gate, up| {
            gate.iter_mut().zip(&*up).for_each(|(gate, up)| *gate += up);
        });
        let second = product(scalar(), 1, &second, &x);
        let sums = a.iter().zip(second).map(|(a, b)| (a + f32::from_bits(b)).to_bits());
        assert!(sums.eq(bits(&gate)), "{}", kernel.isa());
    }
}
