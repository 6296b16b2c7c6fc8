//! The Walsh–Hadamard transform under which the weights of some networks are stored.

use super::check::InvalidNetwork;
use super::{Attention, DeltaNet, Layer, Network};

/// Signs and a block-wise Walsh–Hadamard transform of the inputs of ternary products.
///
/// ```text
/// x′ = H (s · x), and y = W x′
/// ```
///
/// `H` consists of blocks of `block_len` columns, each the Sylvester matrix (−1)^popcount(i & j) divided by the root
/// of `block_len`. It is its own inverse, and so are the signs `s`, which depend on the length of `x` alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hadamard {
    /// Number of columns that are transformed together, a power of two.
    pub block_len: usize,
    /// Signs, 1 or −1, for each length of an input; without any, the signs are all 1.
    pub signs: Vec<Vec<i8>>,
    /// True if rows of the embedding are transformed: a row `z` stands for `s · (H z)`.
    pub embedding: bool,
    /// True if the head multiplies transformed hidden states.
    pub head: bool,
    /// True if the output projections of recurrent mixers see value heads in the order of checkpoints,
    /// whatever order their other tensors have.
    pub grouped_values: bool,
}

impl Hadamard {
    /// Longest block.
    pub const MAX_BLOCK_LEN: usize = 1 << 14;

    /// Returns the signs of inputs of `len` elements; `None` if they are all 1.
    pub fn signs_of(&self, len: usize) -> Option<&[i8]> {
        self.signs.iter().map(Vec::as_slice).find(|signs| signs.len() == len)
    }

    /// Checks that the transform fits the inputs of a network.
    pub(super) fn check(&self, network: &Network) -> Result<(), InvalidNetwork> {
        let fault = |what: String| Err(InvalidNetwork::new("Hadamard transform", what));
        let block_len = self.block_len;
        if !block_len.is_power_of_two() || !(2..=Self::MAX_BLOCK_LEN).contains(&block_len) {
            let max = Self::MAX_BLOCK_LEN;
            return fault(format!("blocks of {block_len}, must be a power of two from 2 to {max}"));
        }
        if network.layers.iter().any(|layer| layer.ffn.experts().is_some()) {
            return fault("experts, they are not supported under a transform".to_owned());
        }
        for len in input_lens(network) {
            if !len.is_multiple_of(block_len) {
                return fault(format!(
                    "inputs of {len}, must be a multiple of blocks of {block_len}"
                ));
            }
            if !self.signs.is_empty() && self.signs_of(len).is_none() {
                let known: Vec<_> = self.signs.iter().map(Vec::len).collect();
                return fault(format!("no signs for inputs of {len}, only for {known:?}"));
            }
        }
        if self.signs.iter().flatten().any(|sign| !matches!(sign, 1 | -1)) {
            return fault("a sign is neither 1 nor -1".to_owned());
        }
        Ok(())
    }
}

/// Returns the lengths of all inputs of ternary products.
fn input_lens(network: &Network) -> impl Iterator<Item = usize> + '_ {
    let of_layer = |layer: &Layer| {
        let mixed = layer.attention().map(Attention::query_len);
        let mixed = mixed.or_else(|| layer.delta_net().map(DeltaNet::value_len));
        [mixed.unwrap_or(network.hidden_len), layer.ffn.block().ffn_len]
    };
    std::iter::once(network.hidden_len).chain(network.layers.iter().flat_map(of_layer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Dense, Ffn};

    type Change = fn(&mut Hadamard);

    #[test]
    fn a_transform_fits_every_input_or_is_refused() {
        let mut network = Network { vocab_len: 8, hidden_len: 64, ..Network::default() };
        let mut layer = Layer::new(
            Attention { heads: 2, kv_heads: 1, head_dim: 16, ..Attention::default() },
            Dense { ffn_len: 96, ..Dense::default() },
        );
        network.layers.push(layer);
        let signs = [64, 32, 96].map(|len| vec![1; len]).to_vec();
        let sound = Hadamard { block_len: 32, signs, ..Hadamard::default() };
        let check = |change: Change| {
            let mut hadamard = sound.clone();
            change(&mut hadamard);
            let network = Network { hadamard: Some(hadamard), ..network.clone() };
            network.check().map_err(|error| error.to_string())
        };
        assert_eq!(check(|_| {}), Ok(()));
        assert_eq!(check(|h| h.signs.clear()), Ok(()), "all signs are 1");
        let refused: [(Change, &str); 5] = [
            (|h| h.block_len = 48, "blocks of 48, must be a power of two from 2 to 16384"),
            (|h| h.block_len = 1, "blocks of 1, must be a power of two from 2 to 16384"),
            (|h| h.block_len = 64, "inputs of 32, must be a multiple of blocks of 64"),
            (|h| drop(h.signs.pop()), "no signs for inputs of 96, only for [64, 32]"),
            (|h| h.signs[1][3] = 0, "a sign is neither 1 nor -1"),
        ];
        for (change, what) in refused {
            assert!(check(change).unwrap_err().contains(what), "{what}");
        }
        let expert = *layer.ffn.block();
        layer.ffn = Ffn::Experts(crate::Experts {
            experts: 2,
            active: 1,
            renormalize: false,
            expert,
            shared: None,
        });
        let network = Network { layers: vec![layer], hadamard: Some(sound), ..network };
        assert!(network.check().unwrap_err().to_string().contains("experts"));
    }
}
