//! Every kernel this CPU has gives the bits of the scalar kernel, and all CPUs give the same bits.
//!
//! Each operation has one check, which compares a kernel with the scalar one on all lengths from 0
//! to 70, on ordinary and extreme numbers. The same checks are run against kernels with a planted
//! error, to prove that they can fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use wf_kernels::{
    Int8Matrix, Isa, Kernel, KvDtype, KvShape, KvSlot, KvStore, Layout, PAGE_LEN, Pool, QuantRow,
    Queries, RmsNorm, RotaryPairs, Scales, Strip, TernaryMatrix, kernel, part_len, split_len,
    supported,
};

use crate::checks::delta::{check_convolve, check_delta_rule, check_hadamard, check_sigmoid_mul};
use crate::checks::{check_bound_scores, check_code_dots, check_nibble_dots, check_perturb_bounds};
use crate::planted::{Op, Planted};
use crate::support::pages::{Pages, queries};
use crate::support::{Floats, LAYOUTS, Random, Rows, int8_matrix, matrix, quant_rows};

/// The hash that all kernels on all CPUs must give for the inputs of [`numerics`]. A change that moves it
/// changes what models answer: it must be meant, and be announced as new numerics.
const NUMERICS_V3: u64 = 0xcf77_ab70_4381_85c6;

pub(crate) const LENGTHS: std::ops::RangeInclusive<usize> = 0..=70;

type Check = fn(&dyn Kernel);

const CHECKS: [(Op, Check); 24] = [
    (Op::Quantize, check_quantize),
    (Op::NormAndQuantize, check_norm_and_quantize),
    (Op::Multiply, check_multiply),
    (Op::Int8Dots, check_int8_dots),
    (Op::NibbleDots, check_nibble_dots),
    (Op::BoundScores, check_bound_scores),
    (Op::PerturbBounds, check_perturb_bounds),
    (Op::Dots, check_dots),
    (Op::DotsMany, check_dots_many),
    (Op::CodeDots, check_code_dots),
    (Op::RmsNorm, check_rms_norm),
    (Op::Rotate, check_rotate),
    (Op::Relu2Mul, check_relu2_mul),
    (Op::SiluMul, check_silu_mul),
    (Op::GeluMul, check_gelu_mul),
    (Op::SigmoidMul, check_sigmoid_mul),
    (Op::Convolve, check_convolve),
    (Op::DeltaRule, check_delta_rule),
    (Op::Hadamard, check_hadamard),
    (Op::Add, check_add),
    (Op::Softmax, check_softmax),
    (Op::AttendChunk, check_attend_chunk),
    (Op::JoinChunks, check_join_chunks),
    (Op::BoundPages, check_bound_pages),
];

pub(crate) fn scalar() -> &'static dyn Kernel {
    kernel(Isa::Scalar).expect("every CPU runs scalar code")
}

/// Equal bits; any NaN equals any other, because their payloads are not ours to choose.
#[track_caller]
pub(crate) fn assert_same(context: impl Fn() -> String, expected: &[f32], found: &[f32]) {
    assert_eq!(expected.len(), found.len());
    for (i, (expected, found)) in expected.iter().zip(found).enumerate() {
        let same = expected.to_bits() == found.to_bits() || (expected.is_nan() && found.is_nan());
        assert!(same, "{}, element {i}: {found:e}, scalar says {expected:e}", context());
    }
}

#[test]
fn scalar_comes_first_and_all_are_different() {
    let isas: Vec<Isa> = supported().map(Kernel::isa).collect();
    assert_eq!(isas[0], Isa::Scalar);
    assert!(isas.is_sorted() && isas.windows(2).all(|pair| pair[0] != pair[1]), "{isas:?}");
    let best = wf_kernels::best().isa();
    assert!(
        isas.iter().all(|&isa| isa <= best || isa == Isa::Amx),
        "only tiles may not pay: {best}"
    );
    let has_amx = isas.contains(&Isa::Amx);
    let why_no_amx = wf_kernels::unavailable_reason(Isa::Amx);
    assert_eq!(why_no_amx.is_some(), cfg!(target_arch = "x86_64") && !has_amx, "{why_no_amx:?}");
    assert_eq!(wf_kernels::unavailable_reason(Isa::Scalar), None);
    println!("kernels here: {isas:?}");
}

