//! The tensors of a network, each with one name that does not depend on the file format.

use std::fmt;

use wf_core::{Attention, DeltaNet, Dense, Layer, Mixer, Mtp, Network, SharedExpert};

use LayerTensor as T;

/// A tensor of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TensorName {
    /// Token embedding, one row per token.
    Embedding,
    /// Norm before the output head.
    OutputNorm,
    /// Output head, if it is not the embedding.
    Output,
    /// Tensor of the layer with this index; that of a prediction head follows the others.
    Layer(usize, LayerTensor),
    /// Tensor of one expert of a layer: the indices of the layer and of the expert, and one of
    /// [`LayerTensor::EXPERT`].
    Expert(usize, usize, LayerTensor),
}

/// A tensor of a layer.
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
    /// Norm of the concatenated heads, before the output projection.
    AttnSubNorm,
    /// Norm before the feed-forward block.
    FfnNorm,
    /// Router: one row of floats for each expert.
    Router,
    /// Gate of the shared expert: one row of floats.
    SharedRouter,
    /// Gate projection of the shared expert.
    SharedGate,
    /// Up projection of the shared expert.
    SharedUp,
    /// Down projection of the shared expert.
    SharedDown,
    /// Gate projection.
    Gate,
    /// Up projection.
    Up,
    /// Down projection.
    Down,
    /// Norm of the gated neurons, before the down projection.
    FfnSubNorm,
    /// Norm applied by the query projection to its input.
    QueryInputNorm,
    /// Norm applied by the key projection to its input.
    KeyInputNorm,
    /// Norm applied by the value projection to its input.
    ValueInputNorm,
    /// Norm applied by the gate projection to its input.
    GateInputNorm,
    /// Norm applied by the up projection to its input.
    UpInputNorm,
    /// Norm of each query head.
    QueryHeadNorm,
    /// Norm of each key head.
    KeyHeadNorm,
    /// Query, key and value projection of a recurrent mixer.
    DeltaQkv,
    /// Gate projection of a recurrent mixer.
    DeltaGate,
    /// Convolution of a recurrent mixer: one row of floats for each channel.
    DeltaConv,
    /// Strength of updates: one row of floats for each value head.
    DeltaBeta,
    /// Decay of the state: one row of floats for each value head.
    DeltaAlpha,
    /// Factor of the decay of each value head: a negative float.
    DeltaDecay,
    /// Addend of the decay of each value head.
    DeltaBias,
    /// Norm of each value head of a recurrent mixer.
    DeltaHeadNorm,
    /// Output projection of a recurrent mixer.
    DeltaOutput,
    /// Norm of the attention output, before it is added to the hidden state.
    AttnOutputNorm,
    /// Norm of the feed-forward output, before it is added to the hidden state.
    FfnOutputNorm,
    /// Norm of an embedding in a prediction head.
    MtpEmbeddingNorm,
    /// Norm of a hidden state in a prediction head.
    MtpHiddenNorm,
    /// Projection of both to the input of a prediction head's layer: trits or floats.
    MtpInput,
    /// Norm behind the layer of a prediction head.
    MtpNorm,
}

impl LayerTensor {
    /// All tensors, in the order a layer uses them.
    #[expect(clippy::indexing_slicing, reason = "at compile time a wrong index does not compile")]
    pub const ALL: [Self; STANDARD.len()] = {
        let mut all = [Self::AttnNorm; STANDARD.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = STANDARD[at].tensor;
            at += 1;
        }
        all
    };

    /// The tensors of an expert, in the order they are used.
    pub const EXPERT: [Self; 3] = [Self::Gate, Self::Up, Self::Down];

    /// Returns `true` for a matrix of trits, `false` for floats: norms, the router, the gate of the shared expert,
    /// and the small parts of recurrent mixers.
    pub fn is_linear(self) -> bool {
        matches!(
            self,
            Self::Query
                | Self::Key
                | Self::Value
                | Self::AttnOutput
                | Self::DeltaQkv
                | Self::DeltaGate
                | Self::DeltaOutput
                | Self::Gate
                | Self::Up
                | Self::Down
                | Self::SharedGate
                | Self::SharedUp
                | Self::SharedDown
        )
    }

    fn is_norm(self) -> bool {
        let is_other_float = matches!(
            self,
            Self::Router
                | Self::SharedRouter
                | Self::DeltaConv
                | Self::DeltaBeta
                | Self::DeltaAlpha
                | Self::DeltaDecay
                | Self::DeltaBias
                | Self::MtpInput
        );
        !self.is_linear() && !is_other_float
    }

