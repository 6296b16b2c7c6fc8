//! Weights of a gated DeltaNet block.

use wf_formats::{LayerTensor, TensorName};
use wf_kernels::{TernaryMatrix, Upcoming};

use super::{LayerReader, Norm, WeightSource, size_of};

/// Weights of a gated DeltaNet block. [`wf_core::DeltaNet`] describes the computation.
pub struct DeltaNet {
    /// Norm of the block's input.
    pub norm: Norm,
    /// Query, key and value projection.
    pub qkv: TernaryMatrix,
    /// Projection of the output's gate.
    pub gate: TernaryMatrix,
    /// Convolution: the weights of all channels for the oldest input first.
    pub conv: Vec<f32>,
    /// One row of floats for the strength of each value head's updates, then one for its decay.
    pub gates: Vec<f32>,
    /// Factor of each value head's decay, negative.
    pub decay: Vec<f32>,
    /// Addend of each value head's decay.
    pub bias: Vec<f32>,
    /// Norm of every value head of the output.
    pub head_norm: Norm,
    /// Output projection.
    pub output: TernaryMatrix,
}

impl DeltaNet {
    /// Returns the matrices that the block reads first.
    pub(crate) fn upcoming(&self) -> Upcoming<'_> {
        Upcoming::InTurn([self.qkv.packed(), self.gate.packed(), &[]])
    }

    pub(super) fn size_bytes(&self) -> usize {
        let floats = [&self.conv, &self.gates, &self.decay, &self.bias];
        size_of([&self.qkv, &self.gate, &self.output], [&self.norm, &self.head_norm].into_iter())
            + floats.into_iter().map(|floats| size_of_val(&floats[..])).sum::<usize>()
    }
}

impl<S: WeightSource> LayerReader<'_, S> {
    pub(super) fn delta_net(&mut self, recipe: &wf_core::DeltaNet) -> Result<DeltaNet, S::Error> {
        use LayerTensor as T;
        let (hidden, heads) = (self.hidden_len, recipe.value_heads);
        let (channels, conv_len) = (recipe.channels(), recipe.conv_len);
        let norm = self.norm(recipe.norm, T::AttnNorm, hidden)?;
        let qkv = self.matrix(T::DeltaQkv, channels, hidden)?;
        let gate = self.matrix(T::DeltaGate, recipe.value_len(), hidden)?;
        let by_channel = self.floats(T::DeltaConv, channels * conv_len)?;
        let mut gates = self.floats(T::DeltaBeta, heads * hidden)?;
        gates.extend(self.floats(T::DeltaAlpha, heads * hidden)?);
        let tap = |tap| by_channel.iter().skip(tap).step_by(conv_len).copied();
        Ok(DeltaNet {
            norm,
            qkv,
            gate,
            conv: (0..conv_len).flat_map(tap).collect(),
            gates,
            decay: self.floats(T::DeltaDecay, heads)?,
            bias: self.floats(T::DeltaBias, heads)?,
            head_norm: self.norm(recipe.head_norm, T::DeltaHeadNorm, recipe.value_dim)?,
            output: self.matrix(T::DeltaOutput, hidden, recipe.value_len())?,
        })
    }

    fn floats(&mut self, tensor: LayerTensor, len: usize) -> Result<Vec<f32>, S::Error> {
        self.source.vector(TensorName::Layer(self.index, tensor), len)
    }
}
