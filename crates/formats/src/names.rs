//! One name for each tensor of the network, whatever a file calls it.

use std::fmt;

/// A tensor of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TensorName {
    /// Token embedding, one row a token.
    Embedding,
    /// The norm before the output head.
    OutputNorm,
    /// The output head, where it is not the embedding.
    Output,
    /// A tensor of one layer.
    Layer(usize, LayerTensor),
}

/// A tensor that every layer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LayerTensor {
    /// Norm before attention.
    AttnNorm,
    /// Query projection.
    Query,
    /// Key projection.
    Key,
    /// Value projection.
    Value,
    /// Projection of the attention output.
    AttnOutput,
    /// Norm between attention and its output projection.
    AttnSubNorm,
    /// Norm before the feed-forward part.
    FfnNorm,
    /// Gate projection.
    Gate,
    /// Up projection.
    Up,
    /// Down projection.
    Down,
    /// Norm before the down projection.
    FfnSubNorm,
}

/// The part of a tensor name that says which layer tensor it is: ours, GGUF's, Hugging Face's.
const LAYER_NAMES: [(LayerTensor, &str, &str); 11] = [
    (LayerTensor::AttnNorm, "attn_norm", "input_layernorm"),
    (LayerTensor::Query, "attn_q", "self_attn.q_proj"),
    (LayerTensor::Key, "attn_k", "self_attn.k_proj"),
    (LayerTensor::Value, "attn_v", "self_attn.v_proj"),
    (LayerTensor::AttnOutput, "attn_output", "self_attn.o_proj"),
    (LayerTensor::AttnSubNorm, "attn_sub_norm", "self_attn.attn_sub_norm"),
    (LayerTensor::FfnNorm, "ffn_norm", "post_attention_layernorm"),
    (LayerTensor::Gate, "ffn_gate", "mlp.gate_proj"),
    (LayerTensor::Up, "ffn_up", "mlp.up_proj"),
    (LayerTensor::Down, "ffn_down", "mlp.down_proj"),
    (LayerTensor::FfnSubNorm, "ffn_sub_norm", "mlp.ffn_sub_norm"),
];

/// What the 2024 checkpoints of the 1bitLLM family call their sub-norms.
const OLD_HF_NAMES: [(LayerTensor, &str); 2] = [
    (LayerTensor::AttnSubNorm, "self_attn.inner_attn_ln"),
    (LayerTensor::FfnSubNorm, "mlp.ffn_layernorm"),
];

impl LayerTensor {
    /// All of them, in the order a layer uses them.
    pub const ALL: [Self; 11] = [
        Self::AttnNorm,
        Self::Query,
        Self::Key,
        Self::Value,
        Self::AttnSubNorm,
        Self::AttnOutput,
        Self::FfnNorm,
        Self::Gate,
        Self::Up,
        Self::FfnSubNorm,
        Self::Down,
    ];

    /// Whether this is a matrix of trits (and not a norm).
    pub fn is_linear(self) -> bool {
        matches!(
            self,
            Self::Query
                | Self::Key
                | Self::Value
                | Self::AttnOutput
                | Self::Gate
                | Self::Up
                | Self::Down
        )
    }

    /// Whether this is a norm that only some model families have.
    pub fn is_sub_norm(self) -> bool {
        matches!(self, Self::AttnSubNorm | Self::FfnSubNorm)
    }

    fn names(self) -> (&'static str, &'static str) {
        LAYER_NAMES
            .iter()
            .find(|(tensor, _, _)| *tensor == self)
            .map(|&(_, gguf, hf)| (gguf, hf))
            .expect("the table has every layer tensor")
    }
}

impl TensorName {
    /// Whether this is a matrix of trits.
    pub fn is_linear(self) -> bool {
        matches!(self, Self::Layer(_, tensor) if tensor.is_linear())
    }

    /// Whether this is a norm, a single row of floats.
    pub fn is_norm(self) -> bool {
        match self {
            Self::OutputNorm => true,
            Self::Layer(_, tensor) => !tensor.is_linear(),
            Self::Embedding | Self::Output => false,
        }
    }

