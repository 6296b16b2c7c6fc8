//! Pairing of dimensions in rotary position embeddings.

/// Pairs of head dimensions that a rotary embedding rotates together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotaryPairs {
    /// Dimensions `i` and `i + head_dim / 2`, as in Hugging Face checkpoints.
    Halves,
    /// Dimensions `2i` and `2i + 1`, as in GGUF files of the `llama` architecture.
    Adjacent,
}

impl RotaryPairs {
    /// Returns the row of a query or key projection in the other pairing that becomes `row` in this
    /// one.
    pub fn row_before(self, row: usize, head_dim: usize) -> usize {
        let half = (head_dim / 2).max(1);
        let (head, dim) = (row / head_dim.max(1), row % head_dim.max(1));
        let from = match self {
            // 0, half, 1, half + 1, …
            Self::Adjacent => dim / 2 + dim % 2 * half,
            // 0, 2, 4, …, 1, 3, 5, …
            Self::Halves => dim % half * 2 + dim / half,
        };
        head * head_dim + from
    }
}
