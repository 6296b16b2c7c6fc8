//! Neurons that are always zero are dropped, and no bit of any score changes.

use std::convert::Infallible;

use wf_core::{Activation, ActivationCodes, Network};
use wf_formats::{LayerTensor, TensorName};
use wf_kernels::{Layout, Pool, Scales, TernaryMatrix};
use wf_model::weights::{Table, WeightSource, Weights};
use wf_model::{Compute, KvDtype, Model, SparseMode};

use crate::random_weights::{self, Numbers, pages, scores, tokens};

const FFN: usize = 16 * 11;

/// Lane 5 has three dead neurons, all other lanes have four.
fn is_dead(neuron: usize) -> bool {
    (neuron / 16 + neuron % 16 * 7) % 11 < if neuron % 16 == 5 { 3 } else { 4 }
}

/// Random weights in which the rows of `up` of dead neurons are zero, and those of gate if `gates`.
struct Planted {
    numbers: Numbers,
    gates: bool,
    layout: Layout,
}

impl WeightSource for Planted {
    type Error = Infallible;

    fn matrix(
        &mut self,
        name: TensorName,
        rows: usize,
        cols: usize,
    ) -> Result<TernaryMatrix, Infallible> {
        let random = self.numbers.matrix(name, rows, cols)?;
        let is_planted = match name {
            TensorName::Layer(_, LayerTensor::Up) => true,
            TensorName::Layer(_, LayerTensor::Gate) => self.gates,
            _ => false,
        };
        let scales = Scales::Rows((0..rows).map(|row| 0.05 + row as f32 / 1000.0).collect());
        TernaryMatrix::read(&Pool::new(1), self.layout, (rows, cols), scales, |range, trits| {
            for (row, trits) in range.zip(trits.chunks_exact_mut(cols)) {
                if is_planted && is_dead(row) {
                    trits.fill(0);
                } else {
                    random.unpack(row, trits);
                }
            }
            Ok(())
        })
    }

    fn vector(&mut self, name: TensorName, len: usize) -> Result<Vec<f32>, Infallible> {
        Ok(match name {
            TensorName::Layer(_, LayerTensor::FfnSubNorm) => {
                (0..len).map(|i| 0.5 + i as f32 / 100.0).collect()
            }
            _ => self.numbers.vector(name, len)?,
        })
    }

    fn table(&mut self, name: TensorName, rows: usize, cols: usize) -> Result<Table, Infallible> {
        self.numbers.table(name, rows, cols)
    }
}

/// What a model has in common with one that is to give the same scores.
#[derive(Clone, Copy)]
struct Case {
    activation: Activation,
    codes: ActivationCodes,
    sub_norm: bool,
    layout: Layout,
    sparse: SparseMode,
}

/// A model with dead neurons if `gates`; otherwise one that computes them, although its rows of `up` are zero, too.
fn model(case: Case, gates: bool, compute: Compute) -> Model {
    let Case { activation, codes, sub_norm, layout, sparse } = case;
    let mut network = Network { activations: codes, ..random_weights::network() };
    network.update_layers(|_, dense| {
        (dense.ffn_len, dense.activation) = (FFN, activation);
        dense.sub_norm = dense.sub_norm.filter(|_| sub_norm);
    });
    let Ok(weights) = Weights::read(&network, &mut Planted { numbers: Numbers(3), gates, layout });
    random_weights::with_weights(network, weights, (KvDtype::F32, sparse), compute)
}

fn ffn_lens(model: &Model) -> Vec<[usize; 3]> {
    let blocks = model.weights().layers.iter().filter_map(|layer| layer.ffn.dense());
    blocks.map(|mlp| [mlp.gate.rows(), mlp.up.rows(), mlp.down.cols()]).collect()
}

const CASE: Case = Case {
    activation: Activation::Relu2,
    codes: ActivationCodes::Int8,
    sub_norm: true,
    layout: Layout::QuadLines,
    sparse: SparseMode::Off,
};

#[test]
fn no_score_changes() {
    let (tokens, pages) = (&tokens(5)[..70], pages());
    for case in [
        CASE,
        Case { activation: Activation::Silu, sub_norm: false, ..CASE },
        Case { activation: Activation::GeluTanh, codes: ActivationCodes::Int16, ..CASE },
        Case { layout: Layout::FiveTrits, ..CASE },
        Case { sparse: SparseMode::On, ..CASE },
    ] {
        let mut whole = model(case, false, Compute::new(2));
        assert_eq!(ffn_lens(&whole), [[FFN; 3]; 2], "gates are not zero");
        let expected = scores(&mut whole, tokens, 70, &pages);
        for isa in Compute::supported() {
            let compute = Compute::chosen(Some(isa), 3, None).unwrap();
            let mut dropped = model(case, true, compute);
            assert_eq!(ffn_lens(&dropped), [[FFN - 3 * 16; 3]; 2], "three for each lane");
            for chunk in [70, 9, 1] {
                assert!(scores(&mut dropped, tokens, chunk, &pages) == expected, "{isa}, {chunk}");
            }
        }
    }
}

#[test]
fn neurons_stay_where_their_places_matter() {
    for codes in [ActivationCodes::Int8Group, ActivationCodes::F32] {
        let model = model(Case { codes, ..CASE }, true, Compute::new(1));
        assert_eq!(ffn_lens(&model), [[FFN; 3]; 2], "{codes:?}");
    }
}