    /// The end of its names.
    fn suffix(self) -> &'static str {
        if matches!(self, Self::DeltaDecay | Self::DeltaBias) { "" } else { ".weight" }
    }

    fn spelling(self) -> &'static Spelling {
        let found = STANDARD.iter().find(|spelling| spelling.tensor == self);
        found.expect("the standard table has every tensor of a layer")
    }
}

/// The names of one tensor of a layer, without the layer in front and `.weight` behind, if it has that.
pub(crate) struct Spelling {
    pub(crate) tensor: LayerTensor,
    pub(crate) gguf: &'static str,
    /// Empty if no checkpoint has the tensor under this name.
    pub(crate) hugging_face: &'static str,
}

pub(crate) const fn spelled(
    tensor: LayerTensor,
    gguf: &'static str,
    hugging_face: &'static str,
) -> Spelling {
    Spelling { tensor, gguf, hugging_face }
}

/// The usual names, which are also the ones written, in the order a layer uses the tensors.
pub(crate) const STANDARD: &[Spelling] = &[
    spelled(T::AttnNorm, "attn_norm", "input_layernorm"),
    spelled(T::QueryInputNorm, "attn_q_norm_in", "self_attn.q_proj.norm"),
    spelled(T::Query, "attn_q", "self_attn.q_proj"),
    spelled(T::QueryHeadNorm, "attn_q_norm", "self_attn.q_norm"),
    spelled(T::KeyInputNorm, "attn_k_norm_in", "self_attn.k_proj.norm"),
    spelled(T::Key, "attn_k", "self_attn.k_proj"),
    spelled(T::KeyHeadNorm, "attn_k_norm", "self_attn.k_norm"),
    spelled(T::ValueInputNorm, "attn_v_norm_in", "self_attn.v_proj.norm"),
    spelled(T::Value, "attn_v", "self_attn.v_proj"),
    spelled(T::AttnSubNorm, "attn_sub_norm", "self_attn.attn_sub_norm"),
    spelled(T::AttnOutput, "attn_output", "self_attn.o_proj"),
    spelled(T::DeltaQkv, "attn_qkv", "linear_attn.in_proj_qkv"),
    spelled(T::DeltaGate, "attn_gate", "linear_attn.in_proj_z"),
    spelled(T::DeltaConv, "ssm_conv1d", "linear_attn.conv1d"),
    spelled(T::DeltaBeta, "ssm_beta", "linear_attn.in_proj_b"),
    spelled(T::DeltaAlpha, "ssm_alpha", "linear_attn.in_proj_a"),
    spelled(T::DeltaDecay, "ssm_a", "linear_attn.A_log"),
    spelled(T::DeltaBias, "ssm_dt.bias", "linear_attn.dt_bias"),
    spelled(T::DeltaHeadNorm, "ssm_norm", "linear_attn.norm"),
    spelled(T::DeltaOutput, "ssm_out", "linear_attn.out_proj"),
    // Gemma checkpoints call this norm `post_attention_layernorm`, the name of `FfnNorm` elsewhere.
    spelled(T::AttnOutputNorm, "post_attention_norm", "post_self_attn_layernorm"),
    spelled(T::FfnNorm, "ffn_norm", "post_attention_layernorm"),
    spelled(T::Router, "ffn_gate_inp", "mlp.gate"),
    spelled(T::SharedRouter, "ffn_gate_inp_shexp", "mlp.shared_expert_gate"),
    spelled(T::SharedGate, "ffn_gate_shexp", "mlp.shared_expert.gate_proj"),
    spelled(T::SharedUp, "ffn_up_shexp", "mlp.shared_expert.up_proj"),
    spelled(T::SharedDown, "ffn_down_shexp", "mlp.shared_expert.down_proj"),
    spelled(T::GateInputNorm, "ffn_gate_norm_in", "mlp.gate_proj.norm"),
    spelled(T::Gate, "ffn_gate", "mlp.gate_proj"),
    spelled(T::UpInputNorm, "ffn_up_norm_in", "mlp.up_proj.norm"),
    spelled(T::Up, "ffn_up", "mlp.up_proj"),
    spelled(T::FfnSubNorm, "ffn_sub_norm", "mlp.ffn_sub_norm"),
    spelled(T::Down, "ffn_down", "mlp.down_proj"),
    spelled(T::FfnOutputNorm, "post_ffw_norm", "post_feedforward_layernorm"),
    // Checkpoints have them without a layer in front: see `families::mtp`.
    spelled(T::MtpEmbeddingNorm, "nextn.enorm", "mtp.pre_fc_norm_embedding"),
    spelled(T::MtpHiddenNorm, "nextn.hnorm", "mtp.pre_fc_norm_hidden"),
    spelled(T::MtpInput, "nextn.eh_proj", "mtp.fc"),
    spelled(T::MtpNorm, "nextn.shared_head_norm", "mtp.norm"),
];

