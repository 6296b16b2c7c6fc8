//! Random weights of a given shape.
//!
//! They are the same on every machine and for any number of threads: each strip of a matrix has its
//! own stream of random numbers. A third of the trits are zero, as in trained models. Scales keep
//! activations at a constant size, and logits as far apart as those of a trained model: a few tokens
//! share most of the probability, which the speed of sampling depends on.
//!
//! Gates can be closed as often as those of a trained model.
//! The gain from skipping zeros of squared ReLU depends on their share. With random weights, half of
//! the gates are positive; in the trained demo model, 27 %. To match that, a few elements of the
//! hidden state are kept constant: the embedding has the same value in them for every token, and the
//! matrices that add to the hidden state have zero rows for them. In the feed-forward network, the
//! norm scales them to a chosen size, and every gate has -1 in their columns. This shifts the mean of
//! all gates below zero by the required amount, and leaves the rest random.

use std::convert::Infallible;

use clap::ValueEnum;
use wf_core::Network;
use wf_formats::encoding::FloatEncoding;
use wf_formats::{LayerTensor, ScaleUnit, TensorName};
use wf_kernels::{Layout, Pool, Scales, TernaryMatrix, half};
use wf_model::weights::{FloatTable, Table, WeightSource, Weights};

use crate::random::Random;

/// Share of closed gates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Gates {
    /// Half of them.
    #[default]
    Random,
    /// 73 % of them.
    Demo,
}

/// Number of constant elements of the hidden state.
const CONSTANT: usize = 64;

/// The 73rd percentile of the standard normal distribution.
const DEVIATIONS: f32 = 0.613;

/// Fraction of trits that are not zero.
const NOT_ZERO: f32 = 2.0 / 3.0;

/// Variance of the values of an embedding, which are uniform from -1 to 1.
const EMBEDDING_VARIANCE: f32 = 1.0 / 3.0;

/// Standard deviation of the logits. The entropy of 128,000 of them is then about 3 nats at temperature 1
/// and 2 at 0.8, as that of trained models.
const LOGIT_DEVIATION: f32 = 6.0;

/// Returns the norm weight of the constant elements, which are 1 before the norm, in the feed-forward
/// network of `layer`.
///
/// Attention and feed-forward each add values of variance 1 to the hidden state, so the variance of
/// the other elements is known, and so is that of their products with random trits. The norm divides
/// both by the same number, which cancels out.
fn norm_weight(layer: usize, hidden_len: usize) -> f32 {
    let variance = EMBEDDING_VARIANCE + (2 * layer + 1) as f32;
    let gate_deviation = ((hidden_len - CONSTANT) as f32 * NOT_ZERO * variance).sqrt();
    DEVIATIONS * gate_deviation / CONSTANT as f32
}

pub(super) fn weights(
    network: &Network,
    (gates, unit): (Gates, ScaleUnit),
    pool: &Pool,
    layout: Layout,
) -> Weights {
    let constant = if gates == Gates::Demo { CONSTANT } else { 0 };
    let mut maker = Maker { pool, layout, unit, tensors: 0, constant };
    let Ok(weights) = Weights::read(network, &mut maker);
    weights
}

struct Maker<'a> {
    pool: &'a Pool,
    layout: Layout,
    /// Weights that share a scale. Where groups do, tables are ternary, too.
    unit: ScaleUnit,
    /// Number of tensors so far; each has its own random numbers.
    tensors: u64,
    /// Number of constant elements of the hidden state.
    constant: usize,
}

