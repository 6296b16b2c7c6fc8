//! Throughput of each kernel: bytes of weights, embedding rows or K/V read per second.
//!
//! `cargo bench -p wf-kernels`, on a machine that does nothing else. All numbers are for one thread.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use wf_kernels::{
    AttendScratch, FloatRows, Isa, Kernel, KvDtype, KvShape, KvSlot, KvStore, PAGE_LEN, Pool,
    QuantBatch, Queries, RmsNorm, Scales, Strip, TernaryMatrix, attend, multiply, supported,
};

/// The down projection of BitNet 2B.
const ROWS: usize = 2560;
const COLS: usize = 6912;

fn trits(rows: usize, cols: usize, scales: Scales) -> TernaryMatrix {
    let mut w = TernaryMatrix::new(rows, cols, scales);
    let read = |range: std::ops::Range<usize>, out: &mut [i8]| {
        for (i, trit) in out.iter_mut().enumerate() {
            *trit = ((range.start * 31 + i * 7 + i / 3) % 3) as i8 - 1;
        }
        Ok::<(), ()>(())
    };
    w.fill(&Pool::new(1), read).expect("reading cannot fail");
    w
}

fn floats(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect()
}

/// All kernels but, where it takes too long, the scalar one.
fn fast_kernels() -> impl Iterator<Item = &'static dyn Kernel> {
    supported().filter(|kernel| kernel.isa() != Isa::Scalar)
}

fn products(c: &mut Criterion) {
    let pool = Pool::new(1);
    let groups = Scales::Groups { len: 128, values: vec![0.5; ROWS * COLS.div_ceil(128)] };
    for (name, scales) in [("tensor", Scales::Tensor(0.5)), ("groups of 128", groups)] {
        let w = trits(ROWS, COLS, scales);
        let mut group = c.benchmark_group(format!("multiply {ROWS}x{COLS}, scale per {name}"));
        group.throughput(Throughput::Bytes(w.bytes_len() as u64));
        for kernel in fast_kernels() {
            for tokens in [1, 4, 16, 64] {
                let mut xs = QuantBatch::new(tokens, COLS);
                xs.quantize(kernel, &pool, &floats(tokens * COLS), COLS);
                let mut y = vec![0.0; tokens * ROWS];
                group.bench_function(BenchmarkId::new(kernel.isa().name(), tokens), |b| {
                    b.iter(|| multiply(kernel, &pool, &w, black_box(&xs), &mut y));
                });
            }
        }
        group.finish();
    }
}

fn head(c: &mut Criterion) {
    let (rows, cols) = (8192, 2560);
    let bits = vec![0x3f80_u16; rows * cols];
    let x = floats(cols);
    let mut y = vec![0.0; rows];
    let mut group = c.benchmark_group(format!("dots {rows}x{cols}"));
    group.throughput(Throughput::Bytes(2 * bits.len() as u64));
    for kernel in fast_kernels() {
        group.bench_function(BenchmarkId::new(kernel.isa().name(), "bf16"), |b| {
            b.iter(|| kernel.dots(FloatRows::Bf16(&bits), black_box(&x), &mut y));
        });
        group.bench_function(BenchmarkId::new(kernel.isa().name(), "f16"), |b| {
            b.iter(|| kernel.dots(FloatRows::F16(&bits), black_box(&x), &mut y));
        });
        let (xs, mut ys) = (floats(8 * cols), vec![0.0; 8 * rows]);
        group.bench_function(BenchmarkId::new(kernel.isa().name(), "bf16, 8 vectors"), |b| {
            let mut ys = Strip::new(&mut ys, rows, rows, 0);
            b.iter(|| kernel.dots_many(FloatRows::Bf16(&bits), black_box(&xs), &mut ys));
        });
    }
    group.finish();
}

