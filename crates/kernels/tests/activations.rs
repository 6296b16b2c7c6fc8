//! Activations in every form: a scale for each group of columns, two rows of codes, floats. And slices of a
//! batch with matrices of their own. Every kernel gives the bits of the scalar one, and all CPUs the same.

use std::ops::Range;

use wf_kernels::{
    FloatRows, Isa, Kernel, Layout, Pool, ProductScratch, QuantBatch, QuantRow, Scales, Strip,
    TernaryMatrix, kernel, multiply, multiply_add, multiply_each, multiply_gated,
    multiply_gated_slices, multiply_slices, slice_alignment, supported,
};

use crate::support::{Floats, LAYOUTS, Random, cases, matrix};

/// Columns of activations with one scale.
const GROUP: usize = 128;

/// The hash of [`numerics`] that all kernels on all CPUs must give.
const NUMERICS: u64 = 0x6006_e0b6_275a_eda6;

fn scalar() -> &'static dyn Kernel {
    kernel(Isa::Scalar).expect("every CPU runs scalar code")
}

/// The ways to hold activations.
#[derive(Clone, Copy, Debug)]
enum Form {
    One,
    Groups,
    Pairs,
    Floats,
}

const FORMS: [Form; 4] = [Form::One, Form::Groups, Form::Pairs, Form::Floats];

fn batch(kernel: &dyn Kernel, form: Form, x: &[f32], cols: usize) -> QuantBatch {
    let (pool, tokens) = (&Pool::new(2), x.len() / cols);
    let mut batch = match form {
        Form::Floats => QuantBatch::of_floats(tokens, cols),
        Form::Pairs => QuantBatch::new(2 * tokens, cols),
        Form::One | Form::Groups => QuantBatch::new(tokens, cols),
    };
    match form {
        Form::One => batch.quantize(kernel, pool, x, cols),
        Form::Groups => batch.quantize_groups(kernel, pool, x, cols),
        Form::Pairs => {
            batch.quantize_twice(kernel, pool, x, &mut vec![0.0; x.len()], cols);
        }
        Form::Floats => batch.copy_floats(x, cols),
    }
    assert_eq!((batch.tokens(), batch.cols()), (tokens, cols));
    batch
}

