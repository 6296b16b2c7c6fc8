//! The copies that a model makes, and those that it keeps.
//!
//! Dense products and those that skip columns have the same bits, so which ones run is a matter of speed: after the
//! copies are made, a few tokens run both ways, and projections that are slower with copies lose them.

use std::time::Duration;

use wf_core::ActivationCodes;
use wf_kernels::{TernaryColumns, TernaryMatrix, Zeroing};

use super::Columns;
use crate::logits::Logits;
use crate::model::Model;
use crate::phases::Phase;
use crate::segment::{Forward, Segment};
use crate::weights::{Ffn, Mixer};
use crate::zeros::ProductInput;

/// Tokens that run with and without copies, alternating.
const TRIALS: usize = 9;

impl Model {
    /// Makes the copies that steps of one token need to skip the columns of zeros, and drops those of projections that
    /// are slower with them on this machine.
    pub fn skip_columns(&mut self) {
        self.copy_columns();
        if self.columns.layers.iter().flatten().any(|copies| !copies.is_empty()) {
            self.drop_slow_columns();
        }
    }

    /// Makes the copies that steps of one token need to skip the columns of zeros. Inputs that keep all activations,
    /// experts, weights with scales per group, and codes with scales per group or none at all have no copies; nor has a
    /// block whose exact zeros are skipped already.
    pub fn copy_columns(&mut self) {
        let codes = self.network.activations;
        self.columns = Columns::default();
        if !matches!(codes, ActivationCodes::Int8 | ActivationCodes::Int16) {
            return;
        }
        let pool = &self.compute.pool;
        let copies = |zeroing: Zeroing, matrices: &[&TernaryMatrix]| {
            let copies = matrices.iter().map(|matrix| TernaryColumns::new(pool, matrix));
            match zeroing {
                Zeroing::None => Vec::new(),
                _ => copies.collect::<Option<Vec<_>>>().unwrap_or_default(),
            }
        };
        let layers = self.weights.layers.iter().zip(&self.zeros).zip(&self.sparse.layers);
        let layers = layers.map(|((layer, zeros), sparse)| {
            let [mixer, heads] = match &layer.mixer {
                Mixer::Attention(a) if a.input_norms.is_none() => {
                    [vec![&a.query, &a.key, &a.value], vec![&a.output]]
                }
                Mixer::Attention(a) => [vec![], vec![&a.output]],
                Mixer::DeltaNet(d) => [vec![&d.qkv, &d.gate], vec![&d.output]],
            };
            let [ffn, neurons] = match &layer.ffn {
                Ffn::Dense(m) if m.input_norms.is_none() && !sparse.sparsity().skips => {
                    [vec![&m.gate, &m.up], vec![&m.down]]
                }
                _ => [vec![], vec![]],
            };
            let of_inputs = [mixer, heads, ffn, neurons];
            std::array::from_fn(|input| copies(zeros[input], &of_inputs[input]))
        });
        self.columns.layers = layers.collect();
    }

    /// Drops the copies.
    pub fn copy_no_columns(&mut self) {
        self.columns = Columns::default();
    }

    /// Returns the projections whose columns of zeros are not read in steps of one token.
    pub fn skipped_columns(&self) -> impl Iterator<Item = ProductInput> {
        ProductInput::ALL.into_iter().filter(|input| self.columns.has(*input))
    }

    /// Size in bytes of the copies made for skipping columns.
    pub fn columns_size_bytes(&self) -> usize {
        self.columns.size_bytes()
    }

    /// Suspends or resumes the use of copies, to compare their speed. No result changes.
    pub fn suspend_columns(&mut self, suspended: bool) {
        self.columns.suspended = suspended;
    }

    /// Runs tokens with and without copies, and drops those that are slower. The keys and values that the tokens
    /// leave in the first page are overwritten before they can be read.
    fn drop_slow_columns(&mut self) {
        let phases = [Phase::QueryKeyValue, Phase::Output, Phase::GateUp, Phase::Down];
        let mut times = [[[Duration::ZERO; TRIALS]; 4]; 2];
        let mut logits = Logits::new(1);
        for trial in 0..TRIALS {
            for (suspended, times) in [true, false].into_iter().zip(&mut times) {
                self.columns.suspended = suspended;
                let token = [(trial * 7919 % self.network.vocab_len) as u32];
                self.start_clock();
                self.forward(&[Segment::causal(&token, 0, &[0], &[])], &mut logits);
                let measured = self.stop_clock();
                for (times, phase) in times.iter_mut().zip(phases) {
                    times[trial] = measured.of(phase);
                }
            }
        }
        let median = |mut times: [Duration; TRIALS]| {
            times.sort_unstable();
            times[TRIALS / 2]
        };
        for input in ProductInput::ALL {
            let [dense, skipping] = times.map(|times| median(times[input as usize]));
            if skipping >= dense {
                self.columns.layers.iter_mut().for_each(|copies| copies[input as usize].clear());
                self.columns
                    .layers
                    .iter_mut()
                    .for_each(|copies| copies[input as usize].shrink_to_fit());
            }
        }
    }
}
