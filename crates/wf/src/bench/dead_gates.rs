//! Random weights whose gates are shut as often as those of a trained model.
//!
//! How fast zeros of squared ReLU can be skipped depends on how many there are. With random weights
//! half of the gates are positive; in the trained demo model it is 27 %. So a few elements of the
//! hidden state are kept constant: the embedding has the same value in them for every token, and the
//! matrices that add to the hidden state have zero trits in their rows. In the feed-forward part, the
//! norm brings them to a chosen size, and every gate has -1 in their columns. That moves the mean of
//! all gates below zero, by as much as it takes, and leaves the rest to chance.

use clap::ValueEnum;

/// How many gates are shut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Gates {
    /// Half of them.
    #[default]
    Random,
    /// 73 % of them.
    Demo,
}

/// Elements of the hidden state that are kept constant.
pub(super) const CONSTANT: usize = 64;

/// Of 73 % of all normal numbers, the largest is this many standard deviations above the mean.
const DEVIATIONS: f32 = 0.613;

/// The share of trits that are not zero.
const NOT_ZERO: f32 = 2.0 / 3.0;

/// The variance of the numbers of an embedding, which are spread evenly from -1 to 1.
const EMBEDDING_VARIANCE: f32 = 1.0 / 3.0;

/// The weight of the constant elements in the norm of the feed-forward part of `layer`, where they
/// are 1 before it.
///
/// Both parts of a layer add numbers of variance 1 to the hidden state, so the other elements have a
/// known size there, and so has the sum of their products with random trits. The norm divides both by
/// the same number, so it does not matter.
pub(super) fn norm_weight(layer: usize, hidden_len: usize) -> f32 {
    let variance = EMBEDDING_VARIANCE + (2 * layer + 1) as f32;
    let gate_deviation = ((hidden_len - CONSTANT) as f32 * NOT_ZERO * variance).sqrt();
    DEVIATIONS * gate_deviation / CONSTANT as f32
}