    /// The name in a GGUF file.
    pub fn gguf(self) -> String {
        match self {
            Self::Embedding => "token_embd.weight".to_owned(),
            Self::OutputNorm => "output_norm.weight".to_owned(),
            Self::Output => "output.weight".to_owned(),
            Self::Layer(layer, tensor) => format!("blk.{layer}.{}.weight", tensor.names().0),
        }
    }

    /// The name in a Hugging Face checkpoint.
    pub fn hugging_face(self) -> String {
        match self {
            Self::Embedding => "model.embed_tokens.weight".to_owned(),
            Self::OutputNorm => "model.norm.weight".to_owned(),
            Self::Output => "lm_head.weight".to_owned(),
            Self::Layer(layer, tensor) => {
                format!("model.layers.{layer}.{}.weight", tensor.names().1)
            }
        }
    }

    /// Reads a GGUF name; `None` if the network has no such tensor.
    pub fn from_gguf(name: &str) -> Option<Self> {
        let known = LAYER_NAMES.iter().map(|&(tensor, gguf, _)| (tensor, gguf));
        Self::find_outside(name, Self::gguf).or_else(|| Self::find_in_layer(name, "blk.", known))
    }

    /// Reads a Hugging Face name; `None` if the network has no such tensor.
    pub fn from_hugging_face(name: &str) -> Option<Self> {
        let known = LAYER_NAMES.iter().map(|&(tensor, _, hf)| (tensor, hf)).chain(OLD_HF_NAMES);
        Self::find_outside(name, Self::hugging_face)
            .or_else(|| Self::find_in_layer(name, "model.layers.", known))
    }

    fn find_outside(name: &str, spelling: fn(Self) -> String) -> Option<Self> {
        let outside = [Self::Embedding, Self::OutputNorm, Self::Output];
        outside.into_iter().find(|&known| spelling(known) == name)
    }

    fn find_in_layer(
        name: &str,
        prefix: &str,
        mut known: impl Iterator<Item = (LayerTensor, &'static str)>,
    ) -> Option<Self> {
        let (layer, part) = layer_and_part(name, prefix)?;
        let part = part.strip_suffix(".weight")?;
        known.find(|(_, text)| *text == part).map(|(tensor, _)| Self::Layer(layer, tensor))
    }
}

/// Our own spelling is GGUF's: it is the shortest.
impl fmt::Display for TensorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.gguf())
    }
}

/// Splits `blk.12.attn_q.weight` into 12 and `attn_q.weight`.
pub(crate) fn layer_and_part<'a>(name: &'a str, prefix: &str) -> Option<(usize, &'a str)> {
    let (number, part) = name.strip_prefix(prefix)?.split_once('.')?;
    // `blk.+1` and `blk.01` would make two names for one tensor.
    let canonical =
        number.bytes().all(|b| b.is_ascii_digit()) && (number == "0" || !number.starts_with('0'));
    if !canonical {
        return None;
    }
    Some((number.parse().ok()?, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_from_both_spellings() {
        let mut names = vec![TensorName::Embedding, TensorName::OutputNorm, TensorName::Output];
        names.extend(LayerTensor::ALL.map(|tensor| TensorName::Layer(107, tensor)));
        for name in names {
            assert_eq!(TensorName::from_gguf(&name.gguf()), Some(name));
            assert_eq!(TensorName::from_hugging_face(&name.hugging_face()), Some(name));
        }
    }

    #[test]
    fn a_layer_number_has_one_spelling() {
        assert!(TensorName::from_gguf("blk.01.attn_q.weight").is_none());
        assert!(TensorName::from_gguf("blk.+1.attn_q.weight").is_none());
        assert!(TensorName::from_gguf("blk..attn_q.weight").is_none());
        assert!(TensorName::from_gguf("blk.99999999999999999999.attn_q.weight").is_none());
        assert!(TensorName::from_gguf("blk.0.attn_q.bias").is_none());
    }

    #[test]
    fn sub_norms_of_the_old_family_are_known() {
        assert_eq!(
            TensorName::from_hugging_face("model.layers.3.self_attn.inner_attn_ln.weight"),
            Some(TensorName::Layer(3, LayerTensor::AttnSubNorm))
        );
    }
}
