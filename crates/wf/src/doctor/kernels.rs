//! Compares every kernel this CPU supports with the scalar one, bit for bit.
//!
//! A short form of the kernels' own tests, run on the user's machine: it detects a CPU or a virtual
//! machine that does not behave as documented, and miscompiled code.

use wf_kernels::{
    AttendScratch, FloatRows, Kernel, KvDtype, KvShape, KvSlot, KvStore, PAGE_LEN, Pool,
    QuantBatch, Queries, RmsNorm, RotaryPairs, RotaryTable, Scales, Strip, TernaryMatrix, attend,
    half, multiply, rotary_frequencies,
};
use wf_lab::random::Random;

use super::Finding;

const ROWS: usize = 37;
const COLS: usize = 2 * 64 + 21;
const TOKENS: usize = 5;
const HEAD_DIM: usize = 24;

pub(super) fn checks() -> Vec<Finding> {
    let expected = results(wf_kernels::supported().next().expect("scalar is always there"));
    let check = |kernel: &'static dyn Kernel| {
        let results = results(kernel);
        let outcome = match results.iter().zip(&expected).find(|(a, b)| a != b) {
            None => Ok(format!("{} results equal to scalar", expected.len())),
            Some(((name, _), _)) => Err(format!("{name} differs from scalar")),
        };
        Finding::check(format!("kernel {}", kernel.isa()), outcome)
    };
    wf_kernels::supported().map(check).collect()
}

/// Returns named results of a kernel on fixed inputs, as bits.
fn results(kernel: &'static dyn Kernel) -> Vec<(String, Vec<u32>)> {
    let mut random = Random::new(0, 0);
    let mut all = Vec::new();
    let mut note = |name: &str, values: &[f32]| {
        all.push((name.to_owned(), values.iter().map(|v| v.to_bits()).collect()));
    };
    let x = floats(&mut random, TOKENS * COLS);
    let groups = positive(&mut random, ROWS * COLS.div_ceil(64));
    for (name, scales) in [
        ("product, one scale", Scales::Tensor(0.37)),
        ("product, one scale per row", Scales::Rows(positive(&mut random, ROWS))),
        ("product, one scale per group", Scales::Groups { len: 64, values: groups }),
    ] {
        note(name, &product(kernel, &mut random, scales, &x));
    }
    let (a, b) = (floats(&mut random, COLS), floats(&mut random, ROWS * COLS));
    let halves = |to: fn(f32) -> u16| b.iter().map(|&v| to(v)).collect::<Vec<u16>>();
    let (bf16, f16) = (halves(half::f32_to_bf16), halves(half::f32_to_f16));
    for (name, rows) in [
        ("dot product", FloatRows::F32(&b)),
        ("bf16 dot product", FloatRows::Bf16(&bf16)),
        ("f16 dot product", FloatRows::F16(&f16)),
    ] {
        let mut dots = vec![0.0; ROWS];
        kernel.dots(rows, &a, &mut dots);
        note(name, &dots);
    }
    let mut out = vec![0.0; COLS];
    kernel.rms_norm(&a, RmsNorm::new(&b[..COLS], 1e-5), &mut out);
    note("norm", &out);
    kernel.relu2_mul(&mut out, &a);
    note("squared ReLU", &out);
    kernel.silu_mul(&mut out, &a);
    note("SiLU", &out);
    kernel.add(&mut out, &a);
    kernel.softmax(&mut out);
    note("softmax", &out);
    for dtype in KvDtype::ALL {
        note(&format!("attention, {dtype}"), &attention(kernel, &mut random, dtype));
    }
    all
}

fn product(
    kernel: &'static dyn Kernel,
    random: &mut Random,
    scales: Scales,
    x: &[f32],
) -> Vec<f32> {
    let pool = Pool::new(1);
    let mut trits = vec![0; ROWS * COLS];
    random.fill_trits(&mut trits);
    let mut matrix = TernaryMatrix::new(ROWS, COLS, scales);
    let read = |rows: std::ops::Range<usize>, out: &mut [i8]| {
        out.copy_from_slice(&trits[rows.start * COLS..rows.end * COLS]);
        Ok::<(), std::convert::Infallible>(())
    };
    let Ok(()) = matrix.fill(&pool, read);
    let mut batch = QuantBatch::new(TOKENS, COLS);
    batch.quantize(kernel, &pool, x, COLS);
    let mut y = vec![0.0; TOKENS * ROWS];
    multiply(kernel, &pool, &matrix, &batch, &mut y);
    y
}

fn attention(kernel: &dyn Kernel, random: &mut Random, dtype: KvDtype) -> Vec<f32> {
    let (pages, visible) = ([2, 0, 1], 3 * PAGE_LEN - 3);
    let mut store =
        KvStore::new(dtype, KvShape { layers: 1, pages: 3, heads: 1, head_dim: HEAD_DIM });
    for position in 0..visible {
        let (key, value) = (floats(random, HEAD_DIM), floats(random, HEAD_DIM));
        let slot = KvSlot::new(0, &pages, position);
        store.write(kernel, slot, &key, &value);
    }
    let mut query = floats(random, HEAD_DIM);
    let table = RotaryTable::new(&rotary_frequencies(HEAD_DIM, 10_000.0), 1.0, visible);
    for pairs in [RotaryPairs::Halves, RotaryPairs::Adjacent] {
        kernel.rotate(&mut query, table.cos(visible - 1), table.sin(visible - 1), pairs);
    }
    let q = Queries {
        data: &query,
        stride: HEAD_DIM,
        heads: 1,
        visible: &[visible],
        window: None,
        sinks: 0,
        scale: 0.2,
    };
    let (mut scratch, mut out) = (AttendScratch::new(1, HEAD_DIM), vec![0.0; HEAD_DIM]);
    let mut strip = Strip::new(&mut out, HEAD_DIM, HEAD_DIM, 0);
    attend(kernel, &q, &store.head(0, 0, &pages), &mut scratch, &mut strip, 0);
    out
}

/// Returns numbers from -4 to 4.
fn floats(random: &mut Random, len: usize) -> Vec<f32> {
    (0..len).map(|_| random.centred() * 4.0).collect()
}

fn positive(random: &mut Random, len: usize) -> Vec<f32> {
    (0..len).map(|_| random.centred().abs().max(f32::MIN_POSITIVE)).collect()
}
