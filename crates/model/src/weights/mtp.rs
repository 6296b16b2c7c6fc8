//! The weights of a multi-token prediction head.

use wf_core::Network;
use wf_formats::{LayerTensor, TensorName};

use super::{Layer, LayerReader, Norm, Table, WeightSource};

/// Weights of a prediction head. [`wf_core::Mtp`] describes the computation.
pub struct Mtp {
    /// Norm of embeddings.
    pub embedding_norm: Norm,
    /// Norm of hidden states.
    pub hidden_norm: Norm,
    /// Projection of an embedding and a hidden state, side by side.
    pub input: Table,
    /// Layer of its own.
    pub layer: Layer,
    /// Norm before the output head.
    pub norm: Norm,
}

impl Mtp {
    pub(super) fn read<S: WeightSource>(
        network: &Network,
        recipe: &wf_core::Mtp,
        source: &mut S,
    ) -> Result<Self, S::Error> {
        use LayerTensor as T;
        let (index, hidden_len) = (network.layers.len(), network.hidden_len);
        let input = TensorName::Layer(index, T::MtpInput);
        let input = source.table(input, hidden_len, 2 * hidden_len)?;
        let mut reader = LayerReader { index, hidden_len, source };
        Ok(Self {
            embedding_norm: reader.norm(recipe.embedding_norm, T::MtpEmbeddingNorm, hidden_len)?,
            hidden_norm: reader.norm(recipe.hidden_norm, T::MtpHiddenNorm, hidden_len)?,
            input,
            layer: Layer {
                mixer: reader.mixer(&recipe.layer.mixer)?,
                ffn: reader.ffn(&recipe.layer.ffn)?,
            },
            norm: reader.norm(recipe.norm, T::MtpNorm, hidden_len)?,
        })
    }

    pub(super) fn size_bytes(&self) -> usize {
        let norms = [&self.embedding_norm, &self.hidden_norm, &self.norm];
        let norms = norms.into_iter().map(Norm::size_bytes).sum::<usize>();
        self.input.size_bytes() + self.layer.size_bytes() + norms
    }
}
