//! Random weights whose gates are closed as often as those of a trained model.
//!
//! The gain from skipping zeros of squared ReLU depends on their share. With random weights, half of
//! the gates are positive; in the trained demo model, 27 %. To match that, a few elements of the
//! hidden state are kept constant: the embedding has the same value in them for every token, and the
//! matrices that add to the hidden state have zero rows for them. In the feed-forward network, the
//! norm scales them to a chosen size, and every gate has -1 in their columns. This shifts the mean of
//! all gates below zero by the required amount, and leaves the rest random.

use clap::ValueEnum;

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
pub(super) const CONSTANT: usize = 64;

/// The 73rd percentile of the standard normal distribution.
const DEVIATIONS: f32 = 0.613;

/// Fraction of trits that are not zero.
const NOT_ZERO: f32 = 2.0 / 3.0;

/// Variance of the values of an embedding, which are uniform from -1 to 1.
const EMBEDDING_VARIANCE: f32 = 1.0 / 3.0;

/// Returns the norm weight of the constant elements, which are 1 before the norm, in the feed-forward
/// network of `layer`.
///
/// Attention and feed-forward each add values of variance 1 to the hidden state, so the variance of
/// the other elements is known, and so is that of their products with random trits. The norm divides
/// both by the same number, which cancels out.
pub(super) fn norm_weight(layer: usize, hidden_len: usize) -> f32 {
    let variance = EMBEDDING_VARIANCE + (2 * layer + 1) as f32;
    let gate_deviation = ((hidden_len - CONSTANT) as f32 * NOT_ZERO * variance).sqrt();
    DEVIATIONS * gate_deviation / CONSTANT as f32
}