#[test]
fn every_kernel_equals_scalar_bit_for_bit() {
    for kernel in supported() {
        for (_, check) in CHECKS {
            check(kernel);
        }
    }
}

#[test]
fn a_planted_error_is_caught_by_its_check() {
    for (op, check) in CHECKS {
        let caught = catch_unwind(AssertUnwindSafe(|| check(&Planted(op)))).is_err();
        assert!(caught, "an error in {op:?}");
    }
}

#[test]
fn all_cpus_agree() {
    for kernel in supported() {
        let hash = numerics(kernel);
        assert_eq!(hash, NUMERICS_V3, "{:#018x} on {}", hash, kernel.isa());
    }
}

fn check_quantize(kernel: &dyn Kernel) {
    let random = &mut Random(1);
    for len in LENGTHS.chain([127, 128, 2560]) {
        for kind in Floats::ALL {
            check_quantize_row(kernel, &random.floats(len, kind));
        }
        // Halves in the middle between two codes, and rows of nothing.
        let mut halves: Vec<f32> = (0..len).map(|i| i as f32 - 35.5).collect();
        halves.extend([127.0]);
        check_quantize_row(kernel, &halves);
        check_quantize_row(kernel, &vec![-0.0; len]);
        check_quantize_row(kernel, &vec![1e-6; len]);
    }
}

fn check_quantize_row(kernel: &dyn Kernel, x: &[f32]) {
    let padded = x.len().next_multiple_of(64) + 64;
    let run = |kernel: &dyn Kernel| {
        let (mut codes, mut sums) = (vec![77_i8; padded], vec![77; padded / 64]);
        let scale = kernel.quantize(x, &mut codes, &mut sums);
        (codes, sums, scale)
    };
    let ((codes, sums, scale), found) = (run(scalar()), run(kernel));
    assert_eq!((&codes, &sums), (&found.0, &found.1), "{} on {x:?}", kernel.isa());
    assert_same(|| format!("{} on {x:?}", kernel.isa()), &[scale], &[found.2]);
}

/// In one operation as in two.
fn check_norm_and_quantize(kernel: &dyn Kernel) {
    let random = &mut Random(12);
    for len in LENGTHS.skip(1).chain([127, 128, 2560]) {
        for kind in Floats::ALL {
            let (x, weight) = (random.floats(len, kind), random.floats(len, Floats::Plain));
            let padded = len.next_multiple_of(64) + 64;
            let room = || (vec![77_i8; padded], vec![77; padded / 64]);
            let (mut normed, (mut codes, mut sums)) = (vec![0.0; len], room());
            let norm = RmsNorm::new(&weight, 1e-5);
            scalar().rms_norm(&x, norm, &mut normed);
            let scale = scalar().quantize(&normed, &mut codes, &mut sums);
            let (mut found_codes, mut found_sums) = room();
            let found = kernel.norm_and_quantize(&x, norm, &mut found_codes, &mut found_sums);
            assert_eq!((codes, sums), (found_codes, found_sums), "{} on {x:?}", kernel.isa());
            assert_same(|| format!("{} on {x:?}", kernel.isa()), &[scale], &[found]);
        }
    }
}

fn check_multiply(kernel: &dyn Kernel) {
    let random = &mut Random(2);
    for cols in LENGTHS.skip(1).chain([127, 128, 129, 250, 320, 1000, 2560]) {
        let rows = 1 + random.below(40);
        let trits = random.trits(rows * cols);
        let all_scales = random.scales(rows, cols).into_iter();
        for (i, scales) in all_scales.chain(random.half_scales(rows, cols)).enumerate() {
            let tokens = 1 + (cols + i) % 9;
            let codes = random.codes(tokens * cols);
            check_product(kernel, &trits, &scales, &quant_rows(&codes, cols), cols);
        }
    }
    // The largest sums there are, in both directions, and where they would cross a narrow sum.
    for cols in [64_usize, 256, 512, 576, 1024, 1088, 6912, 16384] {
        for (trit, code) in [(1, -128), (-1, -128), (1, 127), (-1, 127)] {
            for scales in [
                Scales::Tensor(1.0),
                Scales::Groups { len: 256, values: vec![1.0; 17 * cols.div_ceil(256)] },
            ] {
                let xs = quant_rows(&vec![code; 5 * cols], cols);
                check_product(kernel, &vec![trit; 17 * cols], &scales, &xs, cols);
            }
        }
    }
}

