//! Activations that are set to zero before they are multiplied, by layer and input.

mod of_model;

use wf_core::Network;
use wf_kernels::Zeroing;

/// An input of a layer's products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProductInput {
    /// Normed hidden states, of query, key and value; of a recurrent mixer, of all its products but the last.
    Mixer,
    /// Heads, of the output projection.
    Heads,
    /// Normed hidden states, of gate and up.
    Ffn,
    /// Neurons, of down.
    Neurons,
}

impl ProductInput {
    /// All inputs, in the order a layer computes them.
    pub const ALL: [Self; 4] = [Self::Mixer, Self::Heads, Self::Ffn, Self::Neurons];

    /// Name of the projections that are multiplied by the input.
    pub const fn projection(self) -> &'static str {
        ["qkv", "output", "gate_up", "down"][self as usize]
    }
}

/// Zeroing of each input of a layer, in the order of [`ProductInput::ALL`].
pub type LayerZeros = [Zeroing; 4];

/// Counts of magnitudes, in steps of a sixteenth or less.
#[derive(Clone, Debug)]
pub struct Magnitudes {
    counts: Vec<u64>,
}

/// Bits of a float below those that tell magnitudes apart: sign, exponent and four bits of the mantissa are left.
const DROPPED_BITS: u32 = 19;

impl Magnitudes {
    fn new() -> Self {
        Self { counts: vec![0; 1 << (u32::BITS - 1 - DROPPED_BITS)] }
    }

    fn add(&mut self, magnitudes: impl Iterator<Item = f32>) {
        for magnitude in magnitudes {
            self.counts[(magnitude.to_bits() >> DROPPED_BITS) as usize] += 1;
        }
    }

    /// Returns the share of zeros.
    pub fn zeros(&self) -> f64 {
        self.counts[0] as f64 / self.total().max(1) as f64
    }

    /// Returns the number of magnitudes.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the largest magnitude that does not exceed more than `share` of all others, rounded down.
    pub fn quantile(&self, share: f64) -> f32 {
        let mut left = (share * self.total() as f64) as u64;
        for (step, &count) in self.counts.iter().enumerate() {
            if count > left {
                // Those of this step are above.
                return f32::from_bits(((step as u32) << DROPPED_BITS).saturating_sub(1));
            }
            left -= count;
        }
        0.0
    }
}

/// Returns layers that keep all activations.
pub(crate) fn none(network: &Network) -> Vec<LayerZeros> {
    vec![[Zeroing::None; 4]; network.layers.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_magnitudes_are_up_to_a_quantile_as_its_share_says() {
        let mut found = Magnitudes::new();
        let values = (0..1000).map(|i| if i < 100 { 0.0 } else { i as f32 / 100.0 });
        found.add(values.clone());
        assert_eq!((found.total(), found.zeros()), (1000, 0.1));
        for share in [0.0, 0.05, 0.1, 0.4, 0.9, 0.99] {
            let limit = found.quantile(share);
            let below = values.clone().filter(|x| *x <= limit).count() as f64 / 1000.0;
            let least = if share < 0.1 { 0.0 } else { share * 0.9 };
            assert!((least..=share.max(0.1)).contains(&below), "{share}: {limit} {below}");
        }
        assert_eq!(Magnitudes::new().quantile(0.5), 0.0);
    }
}
