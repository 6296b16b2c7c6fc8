//! One name for each tensor of the network, whatever a file calls it.

use std::fmt;

use crate::config::ModelConfig;

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
    /// Norm of the query projection's own input.
    QueryInputNorm,
    /// Norm of the key projection's own input.
    KeyInputNorm,
    /// Norm of the value projection's own input.
    ValueInputNorm,
    /// Norm of the gate projection's own input.
    GateInputNorm,
    /// Norm of the up projection's own input.
    UpInputNorm,
    /// Norm of each head's queries.
    QueryHeadNorm,
    /// Norm of each head's keys.
    KeyHeadNorm,
    /// Norm of what attention adds to the residual stream.
    AttnOutputNorm,
    /// Norm of what the feed-forward part adds to it.
    FfnOutputNorm,
}

/// A group of norms that only some model families have, in all layers or in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NormGroup {
    /// Before the attention output and down projections.
    Sub,
    /// Of what each of the other projections reads.
    Inputs,
    /// Of queries and keys, head by head.
    Heads,
    /// Of what both halves of a layer give.
    Outputs,
}

/// The part of a tensor name that says which layer tensor it is: ours, GGUF's, Hugging Face's.
const LAYER_NAMES: [(LayerTensor, &str, &str); 20] = [
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
    (LayerTensor::QueryInputNorm, "attn_q_norm_in", "self_attn.q_proj.norm"),
    (LayerTensor::KeyInputNorm, "attn_k_norm_in", "self_attn.k_proj.norm"),
    (LayerTensor::ValueInputNorm, "attn_v_norm_in", "self_attn.v_proj.norm"),
    (LayerTensor::GateInputNorm, "ffn_gate_norm_in", "mlp.gate_proj.norm"),
    (LayerTensor::UpInputNorm, "ffn_up_norm_in", "mlp.up_proj.norm"),
    (LayerTensor::QueryHeadNorm, "attn_q_norm", "self_attn.q_norm"),
    (LayerTensor::KeyHeadNorm, "attn_k_norm", "self_attn.k_norm"),
    // Hugging Face calls the norm before the feed-forward part of other families
    // `post_attention_layernorm`, so in its files the two cannot be told by name alone.
    (LayerTensor::AttnOutputNorm, "post_attention_norm", "post_self_attn_layernorm"),
    (LayerTensor::FfnOutputNorm, "post_ffw_norm", "post_feedforward_layernorm"),
];

/// What files with a norm inside each projection call the two that other files have, too.
const INPUT_NORM_NAMES: [(LayerTensor, &str); 2] = [
    (LayerTensor::AttnSubNorm, "attn_output_norm_in"),
    (LayerTensor::FfnSubNorm, "ffn_down_norm_in"),
];

/// What the 2024 checkpoints of the 1bitLLM family call their sub-norms.
const OLD_HF_NAMES: [(LayerTensor, &str); 2] = [
    (LayerTensor::AttnSubNorm, "self_attn.inner_attn_ln"),
    (LayerTensor::FfnSubNorm, "mlp.ffn_layernorm"),
];

impl LayerTensor {
    /// All of them, in the order a layer uses them.
    pub const ALL: [Self; 20] = [
        Self::AttnNorm,
        Self::QueryInputNorm,
        Self::Query,
        Self::QueryHeadNorm,
        Self::KeyInputNorm,
        Self::Key,
        Self::KeyHeadNorm,
        Self::ValueInputNorm,
        Self::Value,
        Self::AttnSubNorm,
        Self::AttnOutput,
        Self::AttnOutputNorm,
        Self::FfnNorm,
        Self::GateInputNorm,
        Self::Gate,
        Self::UpInputNorm,
        Self::Up,
        Self::FfnSubNorm,
        Self::Down,
        Self::FfnOutputNorm,
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

    /// The group of norms it belongs to, if only some model families have it.
    pub(crate) fn norm_group(self) -> Option<NormGroup> {
        match self {
            Self::AttnSubNorm | Self::FfnSubNorm => Some(NormGroup::Sub),
            Self::QueryInputNorm
            | Self::KeyInputNorm
            | Self::ValueInputNorm
            | Self::GateInputNorm
            | Self::UpInputNorm => Some(NormGroup::Inputs),
            Self::QueryHeadNorm | Self::KeyHeadNorm => Some(NormGroup::Heads),
            Self::AttnOutputNorm | Self::FfnOutputNorm => Some(NormGroup::Outputs),
            _ => None,
        }
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

    /// The name in a GGUF file of this network: the two norms that every BitNet model has are called
    /// as the others are where each projection has one.
    pub(crate) fn gguf_in(self, config: &ModelConfig) -> String {
        let Self::Layer(layer, tensor) = self else { return self.gguf() };
        let mut other_names = INPUT_NORM_NAMES.iter().filter(|_| config.extra_norms.inputs);
        match other_names.find(|(named, _)| *named == tensor) {
            Some((_, name)) => format!("blk.{layer}.{name}.weight"),
            None => self.gguf(),
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
        let known = known.chain(INPUT_NORM_NAMES);
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
