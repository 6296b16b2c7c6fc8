//! Single kernels, for every instruction set of this CPU, on one thread.
//!
//! Products run over the matrices of the network, layer by layer, so that weights come from memory, or
//! from a cache if they fit into one, as in a pass. An instruction set is measured in every layout that
//! it reads directly, whichever the model has: matrices are repacked if needed. `gb_s` counts weights, keys and values;
//! `weights_per_cycle` counts each weight once for all tokens. The tokens of attention are query heads.

use std::num::NonZero;
use std::ops::Deref;
use std::thread::available_parallelism;

use serde_json::{Value, json};
use wf_kernels::{
    AttendScratch, FloatRows, Kernel, KvDtype, KvShape, KvSlot, KvStore, Layout, Pool, QuantBatch,
    Queries, Strip, TernaryMatrix, attend, half, multiply,
};
use wf_model::weights::{Ffn, Layer, Mixer};
use wf_model::{Forward, Model, PAGE_LEN};

use super::plan::Plan;
use super::stream::last_cache_bytes;
use crate::random::Random;
use crate::stats::{Repeats, Timing};

/// Size of the matrices that repeats read in turn, which exceeds most caches.
const MAX_MATRICES_BYTES: usize = 512 << 20;

/// Numbers of tokens multiplied together.
const TOKENS: [usize; 3] = [1, 4, 16];

type Role = fn(&Layer) -> &TernaryMatrix;

const ROLES: [(&str, Role); 4] = [
    ("gate", |layer| match &layer.ffn {
        Ffn::Dense(mlp) => &mlp.gate,
        Ffn::Experts(mixture) => &mixture.experts[0].gate,
    }),
    ("down", |layer| match &layer.ffn {
        Ffn::Dense(mlp) => &mlp.down,
        Ffn::Experts(mixture) => &mixture.experts[0].down,
    }),
    ("query", |layer| match &layer.mixer {
        Mixer::Attention(attention) => &attention.query,
        Mixer::DeltaNet(delta_net) => &delta_net.qkv,
    }),
    ("key", |layer| match &layer.mixer {
        Mixer::Attention(attention) => &attention.key,
        Mixer::DeltaNet(delta_net) => &delta_net.gate,
    }),
];

pub(super) fn measure(model: &Model, plan: &Plan, clock_ghz: Option<f64>) -> Vec<Value> {
    let cache_bytes = last_cache_bytes();
    let bench =
        KernelBench { one_thread: Pool::new(1), repeats: plan.kernels, clock_ghz, cache_bytes };
    let roles = if plan.largest_matrix_only { &ROLES[..1] } else { &ROLES[..] };
    let mut rates = Vec::new();
    for (name, role) in roles {
        let layers = model.weights().layers.iter().map(role);
        for layout in Layout::ALL {
            let Some(matrices) = in_layout(layers.clone(), layout) else { continue };
            for kernel in wf_kernels::supported().filter(|kernel| kernel.reads_layout(layout)) {
                rates.extend(TOKENS.map(|tokens| bench.ternary(kernel, name, &matrices, tokens)));
            }
        }
    }
    rates.extend(wf_kernels::supported().map(|kernel| bench.dots(kernel, model)));
    for dtype in [KvDtype::F32, KvDtype::Bf16, KvDtype::Int8] {
        rates.extend(wf_kernels::supported().map(|kernel| bench.attention(kernel, model, dtype)));
    }
    rates
}

/// Returns as many of `matrices` in `layout` as exceed every cache, or all of them. Returns `None` if
/// they cannot have that layout, or if no instruction set reads it directly.
fn in_layout<'a>(
    matrices: impl Iterator<Item = &'a TernaryMatrix>,
    layout: Layout,
) -> Option<Vec<Matrix<'a>>> {
    if !wf_kernels::supported().any(|kernel| kernel.reads_layout(layout)) {
        return None;
    }
    let pool = Pool::new(available_parallelism().map_or(1, NonZero::get));
    let mut bytes = 0;
    let enough = matrices.take_while(|matrix| {
        let before = bytes;
        bytes += matrix.bytes_len();
        before < MAX_MATRICES_BYTES
    });
    let matrices: Vec<_> = enough
        .map(|matrix| match matrix.layout() == layout {
            true => Matrix::OfModel(matrix),
            false => Matrix::Repacked(matrix.repacked(&pool, layout)),
        })
        .collect();
    matrices.iter().all(|matrix| matrix.layout() == layout).then_some(matrices)
}

/// A matrix in the layout to measure.
enum Matrix<'a> {
    OfModel(&'a TernaryMatrix),
    Repacked(TernaryMatrix),
}

impl Deref for Matrix<'_> {
    type Target = TernaryMatrix;

    fn deref(&self) -> &TernaryMatrix {
        match self {
            Self::OfModel(matrix) => matrix,
            Self::Repacked(matrix) => matrix,
        }
    }
}