fn check_product(kernel: &dyn Kernel, trits: &[i8], scales: &Scales, xs: &[QuantRow], cols: usize) {
    let kind = std::mem::discriminant(scales);
    let expected = {
        let w = matrix(Layout::QuadLines, trits, cols, scales.clone());
        product(scalar(), &w, xs)
    };
    for layout in LAYOUTS {
        let w = &matrix(layout, trits, cols, scales.clone());
        let shape = format!("{}x{cols}, {} tokens", w.rows(), xs.len());
        let context = || format!("{}: {shape}, scales {kind:?}, {layout:?}", kernel.isa());
        assert_same(context, &expected, &product(kernel, w, xs));
    }
}

fn product(kernel: &dyn Kernel, w: &TernaryMatrix, xs: &[QuantRow]) -> Vec<f32> {
    let mut y = vec![f32::NAN; xs.len() * w.rows()];
    for strip in 0..w.strips() {
        kernel.multiply(w, strip, xs, &mut Strip::new(&mut y, w.rows(), 16, strip));
    }
    y
}

fn check_int8_dots(kernel: &dyn Kernel) {
    let random = &mut Random(11);
    for cols in LENGTHS.skip(1).chain([127, 128, 129, 1000, 2560]) {
        let (rows, tokens) = (1 + random.below(40), 1 + cols % 9);
        let w = int8_matrix(&random.weight_codes(rows * cols), cols);
        check_int8_product(kernel, &w, &quant_rows(&random.codes(tokens * cols), cols));
    }
    // The largest sums there are, in both directions, up to the widest matrix.
    for cols in [64_usize, 1088, 1 << 17] {
        for (weight, code) in [(127, -128), (-127, -128), (127, 127), (-127, 127)] {
            let w = int8_matrix(&vec![weight; 17 * cols], cols);
            check_int8_product(kernel, &w, &quant_rows(&vec![code; 5 * cols], cols));
        }
    }
}

fn check_int8_product(kernel: &dyn Kernel, w: &Int8Matrix, xs: &[QuantRow]) {
    let run = |kernel: &dyn Kernel| {
        let mut y = vec![i32::MIN; xs.len() * w.rows()];
        for strip in 0..w.strips() {
            kernel.int8_dots(w, strip, xs, &mut Strip::new(&mut y, w.rows(), 16, strip));
        }
        y
    };
    let shape = format!("{}x{}, {} tokens", w.rows(), w.cols(), xs.len());
    assert_eq!(run(scalar()), run(kernel), "{}: {shape}", kernel.isa());
}

fn check_dots(kernel: &dyn Kernel) {
    let random = &mut Random(3);
    for len in LENGTHS.chain([127, 2560]) {
        for kind in Floats::ALL {
            let rows_len = random.below(10);
            let x = random.floats(len, kind);
            for rows in Rows::each(&random.floats(rows_len * len, kind)) {
                let run = |kernel: &dyn Kernel| {
                    let mut y = vec![f32::NAN; rows_len];
                    kernel.dots(rows.view(), &x, &mut y);
                    y
                };
                let context = || format!("{}: {rows_len} rows of {len} {kind:?}", kernel.isa());
                assert_same(context, &run(scalar()), &run(kernel));
            }
        }
    }
}

/// Against `dots` of the scalar kernel, one vector after the other.
fn check_dots_many(kernel: &dyn Kernel) {
    let random = &mut Random(12);
    for len in LENGTHS.skip(1).chain([127, 2560]) {
        let (rows_len, vectors) = (1 + random.below(10), 1 + len % 10);
        for kind in Floats::ALL {
            let xs = random.floats(vectors * len, kind);
            for rows in Rows::each(&random.floats(rows_len * len, kind)) {
                let mut expected = vec![f32::NAN; vectors * rows_len];
                for (x, y) in xs.chunks(len).zip(expected.chunks_mut(rows_len)) {
                    scalar().dots(rows.view(), x, y);
                }
                let mut found = vec![f32::NAN; vectors * rows_len];
                let mut y = Strip::new(&mut found, rows_len, rows_len, 0);
                kernel.dots_many(rows.view(), &xs, &mut y);
                let shape = format!("{rows_len} rows of {len}, {vectors} vectors, {kind:?}");
                assert_same(|| format!("{}: {shape}", kernel.isa()), &expected, &found);
            }
        }
    }
}