fn product(kernel: &dyn Kernel, w: &TernaryMatrix, xs: &QuantBatch) -> Vec<f32> {
    let mut y = vec![f32::NAN; xs.tokens() * w.rows()];
    multiply(kernel, &Pool::new(2), w, xs, &mut y);
    y
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// One product, written down plainly.
fn naive(trits: &[i8], scale: impl Fn(usize) -> f32, x: &QuantRow, piece_len: usize) -> f32 {
    let factors = x.group_scales().expect("groups");
    let pieces = trits.chunks(piece_len).zip(x.codes().chunks(piece_len)).enumerate();
    pieces.fold(0.0, |sum: f32, (piece, (trits, codes))| {
        let products = trits.iter().zip(codes).map(|(t, c)| i64::from(*t) * i64::from(*c));
        let column = piece * piece_len;
        let dot = products.sum::<i64>() as f32 * factors[column / GROUP];
        dot.mul_add(scale(column), sum)
    })
}

#[test]
fn products_of_groups_are_what_naive_integers_say() {
    let random = &mut Random(31);
    for _ in 0..cases(60) {
        let (rows, cols, tokens) =
            (1 + random.below(40), 1 + random.below(700), 1 + random.below(9));
        let trits = random.trits(rows * cols);
        let xs = batch(scalar(), Form::Groups, &random.floats(tokens * cols, Floats::Plain), cols);
        for scales in random.scales(rows, cols) {
            let w = matrix(Layout::QuadLines, &trits, cols, scales.clone());
            let piece_len = match &scales {
                Scales::Groups { len, .. } => GROUP.min(*len),
                Scales::Tensor(_) | Scales::Rows(_) => GROUP,
            };
            let found = product(scalar(), &w, &xs);
            for (i, found) in found.into_iter().enumerate() {
                let (x, row) = (&xs.rows()[i / rows], i % rows);
                let scale = |column: usize| match &scales {
                    Scales::Tensor(scale) => *scale,
                    Scales::Rows(values) => values[row],
                    Scales::Groups { len, values } => {
                        values[row * cols.div_ceil(*len) + column / len]
                    }
                };
                let expected = naive(&trits[row * cols..][..cols], scale, x, piece_len);
                assert_eq!(found.to_bits(), expected.to_bits(), "{rows}x{cols}, {scales:?}");
            }
        }
    }
}

#[test]
fn a_group_is_quantized_as_a_row_of_its_own() {
    let random = &mut Random(32);
    for cols in [1, 64, 127, 128, 129, 200, 256, 300, 640] {
        for kind in [Floats::Plain, Floats::Wide, Floats::Subnormal] {
            let x = random.floats(3 * cols, kind);
            let groups = batch(wf_kernels::best(), Form::Groups, &x, cols);
            for (row, x) in groups.rows().iter().zip(x.chunks(cols)) {
                let scales = row.group_scales().expect("groups");
                assert_eq!(scales.len(), cols.div_ceil(GROUP));
                for ((x, codes), scale) in
                    x.chunks(GROUP).zip(row.codes().chunks(GROUP)).zip(scales)
                {
                    let alone = batch(scalar(), Form::One, x, x.len());
                    let alone = &alone.rows()[0];
                    assert_eq!(&codes[..x.len()], &alone.codes()[..x.len()]);
                    assert_eq!(scale.to_bits(), alone.scale().to_bits());
                }
                assert_eq!(row.sum(), row.codes().iter().map(|code| i32::from(*code)).sum::<i32>());
                assert_eq!(row.scale(), 1.0);
            }
        }
    }
}

#[test]
fn every_kernel_gives_the_bits_of_the_scalar_one_for_every_form() {
    let random = &mut Random(33);
    for cols in (1..=70).step_by(3).chain([127, 128, 129, 250, 320, 700, 1000]) {
        let (rows, tokens) = (1 + random.below(70), 1 + random.below(40));
        let (trits, x) = (random.trits(rows * cols), random.floats(tokens * cols, Floats::Plain));
        for (scales, form) in
            random.scales(rows, cols).into_iter().flat_map(|s| FORMS.map(|form| (s.clone(), form)))
        {
            let w = matrix(Layout::QuadLines, &trits, cols, scales.clone());
            let expected = bits(&product(scalar(), &w, &batch(scalar(), form, &x, cols)));
            for kernel in supported() {
                let found = bits(&product(kernel, &w, &batch(kernel, form, &x, cols)));
                let what = format!("{}: {rows}x{cols}, {tokens} tokens", kernel.isa());
                assert!(found == expected, "{what}, {form:?}, {scales:?}");
            }
        }
    }
}

#[test]
fn the_two_products_of_a_pair_are_added() {
    let (random, pool) = (&mut Random(34), &Pool::new(2));
    for (rows, cols, tokens) in [(17, 100, 1), (40, 256, 5), (300, 192, 33)] {
        let w = matrix(Layout::QuadLines, &random.trits(rows * cols), cols, Scales::Tensor(0.3));
        let x = random.floats(tokens * cols, Floats::Plain);
        for kernel in supported() {
            let xs = batch(kernel, Form::Pairs, &x, cols);
            let single = |row: &QuantRow| -> Vec<f32> {
                let mut y = vec![f32::NAN; rows];
                for strip in 0..w.strips() {
                    let y = &mut Strip::new(&mut y, rows, 16, strip);
                    scalar().multiply(&w, strip, std::slice::from_ref(row), y);
                }
                y
            };
            let expected: Vec<f32> = xs
                .rows()
                .chunks(2)
                .flat_map(|pair| {
                    let (coarse, fine) = (single(&pair[0]), single(&pair[1]));
                    coarse.into_iter().zip(fine).map(|(a, b)| a + b).collect::<Vec<_>>()
                })
                .collect();
            assert_eq!(bits(&product(kernel, &w, &xs)), bits(&expected), "{}", kernel.isa());
            let mut total = vec![1.0; tokens * rows];
            let scratch = &mut ProductScratch::new(pool.threads());
            multiply_add(kernel, pool, &w, &xs, (&mut total, scratch));
            let sums: Vec<f32> = expected.iter().map(|value| 1.0 + value).collect();
            assert_eq!(bits(&total), bits(&sums));
        }
    }
}

#[test]
fn floats_are_multiplied_as_the_rows_of_a_table() {
    let random = &mut Random(35);
    for (rows, cols, tokens) in [(1, 1, 1), (21, 100, 3), (33, 320, 6), (70, 130, 20)] {
        let (trits, x) = (random.trits(rows * cols), random.floats(tokens * cols, Floats::Wide));
        for scales in random.scales(rows, cols) {
            for (layout, kernel) in
                LAYOUTS.into_iter().flat_map(|l| supported().map(move |k| (l, k)))
            {
                let w = matrix(layout, &trits, cols, scales.clone());
                let mut weights = vec![0.0; rows * cols];
                for (row, weights) in weights.chunks_mut(cols).enumerate() {
                    w.weights(row, weights);
                }
                let mut expected = vec![f32::NAN; tokens * rows];
                for (x, y) in x.chunks(cols).zip(expected.chunks_mut(rows)) {
                    scalar().dots(FloatRows::F32(&weights), x, y);
                }
                let found = product(kernel, &w, &batch(kernel, Form::Floats, &x, cols));
                assert_eq!(bits(&found), bits(&expected), "{}, {layout:?}", kernel.isa());
            }
        }
    }
}

/// Slices of these lengths that begin at multiples of `alignment`, and the tokens at their places.
fn slices(lens: &[usize], alignment: usize) -> (Vec<Range<usize>>, usize) {
    let mut end: usize = 0;
    let slices = lens.iter().map(|len| {
        let start = end.next_multiple_of(alignment);
        end = start + len;
        start..end
    });
    (slices.collect(), end)
}

#[test]
fn slices_have_the_bits_of_products_of_their_own() {
    let (random, pool) = (&mut Random(36), &Pool::new(3));
    let (rows, cols) = (70, 200);
    for lens in [&[1, 1, 1][..], &[9, 1, 20, 3], &[300, 14], &[0, 5]] {
        let scales = random.scales(rows, cols);
        let mut random_matrix = |i: usize| {
            matrix(Layout::QuadLines, &random.trits(rows * cols), cols, scales[i].clone())
        };
        // Of one shape, but with other scales.
        let (gates, ups): (Vec<_>, Vec<_>) =
            (0..lens.len()).map(|i| (random_matrix(i), random_matrix(i + 1))).unzip();
        let x = random.floats(40 * cols, Floats::Plain);
        for (kernel, form) in supported().flat_map(|kernel| FORMS.map(|form| (kernel, form))) {
            let source = batch(kernel, form, &x, cols);
            let longest = lens.iter().max().expect("slices") * source.rows_per_token();
            for alignment in [1, slice_alignment(kernel, longest), 16] {
                let (slices, places) = slices(lens, alignment);
                let tokens: Vec<usize> = (0..places).map(|place| place * 7 % 40).collect();
                let mut xs = match form {
                    Form::Floats => QuantBatch::of_floats(places, cols),
                    _ => QuantBatch::new(2 * places, cols),
                };
                xs.gather(kernel, pool, &source, (&tokens, alignment > 1));
                let mut y = vec![7.0; places * rows];
                multiply_slices(kernel, pool, &slices, |n| &gates[n], &xs, &mut y);
                let mut gated = vec![7.0; places * rows];
                let out = (&mut gated[..], &mut ProductScratch::new(3));
                let matrices = |n| (&gates[n], &ups[n]);
                multiply_gated_slices(kernel, pool, &slices, matrices, &xs, out, |gate, up| {
                    kernel.silu_mul(gate, up);
                });
                for (n, slice) in slices.iter().enumerate() {
                    let rows_of: Vec<f32> = tokens[slice.clone()]
                        .iter()
                        .flat_map(|token| x[token * cols..][..cols].to_vec())
                        .collect();
                    if rows_of.is_empty() {
                        continue;
                    }
                    let alone = batch(scalar(), form, &rows_of, cols);
                    let [mut first, mut second] = [0, 1].map(|_| vec![0.0; slice.len() * rows]);
                    let each = [(&gates[n], &mut first[..]), (&ups[n], &mut second[..])];
                    multiply_each(scalar(), pool, each, &alone);
                    let places = slice.start * rows..slice.end * rows;
                    let what = format!("{}, {form:?}, {lens:?}, {alignment}", kernel.isa());
                    assert_eq!(bits(&y[places.clone()]), bits(&first), "{what}");
                    let mut expected = vec![0.0; first.len()];
                    let out = (&mut expected[..], &mut ProductScratch::new(3));
                    multiply_gated(scalar(), pool, matrices(n), &alone, out, |gate, up| {
                        scalar().silu_mul(gate, up);
                    });
                    assert_eq!(bits(&gated[places]), bits(&expected), "gated, {what}");
                }
                let covered = |place| slices.iter().any(|slice| slice.contains(&place));
                for place in (0..places).filter(|place| !covered(*place)) {
                    assert_eq!(y[place * rows..][..rows], vec![7.0; rows], "place {place}");
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "slices in ascending order")]
fn slices_that_overlap_are_refused() {
    let w = matrix(Layout::QuadLines, &[1; 64], 4, Scales::Tensor(1.0));
    let xs = batch(scalar(), Form::One, &[1.0; 16], 4);
    let mut y = vec![0.0; 4 * 16];
    multiply_slices(scalar(), &Pool::new(1), &[0..3, 2..4], |_| &w, &xs, &mut y);
}

/// Returns a hash of products of all forms on fixed inputs.
fn numerics(kernel: &dyn Kernel) -> u64 {
    let random = &mut Random(2026);
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for cols in [1, 100, 128, 259, 512] {
        let (trits, x) = (random.trits(21 * cols), random.floats(6 * cols, Floats::Wide));
        for scales in random.scales(21, cols) {
            let w = matrix(Layout::QuadLines, &trits, cols, scales);
            for form in FORMS {
                for value in product(kernel, &w, &batch(kernel, form, &x, cols)) {
                    for byte in value.to_bits().to_le_bytes() {
                        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
                    }
                }
            }
        }
    }
    hash
}

#[test]
fn all_cpus_agree() {
    for kernel in supported() {
        let hash = numerics(kernel);
        assert_eq!(hash, NUMERICS, "{:#018x} on {}", hash, kernel.isa());
    }
}