/// Returns the matrices of the most frequent shape: layers may have dropped different numbers of neurons.
fn of_one_shape<'a>(matrices: &'a [Matrix<'_>]) -> Vec<&'a TernaryMatrix> {
    let of_shape = |like: &TernaryMatrix| -> Vec<&'a TernaryMatrix> {
        let matrices = matrices.iter().map(|matrix| &**matrix);
        matrices.filter(|w| (w.rows(), w.cols()) == (like.rows(), like.cols())).collect()
    };
    matrices.iter().map(|like| of_shape(like)).max_by_key(Vec::len).unwrap_or_default()
}

struct Work {
    bytes: usize,
    weights: usize,
    tokens: usize,
    /// Bytes that repeats read in turn.
    bytes_in_turn: usize,
}

struct KernelBench {
    one_thread: Pool,
    repeats: Repeats,
    clock_ghz: Option<f64>,
    cache_bytes: Option<usize>,
}

impl KernelBench {
    fn ternary(
        &self,
        kernel: &dyn Kernel,
        name: &str,
        matrices: &[Matrix<'_>],
        tokens: usize,
    ) -> Value {
        let matrices = of_one_shape(matrices);
        let first = matrices[0];
        let (rows, cols) = (first.rows(), first.cols());
        let mut codes = QuantBatch::new(tokens, cols);
        codes.quantize(kernel, &self.one_thread, &floats(tokens * cols), cols);
        let mut y = vec![0.0; tokens * rows];
        let mut turn = matrices.iter().cycle();
        let timing = self.repeats.time(|| {
            let matrix = turn.next().expect("a cycle does not end");
            multiply(kernel, &self.one_thread, matrix, &codes, &mut y);
        });
        let bytes = first.bytes_len();
        let bytes_in_turn = matrices.iter().map(|matrix| matrix.bytes_len()).sum();
        let work = Work { bytes, weights: rows * cols, tokens, bytes_in_turn };
        let mut row = self.rate("ternary", kernel, &format!("{name} {rows}x{cols}"), &work, timing);
        row["layout"] = first.layout().name().into();
        row
    }

    /// Measures rows of a bf16 head, as used for all logits.
    fn dots(&self, kernel: &dyn Kernel, model: &Model) -> Value {
        let cols = model.network().hidden_len;
        let rows = model.network().vocab_len.min((64 << 20) / (2 * cols));
        let table: Vec<u16> = floats(rows * cols).into_iter().map(half::f32_to_bf16).collect();
        let (x, mut y) = (floats(cols), vec![0.0; rows]);
        let timing = self.repeats.time(|| kernel.dots(FloatRows::Bf16(&table), &x, &mut y));
        let bytes = size_of_val(&table[..]);
        let work = Work { bytes, weights: rows * cols, tokens: 1, bytes_in_turn: bytes };
        self.rate("dots", kernel, &format!("bf16 head {rows}x{cols}"), &work, timing)
    }

    /// Measures the query heads of one K/V head, with keys and values in cache.
    fn attention(&self, kernel: &dyn Kernel, model: &Model, dtype: KvDtype) -> Value {
        let attention = model.network().attentions().next().expect("a layer with attention");
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
            sinks: 0,
            scale: 0.1,
        };
        let kv = store.head(0, 0, &pages);
        let (mut scratch, mut out) = (AttendScratch::new(heads, head_dim), data.clone());
        let timing = self.repeats.time(|| {
            let mut out = Strip::new(&mut out, data.len(), data.len(), 0);
            attend(kernel, &q, &kv, &mut scratch, &mut out, 0);
        });
        let weights = 2 * visible * head_dim;
        let bytes = shape.size_bytes(dtype);
        let work = Work { bytes, weights, tokens: heads, bytes_in_turn: bytes };
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
            "in_cache": self.cache_bytes.is_some_and(|cache| work.bytes_in_turn <= cache),
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

#[cfg(test)]
mod tests {
    use wf_kernels::Scales;

    use super::*;

    #[test]
    fn matrices_are_measured_in_layouts_that_an_instruction_set_reads() {
        let of_model = TernaryMatrix::new(32, 64, Scales::Tensor(1.0));
        for layout in Layout::ALL {
            let matrices = in_layout([&of_model; 3].into_iter(), layout);
            let is_read = wf_kernels::supported().any(|kernel| kernel.reads_layout(layout));
            assert_eq!(matrices.is_some(), is_read, "{layout:?}");
            for matrix in matrices.iter().flatten() {
                assert_eq!(matrix.layout(), layout);
                let repacked = matches!(matrix, Matrix::Repacked(_));
                assert_eq!(repacked, layout != of_model.layout());
            }
        }
    }

    #[test]
    fn groups_have_no_five_trits() {
        let scales = Scales::Groups { len: 64, values: vec![1.0; 32] };
        let of_model = TernaryMatrix::new(32, 64, scales);
        assert!(in_layout([&of_model].into_iter(), Layout::FiveTrits).is_none());
        assert!(in_layout([&of_model].into_iter(), Layout::QuadLines).is_some());
    }
}