fn check_rms_norm(kernel: &dyn Kernel) {
    check_lengths(kernel, 4, |kernel, x, y| {
        let mut out = vec![f32::NAN; x.len()];
        kernel.rms_norm(x, RmsNorm::new(y, 1e-5), &mut out);
        out
    });
}

fn check_rotate(kernel: &dyn Kernel) {
    for pairs in [RotaryPairs::Halves, RotaryPairs::Adjacent] {
        check_lengths(kernel, 5, |kernel, x, y| {
            let mut head = [x, y].concat();
            kernel.rotate(&mut head, y, x, pairs);
            head
        });
    }
}

fn check_relu2_mul(kernel: &dyn Kernel) {
    check_lengths(kernel, 6, |kernel, x, y| in_place(x, |x| kernel.relu2_mul(x, y)));
}

fn check_silu_mul(kernel: &dyn Kernel) {
    check_lengths(kernel, 7, |kernel, x, y| in_place(x, |x| kernel.silu_mul(x, y)));
}

fn check_gelu_mul(kernel: &dyn Kernel) {
    check_lengths(kernel, 7, |kernel, x, y| in_place(x, |x| kernel.gelu_mul(x, y)));
}

fn check_add(kernel: &dyn Kernel) {
    check_lengths(kernel, 8, |kernel, x, y| in_place(x, |x| kernel.add(x, y)));
}

fn check_softmax(kernel: &dyn Kernel) {
    check_lengths(kernel, 9, |kernel, x, _| in_place(x, |x| kernel.softmax(x)));
}

pub(crate) fn in_place(x: &[f32], op: impl Fn(&mut [f32])) -> Vec<f32> {
    let mut x = x.to_vec();
    op(&mut x);
    x
}

/// An operation on two slices, on every length and kind of floats.
pub(crate) fn check_lengths(
    kernel: &dyn Kernel,
    seed: u64,
    op: impl Fn(&dyn Kernel, &[f32], &[f32]) -> Vec<f32>,
) {
    let random = &mut Random(seed);
    for len in LENGTHS.chain([127, 1000, 2560]) {
        for kind in Floats::ALL {
            let (x, y) = (random.floats(len, kind), random.floats(len, kind));
            let context = || format!("{}: {len} {kind:?} floats", kernel.isa());
            assert_same(context, &op(scalar(), &x, &y), &op(kernel, &x, &y));
        }
    }
}

fn check_attend_chunk(kernel: &dyn Kernel) {
    let random = &mut Random(10);
    for (i, head_dim) in (1..=70).step_by(6).chain([16, 64, 128, 200]).enumerate() {
        for dtype in KvDtype::ALL {
            let kind = Floats::ALL[i % Floats::ALL.len()];
            // Rows that end in different pages, and one that sees nothing of the second chunk.
            let visible: Vec<usize> = (0..1 + i % 3).map(|_| 1 + random.below(300)).collect();
            let kv = Pages::random(random, dtype, head_dim, 300, (kind, kernel));
            let heads = 1 + i % 6;
            let q = random.floats(visible.len() * heads * head_dim, Floats::Plain);
            let window = [None, Some(1), Some(40), Some(270)][(i / 2) % 4];
            let q = Queries { window, ..queries(&q, heads, &visible) };
            for chunk in [0, 1] {
                let context = || format!("{}: {dtype}, {q:?}, chunk {chunk}", kernel.isa());
                let (expected, found) =
                    (kv.parts(scalar(), &q, chunk), kv.parts(kernel, &q, chunk));
                assert_same(context, &expected, &found);
            }
        }
    }
}

