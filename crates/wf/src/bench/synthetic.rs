//! Random weights of a given shape, made in memory.
//!
//! The same on every machine and for any number of threads: each strip of a matrix has a stream of
//! random numbers of its own. A third of the trits are zero, as in trained models. Scales keep the
//! size of what flows through, so no activation becomes infinite or fades. Gates can be shut more
//! often than chance would have it (`dead_gates.rs`).

use std::convert::Infallible;

use wf_formats::encoding::FloatEncoding;
use wf_kernels::{Layout, Pool, Scales, TernaryMatrix, half};
use wf_model::ModelConfig;
use wf_model::weights::{Attention, AttentionNorms, FloatTable, Layer, Mlp, MlpNorms, Weights};

use super::dead_gates::{self, CONSTANT, Gates};
use super::random::Random;

/// Random weights for `config`.
pub(super) fn weights(config: &ModelConfig, gates: Gates, pool: &Pool, layout: Layout) -> Weights {
    let constant = if gates == Gates::Demo { CONSTANT } else { 0 };
    let mut maker = Maker { pool, layout, tensors: 0, constant };
    let (hidden, ffn) = (config.hidden_len, config.ffn_len);
    let (query, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
    let norm = |len: usize| vec![1.0; len];
    let sub_norm = |len: usize| config.sub_norms.then(|| norm(len));
    let layers = (0..config.layers)
        .map(|layer| Layer {
            attention: Attention {
                norm: norm(hidden),
                query: maker.matrix(query, hidden),
                key: maker.matrix(kv, hidden),
                value: maker.matrix(kv, hidden),
                sub_norm: sub_norm(query),
                output: maker.edited(hidden, query, |row, trits| {
                    if row < constant {
                        trits.fill(0);
                    }
                }),
                extra: AttentionNorms::default(),
            },
            mlp: Mlp {
                norm: maker.ffn_norm(layer, hidden),
                gate: maker.edited(ffn, hidden, |_, trits| trits[..constant].fill(-1)),
                up: maker.matrix(ffn, hidden),
                sub_norm: sub_norm(ffn),
                down: maker.edited(hidden, ffn, |row, trits| {
                    if row < constant {
                        trits.fill(0);
                    }
                }),
                extra: MlpNorms::default(),
            },
        })
        .collect();
    Weights {
        embedding: maker.table(config),
        layers,
        output_norm: norm(hidden),
        output: (!config.tied_head).then(|| maker.table(config)),
    }
}

struct Maker<'a> {
    pool: &'a Pool,
    layout: Layout,
    /// Tensors made so far: each has random numbers of its own.
    tensors: u64,
    /// Elements of the hidden state that never change.
    constant: usize,
}

impl Maker<'_> {
    fn ffn_norm(&self, layer: usize, len: usize) -> Vec<f32> {
        let mut weights = vec![1.0; len];
        weights[..self.constant].fill(dead_gates::norm_weight(layer, len));
        weights
    }

    fn matrix(&mut self, rows: usize, cols: usize) -> TernaryMatrix {
        self.edited(rows, cols, |_, _| {})
    }

    /// Random trits, where `edit` gets every row by its number and may change it.
    fn edited(
        &mut self,
        rows: usize,
        cols: usize,
        edit: impl Fn(usize, &mut [i8]) + Sync,
    ) -> TernaryMatrix {
        self.tensors += 1;
        let tensor = self.tensors;
        // Two thirds of the trits count, so a row of a product is as large as its input.
        let scale = (1.5 / cols as f32).sqrt();
        let (how, scale) = ((self.pool, self.layout), Scales::Tensor(scale));
        let Ok(matrix) = TernaryMatrix::read(how, (rows, cols), scale, |rows, trits| {
            Random::new(tensor, rows.start as u64).fill_trits(trits);
            for (row, trits) in rows.zip(trits.chunks_exact_mut(cols)) {
                edit(row, trits);
            }
            Ok::<(), Infallible>(())
        });
        matrix
    }

    /// A table in bf16, as models are published.
    fn table(&mut self, config: &ModelConfig) -> FloatTable {
        self.tensors += 1;
        let (tensor, cols, constant) = (self.tensors, config.hidden_len, self.constant);
        let mut bytes = vec![0; config.vocab_len * cols * 2];
        self.pool.rows(&mut bytes, cols * 2, |row, bytes| {
            let mut random = Random::new(tensor, row as u64);
            for value in bytes.as_chunks_mut().0 {
                *value = half::f32_to_bf16(random.centred()).to_le_bytes();
            }
            bytes.as_chunks_mut().0[..constant].fill(half::f32_to_bf16(1.0).to_le_bytes());
        });
        FloatTable::new(self.pool, FloatEncoding::Bf16, (cols, cols * 2), &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_a_third_zeros_and_the_same_for_any_number_of_threads() {
        let trits_of = |threads| {
            let pool = Pool::new(threads);
            let layout = Layout::QuadLines;
            let matrix = Maker { pool: &pool, layout, tensors: 0, constant: 0 }.matrix(64, 300);
            let mut trits = vec![0; 64 * 300];
            for (row, out) in trits.chunks_exact_mut(300).enumerate() {
                matrix.unpack(row, out);
            }
            trits
        };
        let trits = trits_of(1);
        assert_eq!(trits, trits_of(3));
        for value in [-1, 0, 1] {
            let share = trits.iter().filter(|&&t| t == value).count() as f64 / trits.len() as f64;
            assert!((0.31..0.36).contains(&share), "{value}: {share}");
        }
    }
}
