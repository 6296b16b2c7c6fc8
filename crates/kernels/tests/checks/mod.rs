//! Checks of what only the output head multiplies, and of recurrent mixers.

pub(crate) mod delta;

use wf_kernels::{
    CodeRows, FloatRows, Kernel, NibbleMatrix, NoiseKey, QuantRow, RowBounds, ScoreBounds, Strip,
    VectorBounds,
};

use crate::exact::{LENGTHS, assert_same, scalar};
use crate::support::{Floats, Random, nibble_matrix, quant_rows};

pub(crate) fn check_nibble_dots(kernel: &dyn Kernel) {
    let random = &mut Random(12);
    for cols in LENGTHS.skip(1).chain([127, 128, 129, 1000, 2560]) {
        let (rows, tokens) = (1 + random.below(40), 1 + cols % 9);
        let w = nibble_matrix(&random.nibbles(rows * cols), cols);
        check_nibble_product(kernel, &w, &quant_rows(&random.codes(tokens * cols), cols));
    }
    for cols in [64_usize, 1088, 1 << 17] {
        for code in [-128, 127] {
            let w = nibble_matrix(&vec![15; 17 * cols], cols);
            check_nibble_product(kernel, &w, &quant_rows(&vec![code; 5 * cols], cols));
        }
    }
}

fn check_nibble_product(kernel: &dyn Kernel, w: &NibbleMatrix, xs: &[QuantRow]) {
    let run = |kernel: &dyn Kernel| {
        let mut y = vec![i32::MIN; xs.len() * w.rows()];
        for strip in 0..w.strips() {
            kernel.nibble_dots(w, strip, xs, &mut Strip::new(&mut y, w.rows(), 16, strip));
        }
        y
    };
    let shape = format!("{}x{}, {} tokens", w.rows(), w.cols(), xs.len());
    assert_eq!(run(scalar()), run(kernel), "{}: {shape}", kernel.isa());
}

pub(crate) fn check_bound_scores(kernel: &dyn Kernel) {
    let random = &mut Random(13);
    for kind in Floats::ALL {
        for _ in 0..70 {
            let sixteen = |values: Vec<f32>| <[f32; 16]>::try_from(values).expect("sixteen");
            let [scale, shift, error, norm] = [(); 4].map(|()| sixteen(random.floats(16, kind)));
            let rows = RowBounds { scale, shift, error, norm };
            let &[coarse, fine, offset, per_error, per_norm, base_error] =
                random.floats(6, kind).as_array().expect("six");
            let x = VectorBounds { coarse, fine, offset, per_error, per_norm, base_error };
            let sums = [(); 2].map(|()| std::array::from_fn(|_| random.bits() as i32));
            let run = |kernel: &dyn Kernel| {
                let mut out = ScoreBounds::EMPTY;
                kernel.bound_scores(sums.each_ref(), &rows, &x, &mut out);
                [&out.estimate[..], &out.upper, &[out.best_estimate, out.best_upper]].concat()
            };
            assert_same(
                || format!("{}: bounds, {kind:?}", kernel.isa()),
                &run(scalar()),
                &run(kernel),
            );
        }
    }
}

pub(crate) fn check_perturb_bounds(kernel: &dyn Kernel) {
    let random = &mut Random(15);
    for kind in Floats::ALL {
        for _ in 0..70 {
            let key = NoiseKey(std::array::from_fn(|_| random.bits() as u32));
            let (first, factor) = (random.bits() as u32, random.floats(1, kind)[0]);
            let bounds = random.floats(32, kind);
            let run = |kernel: &dyn Kernel| {
                let mut out = ScoreBounds::EMPTY;
                out.estimate.copy_from_slice(&bounds[..16]);
                out.upper.copy_from_slice(&bounds[16..]);
                kernel.perturb_bounds(key, first, factor, &mut out);
                [&out.estimate[..], &out.upper, &[out.best_estimate, out.best_upper]].concat()
            };
            assert_same(
                || format!("{}: perturbed bounds, {kind:?}", kernel.isa()),
                &run(scalar()),
                &run(kernel),
            );
        }
    }
}

/// Equal to the scalar kernel, and to plain floats of the same values.
pub(crate) fn check_code_dots(kernel: &dyn Kernel) {
    let random = &mut Random(14);
    for len in [0, 16, 32, 48, 64, 80, 320, 2560] {
        for (kind, has_minima) in
            Floats::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)])
        {
            let (rows_len, vectors) = (1 + random.below(10), 1 + random.below(9));
            let (codes, groups) = (random.codes(rows_len * len), len / 16);
            let factors = if has_minima { 2 * groups } else { groups };
            let scales = random.floats(rows_len * factors, kind);
            let value = |at: usize| {
                let (row, group) = (at / len, at % len / 16);
                let product = f32::from(codes[at]) * scales[row * factors + group];
                if has_minima { product - scales[row * factors + groups + group] } else { product }
            };
            let values: Vec<f32> = (0..codes.len()).map(value).collect();
            let xs = random.floats(vectors * len, kind);
            let strip = |y: &mut Vec<f32>, run: &dyn Fn(&mut Strip<'_, f32>)| {
                run(&mut Strip::new(y, rows_len, rows_len, 0));
            };
            let rows = CodeRows { codes: &codes, scales: &scales, has_minima };
            let [mut expected, mut plain, mut found] =
                [(); 3].map(|()| vec![0.5; vectors * rows_len]);
            strip(&mut expected, &|y| scalar().code_dots(rows, &xs, y));
            strip(&mut plain, &|y| scalar().dots_many(FloatRows::F32(&values), &xs, y));
            strip(&mut found, &|y| kernel.code_dots(rows, &xs, y));
            let context = || format!("{}: {rows_len}x{len} codes, {kind:?}", kernel.isa());
            assert_same(context, &expected, &plain);
            assert_same(context, &expected, &found);
        }
    }
}