/// Names of the sub-norms in GGUF files where every projection norms its own input.
pub(crate) const INPUT_NORMS: &[Spelling] = &[
    spelled(T::AttnSubNorm, "attn_output_norm_in", ""),
    spelled(T::FfnSubNorm, "ffn_down_norm_in", ""),
];

/// Names of a shared expert in checkpoints whose classes have several as one block.
pub(crate) const SHARED_EXPERTS: &[Spelling] = &[
    spelled(T::SharedGate, "ffn_gate_shexp", "mlp.shared_experts.gate_proj"),
    spelled(T::SharedUp, "ffn_up_shexp", "mlp.shared_experts.up_proj"),
    spelled(T::SharedDown, "ffn_down_shexp", "mlp.shared_experts.down_proj"),
];
/// Name of the norm of feed-forward blocks in GGUF files with recurrent mixers.
pub(crate) const HYBRID_NORMS: &[Spelling] =
    &[spelled(T::FfnNorm, "post_attention_norm", "post_attention_layernorm")];

/// Names of the tensors of all experts of a layer as one, in GGUF; of one expert, in checkpoints.
const EXPERTS: [(LayerTensor, &str, &str); 3] = [
    (T::Gate, "ffn_gate_exps", "gate_proj"),
    (T::Up, "ffn_up_exps", "up_proj"),
    (T::Down, "ffn_down_exps", "down_proj"),
];

/// Returns the layer and the projection of a tensor that holds all experts of a GGUF file.
pub(crate) fn joined_experts(name: &str) -> Option<(usize, LayerTensor)> {
    let (layer, part) = layer_and_part(name, "blk.")?;
    let part = part.strip_suffix(".weight")?;
    let (tensor, ..) = EXPERTS.into_iter().find(|(_, joined, _)| *joined == part)?;
    Some((layer, tensor))
}

impl TensorName {
    /// Returns `true` for a matrix of trits.
    pub fn is_linear(self) -> bool {
        match self {
            Self::Layer(_, tensor) => tensor.is_linear(),
            Self::Expert(..) => true,
            Self::Embedding | Self::OutputNorm | Self::Output => false,
        }
    }

    /// Returns `true` for a tensor that is never ternary: a norm, a router, the gate of a shared
    /// expert, or a small part of a recurrent mixer.
    pub fn is_float(self) -> bool {
        match self {
            Self::OutputNorm => true,
            Self::Layer(_, tensor) => !tensor.is_linear() && tensor != T::MtpInput,
            Self::Embedding | Self::Output | Self::Expert(..) => false,
        }
    }

    /// Returns the index of the layer, if the tensor is part of one.
    pub fn layer(self) -> Option<usize> {
        match self {
            Self::Layer(layer, _) | Self::Expert(layer, ..) => Some(layer),
            Self::Embedding | Self::OutputNorm | Self::Output => None,
        }
    }

    /// Returns `true` for a norm, which is a single row of floats.
    pub fn is_norm(self) -> bool {
        match self {
            Self::OutputNorm => true,
            Self::Layer(_, tensor) => tensor.is_norm(),
            Self::Embedding | Self::Output | Self::Expert(..) => false,
        }
    }

    /// Returns `true` for a tensor of one dimension in GGUF files: a norm, the gate of a shared expert, or the
    /// decays and their bias of a recurrent mixer.
    pub fn is_vector(self) -> bool {
        let is_other =
            matches!(self, Self::Layer(_, T::SharedRouter | T::DeltaDecay | T::DeltaBias));
        self.is_norm() || is_other
    }

    /// Name in a GGUF file.
    pub fn gguf(self) -> String {
        match self {
            Self::Embedding => "token_embd.weight".to_owned(),
            Self::OutputNorm => "output_norm.weight".to_owned(),
            Self::Output => "output.weight".to_owned(),
            Self::Layer(layer, tensor) => {
                format!("blk.{layer}.{}{}", tensor.spelling().gguf, tensor.suffix())
            }
            Self::Expert(layer, expert, tensor) => {
                format!("blk.{layer}.{}.{expert}.weight", tensor.spelling().gguf)
            }
        }
    }

