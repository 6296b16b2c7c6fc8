//! Single kernels, for every instruction set of this CPU, on one thread.
//!
//! Products run over the matrices of the network, layer by layer, so that weights come from memory, or
//! from a cache if the network fits into one, as in a pass. `gb_s` counts weights, keys and values;
//! `weights_per_cycle` counts each weight once for all tokens. The tokens of attention are query heads.

use serde_json::{Value, json};
use wf_kernels::{
    AttendScratch, FloatRows, Kernel, KvDtype, KvShape, KvSlot, KvStore, Pool, QuantBatch, Queries,
    Strip, TernaryMatrix, attend, half, multiply,
};
use wf_model::weights::Layer;
use wf_model::{Forward, Model, PAGE_LEN};

use super::plan::Plan;
use crate::random::Random;
use crate::stats::{Repeats, Timing};

/// Numbers of tokens multiplied together.
const TOKENS: [usize; 3] = [1, 4, 16];

type Role = fn(&Layer) -> &TernaryMatrix;

const ROLES: [(&str, Role); 4] = [
    ("gate", |layer| &layer.mlp.gate),
    ("down", |layer| &layer.mlp.down),
    ("query", |layer| &layer.attention.query),
    ("key", |layer| &layer.attention.key),
];

pub(super) fn measure(model: &Model, plan: &Plan, clock_ghz: Option<f64>) -> Vec<Value> {
    let bench = KernelBench { one_thread: Pool::new(1), repeats: plan.kernels, clock_ghz };
    let roles = if plan.largest_matrix_only { &ROLES[..1] } else { &ROLES[..] };
    let mut rates = Vec::new();
    for kernel in wf_kernels::supported() {
        for (name, role) in roles {
            let matrices: Vec<_> = model.weights().layers.iter().map(role).collect();
            for tokens in TOKENS {
                rates.push(bench.ternary(kernel, name, &matrices, tokens));
            }
        }
        rates.push(bench.dots(kernel, model));
        for dtype in [KvDtype::F32, KvDtype::Bf16, KvDtype::Int8] {
            rates.push(bench.attention(kernel, model, dtype));
        }
    }
    rates
}

struct Work {
    bytes: usize,
    weights: usize,
    tokens: usize,
}

struct KernelBench {
    one_thread: Pool,
    repeats: Repeats,
    clock_ghz: Option<f64>,
}

impl KernelBench {
    fn ternary(
        &self,
        kernel: &dyn Kernel,
        name: &str,
        matrices: &[&TernaryMatrix],
        tokens: usize,
    ) -> Value {
        let (rows, cols) = (matrices[0].rows(), matrices[0].cols());
        let mut codes = QuantBatch::new(tokens, cols);
        codes.quantize(kernel, &self.one_thread, &floats(tokens * cols), cols);
        let mut y = vec![0.0; tokens * rows];
        let mut turn = matrices.iter().cycle();
        let timing = self.repeats.time(|| {
            let matrix = turn.next().expect("a cycle does not end");
            multiply(kernel, &self.one_thread, matrix, &codes, &mut y);
        });
        let work = Work { bytes: matrices[0].bytes_len(), weights: rows * cols, tokens };
        self.rate("ternary", kernel, &format!("{name} {rows}x{cols}"), &work, timing)
    }

    /// Measures rows of a bf16 head, as used for all logits.
    fn dots(&self, kernel: &dyn Kernel, model: &Model) -> Value {
        let cols = model.network().hidden_len;
        let rows = model.network().vocab_len.min((64 << 20) / (2 * cols));
        let table: Vec<u16> = floats(rows * cols).into_iter().map(half::f32_to_bf16).collect();
        let (x, mut y) = (floats(cols), vec![0.0; rows]);
        let timing = self.repeats.time(|| kernel.dots(FloatRows::Bf16(&table), &x, &mut y));
        let work = Work { bytes: size_of_val(&table[..]), weights: rows * cols, tokens: 1 };
        self.rate("dots", kernel, &format!("bf16 head {rows}x{cols}"), &work, timing)
    }

    /// Measures the query heads of one K/V head, with keys and values in cache.
    fn attention(&self, kernel: &dyn Kernel, model: &Model, dtype: KvDtype) -> Value {
        let attention = model.network().layers[0].attention();
        let (head_dim, heads) = (attention.head_dim, attention.heads / attention.kv_heads);
        let visible = 512.min(model.pages() * PAGE_LEN);
        let pages: Vec<u32> = (0..visible.div_ceil(PAGE_LEN) as u32).collect();
        let shape = KvShape { layers: 1, pages: pages.len(), heads: 1, head_dim };
        let mut store = KvStore::new(dtype, shape);
        let rows = floats(visible * head_dim);
        for (position, row) in rows.chunks_exact(head_dim).enumerate() {
            store.write(kernel, KvSlot::new(0, &pages, position), row, row);
        }
        let data = floats(heads * head_dim);
        let q = Queries {
            data: &data,
            stride: data.len(),
            heads,
            visible: &[visible],
            window: None,
            scale: 0.1,
        };
        let kv = store.head(0, 0, &pages);
        let (mut scratch, mut out) = (AttendScratch::new(heads, head_dim), data.clone());
        let timing = self.repeats.time(|| {
            let mut out = Strip::new(&mut out, data.len(), data.len(), 0);
            attend(kernel, &q, &kv, &mut scratch, &mut out, 0);
        });
        let weights = 2 * visible * head_dim;
        let work = Work { bytes: shape.size_bytes(dtype), weights, tokens: heads };
        let shape = format!("{dtype} {visible} positions x{head_dim}");
        self.rate("attention", kernel, &shape, &work, timing)
    }

    fn rate(
        &self,
        name: &'static str,
        kernel: &dyn Kernel,
        shape: &str,
        work: &Work,
        timing: Timing,
    ) -> Value {
        let macs = work.weights * work.tokens;
        let per_cycle = |count: usize| Some(timing.per_second(count) / 1e9 / self.clock_ghz?);
        json!({
            "kernel": name,
            "isa": kernel.isa().name(),
            "shape": shape,
            "tokens": work.tokens,
            "gb_s": timing.per_second(work.bytes) / 1e9,
            "gmac_s": timing.per_second(macs) / 1e9,
            "mac_per_cycle": per_cycle(macs),
            "weights_per_cycle": per_cycle(work.weights),
            "spread": timing.spread,
        })
    }
}

fn floats(len: usize) -> Vec<f32> {
    Random::new(0, 1).floats(len)
}
