//! Compares every kernel this CPU supports with the scalar one, bit for bit.
//!
//! A short form of the kernels' own tests, run on the user's machine: it detects a CPU or a virtual
//! machine that does not behave as documented, and miscompiled code.

use wf_kernels::{
    AttendScratch, FloatRows, Kernel, KvDtype, KvShape, KvSlot, KvStore, PAGE_LEN, Pool,
    QuantBatch, Queries, RotaryPairs, RotaryTable, Scales, Strip, TernaryMatrix, attend, multiply,
};

use super::Finding;

const ROWS: usize = 37;
const COLS: usize = 2 * 64 + 21;
const TOKENS: usize = 5;
const HEAD_DIM: usize = 24;

pub(super) fn checks() -> Vec<Finding> {
    let expected = Results::of(wf_kernels::supported().next().expect("scalar is always there"));
    let check = |kernel: &'static dyn Kernel| {
        let outcome = match Results::of(kernel).first_difference(&expected) {
            None => Ok(format!("{} results equal to scalar", expected.len())),
            Some(what) => Err(format!("{what} differs from scalar")),
        };
        Finding::check(format!("kernel {}", kernel.isa()), outcome)
    };
    wf_kernels::supported().map(check).collect()
}

/// Named results of a kernel on fixed inputs, as bits.
struct Results(Vec<(&'static str, Vec<u32>)>);

impl Results {
    fn of(kernel: &'static dyn Kernel) -> Self {
        let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
        let mut all = Vec::new();
        let mut note = |name, values: &[f32]| {
            all.push((name, values.iter().map(|v| v.to_bits()).collect()));
        };
        let x = numbers.floats(TOKENS * COLS);
        for (name, scales) in [
            ("product, one scale", Scales::Tensor(0.37)),
            ("product, one scale per row", Scales::Rows(numbers.positive(ROWS))),
            (
                "product, one scale per group",
                Scales::Groups { len: 64, values: numbers.positive(ROWS * COLS.div_ceil(64)) },
            ),
        ] {
            note(name, &product(kernel, &mut numbers, scales, &x));
        }
        let (a, b) = (numbers.floats(COLS), numbers.floats(ROWS * COLS));
        let mut dots = vec![0.0; ROWS];
        kernel.dots(FloatRows::F32(&b), &a, &mut dots);
        note("dot product", &dots);
        let half: Vec<u16> = b.iter().map(|&v| wf_kernels::half::f32_to_bf16(v)).collect();
        kernel.dots(FloatRows::Bf16(&half), &a, &mut dots);
        note("bf16 dot product", &dots);
        let half: Vec<u16> = b.iter().map(|&v| wf_kernels::half::f32_to_f16(v)).collect();
        kernel.dots(FloatRows::F16(&half), &a, &mut dots);
        note("f16 dot product", &dots);
        let mut out = vec![0.0; COLS];
        kernel.rms_norm(&a, &b[..COLS], 1e-5, &mut out);
        note("norm", &out);
        kernel.relu2_mul(&mut out, &a);
        note("squared ReLU", &out);
        kernel.silu_mul(&mut out, &a);
        note("SiLU", &out);
        kernel.add(&mut out, &a);
        kernel.softmax(&mut out);
        note("softmax", &out);
        for (name, dtype) in [
            ("attention, f32", KvDtype::F32),
            ("attention, bf16", KvDtype::Bf16),
            ("attention, f16", KvDtype::F16),
            ("attention, fp8-e4m3", KvDtype::Fp8E4m3),
            ("attention, fp8-e5m2", KvDtype::Fp8E5m2),
            ("attention, int8", KvDtype::Int8),
        ] {
            note(name, &attention(kernel, &mut numbers, dtype));
        }
        Self(all)
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn first_difference(&self, other: &Self) -> Option<&'static str> {
        self.0.iter().zip(&other.0).find(|(a, b)| a != b).map(|(a, _)| a.0)
    }
}

fn product(
    kernel: &'static dyn Kernel,
    numbers: &mut Numbers,
    scales: Scales,
    x: &[f32],
) -> Vec<f32> {
    let pool = Pool::new(1);
    let trits: Vec<i8> = (0..ROWS * COLS).map(|_| (numbers.next() % 3) as i8 - 1).collect();
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

fn attention(kernel: &dyn Kernel, numbers: &mut Numbers, dtype: KvDtype) -> Vec<f32> {
    let (pages, visible) = ([2, 0, 1], 3 * PAGE_LEN - 3);
    let mut store =
        KvStore::new(dtype, KvShape { layers: 1, pages: 3, heads: 1, head_dim: HEAD_DIM });
    for position in 0..visible {
        let (key, value) = (numbers.floats(HEAD_DIM), numbers.floats(HEAD_DIM));
        let slot = KvSlot::new(0, &pages, position);
        store.write(kernel, slot, &key, &value);
    }
    let mut query = numbers.floats(HEAD_DIM);
    let table = RotaryTable::new(HEAD_DIM, 10_000.0, visible);
    for pairs in [RotaryPairs::Halves, RotaryPairs::Adjacent] {
        kernel.rotate(&mut query, table.cos(visible - 1), table.sin(visible - 1), pairs);
    }
    let q = Queries {
        data: &query,
        stride: HEAD_DIM,
        heads: 1,
        visible: &[visible],
        window: None,
        scale: 0.2,
    };
    let (mut scratch, mut out) = (AttendScratch::new(1, HEAD_DIM), vec![0.0; HEAD_DIM]);
    let mut strip = Strip::new(&mut out, HEAD_DIM, HEAD_DIM, 0);
    attend(kernel, &q, &store.head(0, 0, &pages), &mut scratch, &mut strip, 0);
    out
}

/// Pseudorandom numbers, the same on every machine (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| (self.next() as i32 >> 8) as f32 / (1 << 21) as f32).collect()
    }

    fn positive(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| ((self.next() >> 9) + 1) as f32 / (1 << 23) as f32).collect()
    }
}