    /// Name in a GGUF file of `network`: where every projection norms its own input, the sub-norms are
    /// named as the norms of the other projections are; networks with recurrent mixers name a norm differently.
    pub(crate) fn gguf_in(self, network: &Network) -> String {
        let Self::Layer(layer, tensor) = self else { return self.gguf() };
        let attention = network.layers.get(layer).and_then(Layer::attention);
        let norms_inputs = attention.is_some_and(|attention| attention.input_norm.is_some());
        let of_inputs = INPUT_NORMS.iter().filter(|_| norms_inputs);
        let mut others = of_inputs.chain(HYBRID_NORMS.iter().filter(|_| network.is_recurrent()));
        match others.find(|spelling| spelling.tensor == tensor) {
            Some(spelling) => format!("blk.{layer}.{}.weight", spelling.gguf),
            None => self.gguf(),
        }
    }

    /// Name in a GGUF file of the tensor that holds this one of every expert.
    pub(crate) fn gguf_joined(self) -> Option<String> {
        let Self::Expert(layer, _, tensor) = self else { return None };
        let (_, joined, _) = EXPERTS.into_iter().find(|(known, ..)| *known == tensor)?;
        Some(format!("blk.{layer}.{joined}.weight"))
    }

    /// Name in a Hugging Face checkpoint.
    pub fn hugging_face(self) -> String {
        match self {
            Self::Embedding => "model.embed_tokens.weight".to_owned(),
            Self::OutputNorm => "model.norm.weight".to_owned(),
            Self::Output => "lm_head.weight".to_owned(),
            Self::Layer(layer, tensor) => {
                format!(
                    "model.layers.{layer}.{}{}",
                    tensor.spelling().hugging_face,
                    tensor.suffix()
                )
            }
            Self::Expert(layer, expert, tensor) => {
                let spelling = EXPERTS.into_iter().find(|(known, ..)| *known == tensor);
                let part = spelling.map_or("", |(_, _, part)| part);
                format!("model.layers.{layer}.mlp.experts.{expert}.{part}.weight")
            }
        }
    }

    /// Returns the tensor that [`gguf`](Self::gguf) gives this name.
    pub fn from_gguf(name: &str) -> Option<Self> {
        Self::find(name, Self::gguf, "blk.", STANDARD.iter().map(|s| (s.tensor, s.gguf)))
    }

    /// Returns the tensor with this name, where tensors of a layer have `prefix` and a spelling.
    pub(crate) fn find(
        name: &str,
        outside: fn(Self) -> String,
        prefix: &str,
        mut spellings: impl Iterator<Item = (LayerTensor, &'static str)>,
    ) -> Option<Self> {
        let of_model = [Self::Embedding, Self::OutputNorm, Self::Output];
        if let Some(tensor) = of_model.into_iter().find(|&known| outside(known) == name) {
            return Some(tensor);
        }
        let (layer, part) = layer_and_part(name, prefix)?;
        if let Some((expert, tensor)) = part.strip_suffix(".weight").and_then(expert_and_tensor) {
            return Some(Self::Expert(layer, expert, tensor));
        }
        let is_name = |(tensor, text): &(LayerTensor, &str)| {
            part.strip_suffix(tensor.suffix()) == Some(text) && !text.is_empty()
        };
        spellings.find(is_name).map(|(tensor, _)| Self::Layer(layer, tensor))
    }

    /// Returns every tensor of a network, in the order the network uses them.
    pub fn all(network: &Network) -> impl Iterator<Item = Self> + '_ {
        let layers = network.layers.iter().enumerate().flat_map(|(index, layer)| {
            let tensors = layer_tensors(network.hidden_len, layer);
            let experts = layer.ffn.experts().map_or(0, |experts| experts.experts);
            let of_experts = LayerTensor::EXPERT.into_iter().flat_map(move |tensor| {
                (0..experts).map(move |expert| Self::Expert(index, expert, tensor))
            });
            let of_layer = tensors.into_iter().map(move |(tensor, ..)| Self::Layer(index, tensor));
            of_layer.chain(of_experts)
        });
        let behind = network.layers.len();
        let of_mtp = network.mtp.iter().flat_map(|mtp| mtp_tensors(network.hidden_len, mtp));
        let layers = layers.chain(of_mtp.map(move |(tensor, ..)| Self::Layer(behind, tensor)));
        let head = (!network.head.tied).then_some(Self::Output);
        std::iter::once(Self::Embedding).chain(layers).chain([Self::OutputNorm]).chain(head)
    }