fn attention(c: &mut Criterion) {
    let (head_dim, visible) = (128, 2048);
    let pages: Vec<u32> = (0..(visible / PAGE_LEN) as u32).collect();
    let row = floats(head_dim);
    for dtype in KvDtype::ALL {
        let shape = KvShape { layers: 1, pages: pages.len(), heads: 1, head_dim };
        let mut store = KvStore::new(dtype, shape);
        for position in 0..visible {
            let slot = KvSlot::new(0, &pages, position);
            store.write(wf_kernels::best(), slot, &row, &row);
        }
        let mut group = c.benchmark_group(format!("attend {visible} of {head_dim}, {dtype}"));
        group.throughput(Throughput::Bytes(shape.size_bytes(dtype) as u64));
        for kernel in fast_kernels() {
            for (rows, heads) in [(1, 1), (1, 4), (4, 4)] {
                let width = heads * head_dim;
                let (data, seen) = (floats(rows * width), vec![visible; rows]);
                let q = Queries {
                    data: &data,
                    stride: width,
                    heads,
                    visible: &seen,
                    window: None,
                    sinks: 0,
                    scale: 0.1,
                };
                let kv = store.head(0, 0, &pages);
                let mut scratch = AttendScratch::new(rows * heads, head_dim);
                let mut out = data.clone();
                let name = BenchmarkId::new(kernel.isa().name(), format!("{rows}x{heads}"));
                group.bench_function(name, |b| {
                    b.iter(|| {
                        let mut out = Strip::new(&mut out, width, width, 0);
                        attend(kernel, black_box(&q), &kv, &mut scratch, &mut out, 0);
                    });
                });
            }
        }
        group.finish();
    }
}

/// One token attends to a long context, whose keys and values come from memory.
fn attention_from_memory(c: &mut Criterion) {
    const LAYERS: usize = 12;
    let (heads, sharing, head_dim, visible) = (5, 4, 128, 4096);
    let pages: Vec<u32> = (0..(visible / PAGE_LEN) as u32).collect();
    let row = floats(heads * head_dim);
    for dtype in KvDtype::ALL {
        let shape = KvShape { layers: LAYERS, pages: pages.len(), heads, head_dim };
        let mut store = KvStore::new(dtype, shape);
        for (layer, position) in (0..LAYERS).flat_map(|l| (0..visible).map(move |p| (l, p))) {
            store.write(wf_kernels::best(), KvSlot::new(layer, &pages, position), &row, &row);
        }
        let mut group = c.benchmark_group(format!("attend {visible} from memory, {dtype}"));
        group.throughput(Throughput::Bytes((shape.size_bytes(dtype) / LAYERS) as u64));
        for kernel in fast_kernels() {
            let data = floats(sharing * head_dim);
            let q = Queries {
                data: &data,
                stride: data.len(),
                heads: sharing,
                visible: &[visible],
                window: None,
                sinks: 0,
                scale: 0.1,
            };
            let mut scratch = AttendScratch::new(sharing, head_dim);
            let mut out = data.clone();
            let mut layers = (0..LAYERS).cycle();
            group.bench_function(kernel.isa().name(), |b| {
                b.iter(|| {
                    let layer = layers.next().expect("an endless cycle");
                    for head in 0..heads {
                        let kv = store.head(layer, head, &pages);
                        let mut out = Strip::new(&mut out, data.len(), data.len(), 0);
                        attend(kernel, black_box(&q), &kv, &mut scratch, &mut out, 0);
                    }
                });
            });
        }
        group.finish();
    }
}

fn rows(c: &mut Criterion) {
    let x = floats(COLS);
    let (mut out, mut codes, mut sums) = (x.clone(), vec![0; COLS], vec![0; COLS / 64]);
    let mut group = c.benchmark_group(format!("one row of {COLS}"));
    group.throughput(Throughput::Bytes(4 * COLS as u64));
    for kernel in supported() {
        let isa = kernel.isa().name();
        group.bench_function(BenchmarkId::new("quantize", isa), |b| {
            b.iter(|| kernel.quantize(black_box(&x), &mut codes, &mut sums));
        });
        group.bench_function(BenchmarkId::new("rms_norm", isa), |b| {
            b.iter(|| kernel.rms_norm(black_box(&x), RmsNorm::new(&x, 1e-5), &mut out));
        });
        group.bench_function(BenchmarkId::new("silu_mul", isa), |b| {
            b.iter(|| kernel.silu_mul(black_box(&mut out), &x));
        });
        group.bench_function(BenchmarkId::new("softmax", isa), |b| {
            b.iter(|| kernel.softmax(black_box(&mut out)));
        });
    }
    group.finish();
}

fn runs(c: &mut Criterion) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let pool = Pool::new(threads);
    c.bench_function("an empty run on all threads", |b| {
        b.iter(|| pool.run(64, |i| _ = black_box(i)))
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    targets = products, head, attention, attention_from_memory, rows, runs
}
criterion_main!(benches);