impl WeightSource for Maker<'_> {
    type Error = Infallible;

    fn matrix(
        &mut self,
        name: TensorName,
        rows: usize,
        cols: usize,
    ) -> Result<TernaryMatrix, Infallible> {
        let constant = self.constant;
        let (TensorName::Layer(_, tensor) | TensorName::Expert(_, _, tensor)) = name else {
            unreachable!("a projection of a layer")
        };
        Ok(self.edited(rows, cols, |row, trits| match tensor {
            LayerTensor::Gate => trits[..constant].fill(-1),
            LayerTensor::AttnOutput | LayerTensor::Down if row < constant => trits.fill(0),
            _ => {}
        }))
    }

    fn vector(&mut self, name: TensorName, len: usize) -> Result<Vec<f32>, Infallible> {
        let mut weights = vec![1.0; len];
        match name {
            TensorName::Layer(layer, LayerTensor::FfnNorm) => {
                weights[..self.constant].fill(norm_weight(layer, len));
            }
            TensorName::Layer(_, LayerTensor::Router) => {
                // Every token has experts of its own.
                self.tensors += 1;
                let mut random = Random::new(self.tensors, 0);
                weights.iter_mut().for_each(|weight| *weight = random.centred());
            }
            TensorName::Layer(
                _,
                LayerTensor::DeltaConv | LayerTensor::DeltaBeta | LayerTensor::DeltaAlpha,
            ) => {
                self.tensors += 1;
                let mut random = Random::new(self.tensors, 0);
                weights.iter_mut().for_each(|weight| *weight = 0.1 * random.centred());
            }
            // States that forget slowly.
            TensorName::Layer(_, LayerTensor::DeltaDecay) => weights.fill(-0.1),
            TensorName::OutputNorm => {
                weights.fill(LOGIT_DEVIATION / (len as f32 * EMBEDDING_VARIANCE).sqrt());
            }
            _ => {}
        }
        Ok(weights)
    }

    /// Returns a table as in published models: trits if weights have scales per group, otherwise bf16.
    fn table(&mut self, _: TensorName, rows: usize, cols: usize) -> Result<Table, Infallible> {
        if matches!(self.unit, ScaleUnit::Group(_)) {
            return Ok(Table::Ternary(self.edited(rows, cols, |_, _| {})));
        }
        self.tensors += 1;
        let (tensor, constant) = (self.tensors, self.constant);
        let mut bytes = vec![0; rows * cols * 2];
        self.pool.rows(&mut bytes, cols * 2, |row, bytes| {
            let mut random = Random::new(tensor, row as u64);
            for value in bytes.as_chunks_mut().0 {
                *value = half::f32_to_bf16(random.centred()).to_le_bytes();
            }
            bytes.as_chunks_mut().0[..constant].fill(half::f32_to_bf16(1.0).to_le_bytes());
        });
        Ok(FloatTable::new(self.pool, FloatEncoding::BF16, cols, &bytes).into())
    }
}

impl Maker<'_> {
    /// Returns random trits; `edit` can change each row, given its index.
    fn edited(
        &mut self,
        rows: usize,
        cols: usize,
        edit: impl Fn(usize, &mut [i8]) + Sync,
    ) -> TernaryMatrix {
        self.tensors += 1;
        let tensor = self.tensors;
        // Two thirds of the trits are not zero, so outputs are as large as inputs.
        let scale = (1.5 / cols as f32).sqrt();
        let shape = (rows, cols);
        let scale = match self.unit {
            ScaleUnit::Tensor => Scales::Tensor(scale),
            ScaleUnit::Row => Scales::Rows(vec![scale; rows]),
            ScaleUnit::Group(len) => {
                // As in published files, which have them in f16.
                let scale = half::f16_to_f32(half::f32_to_f16(scale));
                Scales::Groups { len, values: vec![scale; rows * cols / len] }
            }
        };
        let Ok(matrix) =
            TernaryMatrix::read(self.pool, self.layout, shape, scale, |rows, trits| {
                Random::new(tensor, rows.start as u64).fill_trits(trits);
                for (row, trits) in rows.zip(trits.chunks_exact_mut(cols)) {
                    edit(row, trits);
                }
                Ok::<(), Infallible>(())
            });
        matrix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_a_matrix_is_zero_for_any_number_of_threads() {
        let trits_of = |threads| {
            let pool = Pool::new(threads);
            let layout = Layout::QuadLines;
            let matrix =
                Maker { pool: &pool, layout, unit: ScaleUnit::Tensor, tensors: 0, constant: 0 }
                    .edited(64, 300, |_, _| {});
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
