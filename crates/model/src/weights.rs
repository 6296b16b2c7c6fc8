//! What the network is made of: plain structs, filled by `load.rs`, read by the forward pass.

use wf_kernels::TernaryMatrix;

pub use crate::embed::FloatTable;

/// Every weight of a network.
pub struct Weights {
    /// One row of floats for each token.
    pub embedding: FloatTable,
    /// The layers, in the order they run.
    pub layers: Vec<Layer>,
    /// Weights of the norm before the output head.
    pub output_norm: Vec<f32>,
    /// The output head, where it is not the embedding itself.
    pub output: Option<FloatTable>,
}

impl Weights {
    /// The table whose rows score the tokens.
    pub fn head(&self) -> &FloatTable {
        self.output.as_ref().unwrap_or(&self.embedding)
    }

    /// Bytes held in memory.
    pub fn size_bytes(&self) -> usize {
        let norms = |n: &[f32]| size_of_val(n);
        let layer = |l: &Layer| {
            let (a, m) = (&l.attention, &l.mlp);
            [&a.query, &a.key, &a.value, &a.output, &m.gate, &m.up, &m.down]
                .iter()
                .map(|w| w.bytes_len())
                .sum::<usize>()
                + norms(&a.norm)
                + norms(&m.norm)
                + a.sub_norm.as_deref().map_or(0, norms)
                + m.sub_norm.as_deref().map_or(0, norms)
                + a.extra.iter().chain(m.extra.iter()).map(|n| norms(n)).sum::<usize>()
        };
        self.embedding.size_bytes()
            + self.output.as_ref().map_or(0, FloatTable::size_bytes)
            + norms(&self.output_norm)
            + self.layers.iter().map(layer).sum::<usize>()
    }
}

/// One transformer layer.
pub struct Layer {
    /// Its first half.
    pub attention: Attention,
    /// Its second half.
    pub mlp: Mlp,
}

/// The attention half of a layer.
pub struct Attention {
    /// Norm of the layer's input.
    pub norm: Vec<f32>,
    /// Makes the queries.
    pub query: TernaryMatrix,
    /// Makes the keys.
    pub key: TernaryMatrix,
    /// Makes the values.
    pub value: TernaryMatrix,
    /// Norm of the concatenated heads, in BitNet models.
    pub sub_norm: Option<Vec<f32>>,
    /// From the heads back to the hidden state.
    pub output: TernaryMatrix,
    /// Norms that only some families have.
    pub extra: AttentionNorms,
}

/// Norms of the attention half that only some families have.
#[derive(Default)]
pub struct AttentionNorms {
    /// Of what makes queries, keys and values, each of the normed input.
    pub inputs: Option<[Vec<f32>; 3]>,
    /// Of each head's queries, and of its keys.
    pub heads: Option<[Vec<f32>; 2]>,
    /// Of what is added to the hidden state.
    pub output: Option<Vec<f32>>,
}

impl AttentionNorms {
    fn iter(&self) -> impl Iterator<Item = &Vec<f32>> {
        self.inputs.iter().flatten().chain(self.heads.iter().flatten()).chain(&self.output)
    }
}

impl MlpNorms {
    fn iter(&self) -> impl Iterator<Item = &Vec<f32>> {
        self.inputs.iter().flatten().chain(&self.output)
    }
}

/// Norms of the feed-forward half that only some families have.
#[derive(Default)]
pub struct MlpNorms {
    /// Of what makes gate and up, each of the normed input.
    pub inputs: Option<[Vec<f32>; 2]>,
    /// Of what is added to the hidden state.
    pub output: Option<Vec<f32>>,
}

/// The gated feed-forward half of a layer.
pub struct Mlp {
    /// Norm of its input.
    pub norm: Vec<f32>,
    /// Its activation decides which neurons speak.
    pub gate: TernaryMatrix,
    /// What they say.
    pub up: TernaryMatrix,
    /// Norm of the gated neurons, in BitNet models.
    pub sub_norm: Option<Vec<f32>>,
    /// From the neurons back to the hidden state.
    pub down: TernaryMatrix,
    /// Norms that only some families have.
    pub extra: MlpNorms,
}