fn check_bound_pages(kernel: &dyn Kernel) {
    for head_dim in [1, 15, 16, 17, 64, 67, 128] {
        let random = &mut Random(head_dim as u64);
        let shape = KvShape { layers: 1, pages: 3, heads: 1, head_dim };
        let mut store = KvStore::new(KvDtype::F32, shape).with_summaries();
        for position in 0..3 * PAGE_LEN {
            let row = random.floats(head_dim, Floats::Plain);
            let slot = KvSlot::new(0, &[0, 1, 2], position);
            store.write(scalar(), slot, &row, &row);
        }
        store.summarize(&Pool::new(1), 0, &[0, 1, 2]);
        let kv = store.head(0, 0, &[2, 0, 1]);
        for heads in 1..=6 {
            let queries = random.floats(heads * split_len(head_dim), Floats::Plain);
            let bounds = |kernel: &dyn Kernel| {
                in_place(&vec![f32::NAN; heads * 2], |out| {
                    kernel.bound_pages(&queries, &kv, 1, out)
                })
            };
            assert_same(|| format!("{heads} of {head_dim}"), &bounds(scalar()), &bounds(kernel));
        }
    }
}

fn check_join_chunks(kernel: &dyn Kernel) {
    let random = &mut Random(13);
    for head_dim in [1, 16, 65, 67, 128] {
        let part_len = part_len(head_dim);
        for kind in Floats::ALL {
            let parts = random.floats(5 * part_len, kind);
            let mut next = random.floats(5 * part_len, kind);
            next[2 * part_len - 1] = 0.0;
            let run = |kernel: &dyn Kernel| {
                in_place(&parts, |parts| kernel.join_chunks(part_len, parts, &next))
            };
            let context = || format!("{}: {head_dim} {kind:?}", kernel.isa());
            assert_same(context, &run(scalar()), &run(kernel));
        }
    }
}

/// Returns a hash of the results of every operation of a kernel on fixed inputs.
fn numerics(kernel: &dyn Kernel) -> u64 {
    let random = &mut Random(2024);
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut take = |values: &[f32]| {
        for value in values {
            assert!(!value.is_nan(), "a NaN has no bits to agree on");
            for byte in value.to_bits().to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
    };
    for len in [1, 15, 16, 33, 64, 100, 259] {
        let (x, y) = (random.floats(len, Floats::Plain), random.floats(len, Floats::Wide));
        let (mut codes, mut sums) = (vec![0; 320], vec![0; 5]);
        take(&[kernel.quantize(&y, &mut codes, &mut sums)]);
        take(&codes.iter().map(|&code| f32::from(code)).collect::<Vec<_>>());
        take(&sums.iter().map(|&sum| sum as f32).collect::<Vec<_>>());
        let trits = random.trits(21 * len);
        for scales in random.scales(21, len) {
            let xs = quant_rows(&random.codes(6 * len), len);
            take(&product(kernel, &matrix(Layout::QuadLines, &trits, len, scales), &xs));
        }
        for rows in Rows::each(&random.floats(7 * len, Floats::Plain)) {
            let mut dots = [0.0; 7];
            kernel.dots(rows.view(), &x, &mut dots);
            take(&dots);
        }
        let mut normed = vec![0.0; len];
        kernel.rms_norm(&y, RmsNorm::new(&x, 1e-5), &mut normed);
        take(&normed);
        for pairs in [RotaryPairs::Halves, RotaryPairs::Adjacent] {
            take(&in_place(&[&x[..], &x[..]].concat(), |head| kernel.rotate(head, &x, &y, pairs)));
        }
        take(&in_place(&x, |x| kernel.relu2_mul(x, &y)));
        take(&in_place(&x, |x| kernel.silu_mul(x, &y)));
        take(&in_place(&x, |x| kernel.add(x, &y)));
        take(&in_place(&x, |x| kernel.softmax(x)));
        for dtype in KvDtype::ALL {
            let kv = Pages::random(random, dtype, len, 300, (Floats::Plain, kernel));
            take(&kv.attend(kernel, &queries(&x, 1, &[300])));
        }
    }
    let frequencies = wf_kernels::rotary_frequencies(64, 500_000.0);
    let table = wf_kernels::RotaryTable::new(&frequencies, 1.0, 100);
    (0..100).for_each(|position| {
        take(table.cos(position));
        take(table.sin(position));
    });
    hash
}