    /// Returns the rows and columns that a network needs the tensor to have, or `None` if it has no
    /// such tensor. A norm is one row.
    pub fn shape(self, network: &Network) -> Option<(usize, usize)> {
        let hidden_len = network.hidden_len;
        match self {
            Self::Embedding => Some((network.vocab_len, hidden_len)),
            Self::Output => (!network.head.tied).then_some((network.vocab_len, hidden_len)),
            Self::OutputNorm => Some((1, hidden_len)),
            Self::Layer(index, tensor) => {
                let tensors = match (network.layers.get(index), &network.mtp) {
                    (Some(layer), _) => layer_tensors(hidden_len, layer),
                    (None, Some(mtp)) if index == network.layers.len() => {
                        mtp_tensors(hidden_len, mtp)
                    }
                    (None, _) => return None,
                };
                let (_, rows, cols) = tensors.into_iter().find(|(known, ..)| *known == tensor)?;
                Some((rows, cols))
            }
            Self::Expert(index, expert, tensor) => {
                let experts = network.layers.get(index)?.ffn.experts()?;
                let ffn_len = experts.expert.ffn_len;
                let inside = expert < experts.experts && LayerTensor::EXPERT.contains(&tensor);
                let into = tensor == T::Down;
                inside.then_some(if into { (hidden_len, ffn_len) } else { (ffn_len, hidden_len) })
            }
        }
    }
}

/// Returns the tensors of a layer with their rows and columns, in the order the layer uses them.
fn layer_tensors(hidden: usize, layer: &Layer) -> Vec<(LayerTensor, usize, usize)> {
    let mut tensors = match &layer.mixer {
        Mixer::Attention(attention) => attention_tensors(hidden, attention),
        Mixer::DeltaNet(delta_net) => delta_net_tensors(hidden, delta_net),
    };
    let mut add = |exists: bool, tensor: T, rows: usize, cols: usize| {
        tensors.extend(exists.then_some((tensor, rows, cols)));
    };
    let &Dense { ffn_len, input_norm, sub_norm, output_norm, .. } = layer.ffn.block();
    add(true, T::FfnNorm, 1, hidden);
    if let Some(experts) = layer.ffn.experts() {
        add(true, T::Router, experts.experts, hidden);
        if let Some(SharedExpert { ffn_len, gated }) = experts.shared {
            add(gated, T::SharedRouter, 1, hidden);
            add(true, T::SharedGate, ffn_len, hidden);
            add(true, T::SharedUp, ffn_len, hidden);
            add(true, T::SharedDown, hidden, ffn_len);
        }
        add(output_norm.is_some(), T::FfnOutputNorm, 1, hidden);
        return tensors;
    }
    add(input_norm.is_some(), T::GateInputNorm, 1, hidden);
    add(true, T::Gate, ffn_len, hidden);
    add(input_norm.is_some(), T::UpInputNorm, 1, hidden);
    add(true, T::Up, ffn_len, hidden);
    add(sub_norm.is_some(), T::FfnSubNorm, 1, ffn_len);
    add(true, T::Down, hidden, ffn_len);
    add(output_norm.is_some(), T::FfnOutputNorm, 1, hidden);
    tensors
}

/// Returns the tensors of a prediction head in the same way.
fn mtp_tensors(hidden: usize, mtp: &Mtp) -> Vec<(LayerTensor, usize, usize)> {
    let mut tensors = vec![
        (T::MtpEmbeddingNorm, 1, hidden),
        (T::MtpHiddenNorm, 1, hidden),
        (T::MtpInput, hidden, hidden.saturating_mul(2)),
    ];
    tensors.extend(layer_tensors(hidden, &mtp.layer));
    tensors.push((T::MtpNorm, 1, hidden));
    tensors
}

fn delta_net_tensors(hidden: usize, d: &DeltaNet) -> Vec<(LayerTensor, usize, usize)> {
    vec![
        (T::AttnNorm, 1, hidden),
        (T::DeltaQkv, d.channels(), hidden),
        (T::DeltaGate, d.value_len(), hidden),
        (T::DeltaConv, d.channels(), d.conv_len),
        (T::DeltaBeta, d.value_heads, hidden),
        (T::DeltaAlpha, d.value_heads, hidden),
        (T::DeltaDecay, 1, d.value_heads),
        (T::DeltaBias, 1, d.value_heads),
        (T::DeltaHeadNorm, 1, d.value_dim),
        (T::DeltaOutput, hidden, d.value_len()),
    ]
}

