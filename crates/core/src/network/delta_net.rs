//! Gated DeltaNet: a recurrent mixer with a matrix of state for each value head.

use super::Norm;

/// A gated DeltaNet block.
///
/// ```text
/// n = norm(h)
/// q, k, v = silu( convolution( qkv(n) ) ), where queries and keys have length 1, and queries are divided by
///           the root of `key_dim`
/// β = sigmoid(beta(n)), α = exp( decay · softplus( alpha(n) + bias ) ), one of each for every value head
/// S = α S + k ⊗ β (v − kᵀ α S), and o = qᵀ S
/// h += output( head_norm(o) · silu( gate(n) ) )
/// ```
///
/// The convolution is causal and has `conv_len` weights for each channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeltaNet {
    /// Number of query heads, and of key heads.
    pub key_heads: usize,
    /// Number of value heads, each with a state; a multiple of the key heads.
    pub value_heads: usize,
    /// Length of a query or key head.
    pub key_dim: usize,
    /// Length of a value head.
    pub value_dim: usize,
    /// Number of positions that the convolution sees, the token itself included.
    pub conv_len: usize,
    /// Order of the value heads in all tensors.
    pub order: ValueHeadOrder,
    /// Norm of the block's input.
    pub norm: Norm,
    /// Norm of every value head of the output.
    pub head_norm: Norm,
}

impl DeltaNet {
    /// Largest number of positions of a convolution.
    pub const MAX_CONV_LEN: usize = 8;

    /// Length of all query heads of a token together, or of all key heads.
    pub fn key_len(&self) -> usize {
        self.key_heads.saturating_mul(self.key_dim)
    }

    /// Length of all value heads of a token together.
    pub fn value_len(&self) -> usize {
        self.value_heads.saturating_mul(self.value_dim)
    }

    /// Number of channels of the convolution: queries, keys and values of a token.
    pub fn channels(&self) -> usize {
        self.key_len().saturating_mul(2).saturating_add(self.value_len())
    }

    /// Number of elements of the state of one value head.
    pub fn head_state_len(&self) -> usize {
        self.key_dim.saturating_mul(self.value_dim)
    }

    /// Number of elements of the states of all value heads.
    pub fn state_len(&self) -> usize {
        self.value_heads.saturating_mul(self.head_state_len())
    }

    /// Number of earlier inputs of the convolution, of all channels.
    pub fn history_len(&self) -> usize {
        self.channels().saturating_mul(self.conv_len.saturating_sub(1))
    }

    /// Index of the key head of a value head.
    pub fn key_head_of(&self, value_head: usize) -> usize {
        match self.order {
            ValueHeadOrder::Grouped => value_head / (self.value_heads / self.key_heads),
            ValueHeadOrder::Tiled => value_head % self.key_heads,
        }
    }

    /// Returns the order that its value heads have, whatever it is called: with one value head for each key
    /// head, both orders are the same.
    #[must_use]
    pub fn with_order(self, order: ValueHeadOrder) -> Self {
        let same = self.key_heads == self.value_heads;
        Self { order: if same { ValueHeadOrder::Grouped } else { order }, ..self }
    }

    /// Number of rows of hidden size of all ternary matrices.
    pub(super) fn trit_rows(&self) -> usize {
        self.channels() + 2 * self.value_len()
    }
}

/// Order of value heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueHeadOrder {
    /// Value heads of one key head are neighbours, as in checkpoints.
    #[default]
    Grouped,
    /// The first value heads of all key heads come first, then the second ones, as in GGUF files.
    Tiled,
}

impl ValueHeadOrder {
    /// Returns the index that value head `head` has in the other order; `key_heads` share `value_heads`.
    pub fn head_before(self, head: usize, key_heads: usize, value_heads: usize) -> usize {
        let sharing = value_heads / key_heads;
        match self {
            Self::Grouped => head % sharing * key_heads + head / sharing,
            Self::Tiled => head % key_heads * sharing + head / key_heads,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta_net(order: ValueHeadOrder) -> DeltaNet {
        DeltaNet {
            key_heads: 2,
            value_heads: 6,
            key_dim: 4,
            value_dim: 8,
            conv_len: 4,
            order,
            norm: Norm::default(),
            head_norm: Norm::default(),
        }
    }

    #[test]
    fn value_heads_share_key_heads_in_either_order() {
        let keys = |order| {
            let delta_net = delta_net(order);
            (0..6).map(|head| delta_net.key_head_of(head)).collect::<Vec<_>>()
        };
        assert_eq!(keys(ValueHeadOrder::Grouped), [0, 0, 0, 1, 1, 1]);
        assert_eq!(keys(ValueHeadOrder::Tiled), [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn reordered_heads_keep_their_key_head_and_come_back() {
        use ValueHeadOrder::{Grouped, Tiled};
        for head in 0..6 {
            let tiled = Grouped.head_before(head, 2, 6);
            assert_eq!(delta_net(Grouped).key_head_of(head), delta_net(Tiled).key_head_of(tiled));
            assert_eq!(Tiled.head_before(tiled, 2, 6), head);
        }
    }

    #[test]
    fn one_value_head_for_each_key_head_has_one_order() {
        let equal = DeltaNet { value_heads: 2, ..delta_net(ValueHeadOrder::Grouped) };
        assert_eq!(equal.with_order(ValueHeadOrder::Tiled), equal);
        let tiled = delta_net(ValueHeadOrder::Tiled);
        assert_eq!(delta_net(ValueHeadOrder::Grouped).with_order(ValueHeadOrder::Tiled), tiled);
    }
}
