//! Checks of the operations of gated DeltaNet, and of the Hadamard transform.

use wf_kernels::{DeltaInputs, Kernel, Strip};

use crate::exact::{LENGTHS, assert_same, check_lengths, in_place, scalar};
use crate::support::{Floats, Random};

pub(crate) fn check_sigmoid_mul(kernel: &dyn Kernel) {
    check_lengths(kernel, 21, |kernel, x, y| in_place(x, |x| kernel.sigmoid_mul(x, y)));
}

pub(crate) fn check_convolve(kernel: &dyn Kernel) {
    let random = &mut Random(22);
    for channels in LENGTHS {
        for kind in Floats::ALL {
            for taps in [1, 3, 4] {
                let inputs = random.floats(taps * channels, kind);
                let weights = random.floats(taps * channels, kind);
                let rows: Vec<_> =
                    (0..taps).map(|tap| &inputs[tap * channels..][..channels]).collect();
                let run = |kernel: &dyn Kernel| {
                    let mut out = vec![0.0; channels];
                    kernel.convolve(&rows, &weights, &mut out);
                    out
                };
                let context = || format!("{}: {taps} taps of {channels}", kernel.isa());
                assert_same(context, &run(scalar()), &run(kernel));
            }
        }
    }
}

pub(crate) fn check_delta_rule(kernel: &dyn Kernel) {
    let random = &mut Random(23);
    for (i, value_dim) in (1..=70).step_by(6).chain([16, 64, 80, 128, 131]).enumerate() {
        for kind in Floats::ALL {
            let (key_dim, heads, tokens) = (1 + i * 7 % 40, 1 + i % 3, 1 + i % 4);
            let row_len = 2 * key_dim + value_dim;
            let (rows, gates) =
                (random.floats(tokens * row_len, kind), random.floats(tokens * 2 * heads, kind));
            let inputs = DeltaInputs {
                rows: &rows,
                row_len,
                key_dim,
                columns: [0, key_dim, 2 * key_dim],
                gates: &gates,
                heads,
                head: heads - 1,
            };
            let state = random.floats(key_dim * value_dim, kind);
            let run = |kernel: &dyn Kernel| {
                let (mut state, mut out) = (state.clone(), vec![0.0; tokens * value_dim]);
                let mut rows = Strip::new(&mut out, value_dim, value_dim, 0);
                kernel.delta_rule(&inputs, &mut state, &mut rows);
                [state, out].concat()
            };
            let context = || format!("{}: {key_dim} x {value_dim} {kind:?}", kernel.isa());
            assert_same(context, &run(scalar()), &run(kernel));
        }
    }
}

pub(crate) fn check_hadamard(kernel: &dyn Kernel) {
    let random = &mut Random(24);
    for len in [1, 2, 4, 8, 16, 32, 64, 128, 1024, 2048] {
        for kind in Floats::ALL {
            let (x, signs) = (random.floats(len, kind), random.floats(len, kind));
            let signs: Vec<f32> = signs.iter().map(|sign| 1f32.copysign(*sign)).collect();
            let run = |kernel: &dyn Kernel| {
                let mut out = vec![0.0; len];
                kernel.hadamard(&x, &signs, 1.0 / (len as f32).sqrt(), &mut out);
                out
            };
            let context = || format!("{}: {len} {kind:?}", kernel.isa());
            assert_same(context, &run(scalar()), &run(kernel));
        }
    }
}