fn attention_tensors(hidden: usize, a: &Attention) -> Vec<(LayerTensor, usize, usize)> {
    let (query, kv) = (a.query_len(), a.kv_len());
    let mut tensors = Vec::new();
    let mut add = |exists: bool, tensor: T, rows: usize, cols: usize| {
        tensors.extend(exists.then_some((tensor, rows, cols)));
    };
    let (input, heads) = (a.input_norm.is_some(), a.qk_norm.is_some());
    add(true, T::AttnNorm, 1, hidden);
    add(input, T::QueryInputNorm, 1, hidden);
    add(true, T::Query, a.query_rows(), hidden);
    add(heads, T::QueryHeadNorm, 1, a.head_dim);
    add(input, T::KeyInputNorm, 1, hidden);
    add(true, T::Key, kv, hidden);
    add(heads, T::KeyHeadNorm, 1, a.head_dim);
    add(input, T::ValueInputNorm, 1, hidden);
    add(true, T::Value, kv, hidden);
    add(a.sub_norm.is_some(), T::AttnSubNorm, 1, query);
    add(true, T::AttnOutput, hidden, query);
    add(a.output_norm.is_some(), T::AttnOutputNorm, 1, hidden);
    tensors
}

/// Formats the name as in a GGUF file.
impl fmt::Display for TensorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.gguf())
    }
}

/// Splits `ffn_gate.3`, or `mlp.experts.3.gate_proj` of a checkpoint, into 3 and the gate.
fn expert_and_tensor(part: &str) -> Option<(usize, LayerTensor)> {
    if let Some((expert, part)) = layer_and_part(part, "mlp.experts.") {
        let (tensor, ..) = EXPERTS.into_iter().find(|(_, _, known)| *known == part)?;
        return Some((expert, tensor));
    }
    let (stem, number) = part.rsplit_once('.')?;
    let tensor = LayerTensor::EXPERT.into_iter().find(|t| t.spelling().gguf == stem)?;
    Some((canonical_number(number)?, tensor))
}

/// Splits `blk.12.attn_q.weight` into 12 and `attn_q.weight`.
pub(crate) fn layer_and_part<'a>(name: &'a str, prefix: &str) -> Option<(usize, &'a str)> {
    let (number, part) = name.strip_prefix(prefix)?.split_once('.')?;
    Some((canonical_number(number)?, part))
}

/// Parses a number with one spelling: `blk.+1` and `blk.01` would make two names for one tensor.
fn canonical_number(number: &str) -> Option<usize> {
    let canonical =
        number.bytes().all(|b| b.is_ascii_digit()) && (number == "0" || !number.starts_with('0'));
    number.parse().ok().filter(|_| canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        let mut names = vec![TensorName::Embedding, TensorName::OutputNorm, TensorName::Output];
        names.extend(LayerTensor::ALL.map(|tensor| TensorName::Layer(107, tensor)));
        for name in names {
            assert_eq!(TensorName::from_gguf(&name.gguf()), Some(name));
        }
    }

    #[test]
    fn experts_have_a_name_of_their_own_and_one_for_all() {
        for tensor in LayerTensor::EXPERT {
            let name = TensorName::Expert(3, 17, tensor);
            assert_eq!(TensorName::from_gguf(&name.gguf()), Some(name));
            assert_eq!(joined_experts(&name.gguf_joined().unwrap()), Some((3, tensor)));
            let (file, prefix) = (name.hugging_face(), "model.layers.");
            let found = TensorName::find(&file, TensorName::hugging_face, prefix, [].into_iter());
            assert_eq!(found, Some(name), "{file}");
        }
        assert!(TensorName::from_gguf("blk.3.ffn_gate.017.weight").is_none());
        assert!(TensorName::from_gguf("blk.3.attn_q.1.weight").is_none());
        assert!(joined_experts("blk.3.ffn_norm_exps.weight").is_none());
    }

    #[test]
    fn a_layer_number_has_one_spelling() {
        assert!(TensorName::from_gguf("blk.01.attn_q.weight").is_none());
        assert!(TensorName::from_gguf("blk.+1.attn_q.weight").is_none());
        assert!(TensorName::from_gguf("blk..attn_q.weight").is_none());
        assert!(TensorName::from_gguf("blk.99999999999999999999.attn_q.weight").is_none());
        assert!(TensorName::from_gguf("blk.0.attn_q.bias").is_none());
    }
}
