//! The recipe of a network, as data.
//!
//! A family in `formats` turns the keys of a file into a [`Network`], and `model` runs it. Whatever
//! differs between families or between the layers of one network is a value here: attention windows,
//! rotary embeddings, optional norms, the kind of feed-forward block.

mod check;
mod delta_net;
mod hadamard;
mod mtp;

use std::fmt;

pub use self::check::InvalidNetwork;
pub use self::delta_net::{DeltaNet, ValueHeadOrder};
pub use self::hadamard::Hadamard;
pub use self::mtp::Mtp;
use crate::{Rope, RopeDivisors};

/// A decoder network, layer by layer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Number of tokens: rows of the embedding and of the output head.
    pub vocab_len: usize,
    /// Length of a hidden state.
    pub hidden_len: usize,
    /// Turns tokens into hidden states.
    pub embedding: Embedding,
    /// Layers in the order they run.
    pub layers: Vec<Layer>,
    /// Norm between the last layer and the output head.
    pub norm: Norm,
    /// Turns hidden states into logits.
    pub head: Head,
    /// Divisors of the rotary frequencies, for layers that scale by them.
    pub rope_divisors: RopeDivisors,
    /// Factor of what each block adds to the hidden state.
    pub residual_scale: Option<f32>,
    /// Codes that the inputs of ternary products are quantized to.
    pub activations: ActivationCodes,
    /// Transform of the inputs of ternary products, under which weights are stored.
    pub hadamard: Option<Hadamard>,
    /// Multi-token prediction head, which drafts tokens.
    pub mtp: Option<Mtp>,
}

/// Codes of the inputs of ternary products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActivationCodes {
    /// Eight bits with one scale per token, as BitNet models are trained with.
    #[default]
    Int8,
    /// Eight bits with a scale for each group of 128 columns of a token.
    Int8Group,
    /// Sixteen bits with one scale per token, as two rows of eight.
    Int16,
    /// No codes: single precision. The reference for the others, and slow.
    F32,
}

impl ActivationCodes {
    /// All codes.
    pub const ALL: [Self; 4] = [Self::Int8, Self::Int8Group, Self::Int16, Self::F32];

    /// Name on the command line and in files.
    pub fn key(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Int8Group => "int8-group",
            Self::Int16 => "int16",
            Self::F32 => "f32",
        }
    }

    /// Returns the codes with this name.
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codes| codes.key() == key)
    }
}

impl fmt::Display for ActivationCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// The input embedding.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Embedding {
    /// Factor applied to each embedded token.
    pub scale: Option<f32>,
}

/// The output head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    /// True if the head is the embedding table; otherwise it has a table of its own.
    pub tied: bool,
    /// Divisor of the normed hidden states that the head multiplies.
    pub divisor: Option<f32>,
}

impl Default for Head {
    fn default() -> Self {
        Self { tied: true, divisor: None }
    }
}

/// One layer: a sequence mixer, then a feed-forward block, each added to the hidden state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Layer {
    /// Moves information between positions.
    pub mixer: Mixer,
    /// Transforms each position on its own.
    pub ffn: Ffn,
}

impl Layer {
    /// Creates a layer of an attention block and a dense feed-forward block.
    pub fn new(attention: Attention, dense: Dense) -> Self {
        Self { mixer: Mixer::Attention(attention), ffn: Ffn::Dense(dense) }
    }

    /// Returns the attention block of the layer, or `None` if its mixer is recurrent.
    pub fn attention(&self) -> Option<&Attention> {
        match &self.mixer {
            Mixer::Attention(attention) => Some(attention),
            Mixer::DeltaNet(_) => None,
        }
    }

    /// Returns the attention block of the layer, or `None` if its mixer is recurrent.
    pub fn attention_mut(&mut self) -> Option<&mut Attention> {
        match &mut self.mixer {
            Mixer::Attention(attention) => Some(attention),
            Mixer::DeltaNet(_) => None,
        }
    }

    /// Returns the recurrent mixer of the layer, or `None` if it has attention.
    pub fn delta_net(&self) -> Option<&DeltaNet> {
        match &self.mixer {
            Mixer::Attention(_) => None,
            Mixer::DeltaNet(delta_net) => Some(delta_net),
        }
    }

    /// Number of positions that the layer sees; `None` if it sees all of them.
    pub fn window(&self) -> Option<usize> {
        self.attention()?.window
    }

    /// Rotary embedding of the layer's queries and keys, if they rotate.
    pub fn rope(&self) -> Option<Rope> {
        self.attention()?.rope
    }
}

/// The kinds of layers of a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerKinds<'a> {
    /// A layer whose attention sees the whole sequence.
    pub full: Option<&'a Layer>,
    /// A layer whose attention sees a window.
    pub sliding: Option<&'a Layer>,
    /// A layer with a recurrent mixer.
    pub recurrent: Option<&'a Layer>,
}

impl<'a> LayerKinds<'a> {
    /// Returns the layer of the same kind as `layer`.
    fn like(&self, layer: &Layer) -> Option<&'a Layer> {
        match (&layer.mixer, layer.window()) {
            (Mixer::DeltaNet(_), _) => self.recurrent,
            (_, Some(_)) => self.sliding,
            (_, None) => self.full,
        }
    }

    /// Returns a layer that rotates queries and keys, or any layer if none does.
    pub fn rotated(&self) -> Option<&'a Layer> {
        let mut layers = self.full.into_iter().chain(self.sliding);
        let rotated = layers.clone().find(|layer| layer.rope().is_some());
        rotated.or_else(|| layers.next())
    }
}

/// The part of a layer that moves information between positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mixer {
    /// Softmax attention over the KV cache.
    Attention(Attention),
    /// A recurrence over a state of fixed size.
    DeltaNet(DeltaNet),
}

impl Default for Mixer {
    fn default() -> Self {
        Self::Attention(Attention::default())
    }
}

/// An attention block.
///
/// ```text
/// n = norm(h)
/// q, k, v = query(n), key(n), value(n)
/// h += output_norm( output( sub_norm( attend(rope(qk_norm(q)), rope(qk_norm(k)), v) ) ) )
/// ```
///
/// With a gate, `query(n)` has a query and a gate for each head, side by side, and the heads are multiplied by
/// the sigmoid of their gates before the output projection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attention {
    /// Number of query heads.
    pub heads: usize,
    /// Number of key/value heads; query heads share them evenly.
    pub kv_heads: usize,
    /// Length of one head.
    pub head_dim: usize,
    /// Norm of the block's input.
    pub norm: Norm,
    /// Norm that each of the query, key and value projections applies to `n`, with its own weights.
    pub input_norm: Option<Norm>,
    /// Norm of every query head and every key head, before rotation.
    pub qk_norm: Option<Norm>,
    /// Rotary position embedding; `None` leaves queries and keys as they are.
    pub rope: Option<Rope>,
    /// Number of positions a token sees, itself included; `None` sees the whole sequence.
    pub window: Option<usize>,
    /// Factor of the products of queries and keys; `None` divides them by the root of `head_dim`.
    pub score_scale: Option<f32>,
    /// True if every head has a gate, which comes with its query.
    pub gated: bool,
    /// Norm of the concatenated heads, before the output projection.
    pub sub_norm: Option<Norm>,
    /// Norm of the block's output, before it is added to the hidden state.
    pub output_norm: Option<Norm>,
}

impl Attention {
    /// Number of rows of the query projection: those of all query heads, and of their gates.
    pub fn query_rows(&self) -> usize {
        self.query_len().saturating_mul(if self.gated { 2 } else { 1 })
    }

    /// Length of all query heads of a token together.
    pub fn query_len(&self) -> usize {
        self.heads.saturating_mul(self.head_dim)
    }

    /// Length of all key heads, or value heads, of a token together.
    pub fn kv_len(&self) -> usize {
        self.kv_heads.saturating_mul(self.head_dim)
    }
}

/// The feed-forward block of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ffn {
    /// One gated block for every token.
    Dense(Dense),
    /// A router that picks a few blocks for each token.
    Experts(Experts),
}

impl Ffn {
    /// Returns the dense block, or `None` if tokens are routed to experts.
    pub fn dense(&self) -> Option<&Dense> {
        match self {
            Self::Dense(dense) => Some(dense),
            Self::Experts(_) => None,
        }
    }

    /// Returns the mixture of experts, or `None` if every token runs one block.
    pub fn experts(&self) -> Option<&Experts> {
        match self {
            Self::Dense(_) => None,
            Self::Experts(experts) => Some(experts),
        }
    }

    /// Returns the number of neurons of the shared expert; 0 without one.
    pub fn shared_len(&self) -> usize {
        let shared = self.experts().and_then(|experts| experts.shared);
        shared.map_or(0, |shared| shared.ffn_len)
    }

    /// Returns the recipe of the dense block, or of each expert.
    pub fn block(&self) -> &Dense {
        match self {
            Self::Dense(dense) => dense,
            Self::Experts(experts) => &experts.expert,
        }
    }
}

impl Default for Ffn {
    fn default() -> Self {
        Self::Dense(Dense::default())
    }
}

/// A gated feed-forward block.
///
/// ```text
/// n = norm(h)
/// h += output_norm( down( sub_norm( activation(gate(n)) · up(n) ) ) )
/// ```
///
/// With a limit, `gate(n)` is at most the limit, and `up(n)` between the limit and its negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dense {
    /// Number of neurons: length of `gate(n)`.
    pub ffn_len: usize,
    /// Function applied to the gate.
    pub activation: Activation,
    /// Limit of the gate from above, and of `up` on both sides.
    pub limit: Option<f32>,
    /// Norm of the block's input.
    pub norm: Norm,
    /// Norm that each of the gate and up projections applies to `n`, with its own weights.
    pub input_norm: Option<Norm>,
    /// Norm of the gated neurons, before the down projection.
    pub sub_norm: Option<Norm>,
    /// Norm of the block's output, before it is added to the hidden state.
    pub output_norm: Option<Norm>,
}

/// A mixture of experts.
///
/// ```text
/// n = norm(h)
/// p = softmax(router(n)), and of it the `active` largest, equal ones by lower index
/// h += output_norm( Σ p[e] · expert[e](n) + s · shared(n) )
/// ```
///
/// Each expert, and the shared one that some networks have, is a gated block without these norms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experts {
    /// Number of experts.
    pub experts: usize,
    /// Number of experts that run for each token.
    pub active: usize,
    /// True if the shares of the active experts are divided by their sum.
    pub renormalize: bool,
    /// Recipe of one expert.
    pub expert: Dense,
    /// Block that every token runs beside its experts.
    pub shared: Option<SharedExpert>,
}

/// A block like an expert that runs for every token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedExpert {
    /// Number of neurons.
    pub ffn_len: usize,
    /// True if its share in the output is `sigmoid(gate(n))`, where the gate is a row of floats; otherwise it
    /// is 1.
    pub gated: bool,
}

/// A root-mean-square norm with one weight per element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Added to the mean square.
    pub eps: f32,
}

impl Default for Norm {
    fn default() -> Self {
        Self { eps: 1e-5 }
    }
}

/// Activation function of a gated feed-forward block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// Squared ReLU.
    Relu2,
    /// x · sigmoid(x).
    #[default]
    Silu,
    /// x · Φ(x), with Φ approximated by tanh.
    GeluTanh,
}

impl Activation {
    /// All activations.
    pub const ALL: [Self; 3] = [Self::Relu2, Self::Silu, Self::GeluTanh];

    /// Name in `config.json` and in GGUF metadata.
    pub fn key(self) -> &'static str {
        match self {
            Self::Relu2 => "relu2",
            Self::Silu => "silu",
            Self::GeluTanh => "gelu_pytorch_tanh",
        }
    }

    /// Returns the activation that a configuration file names.
    pub fn from_key(key: &str) -> Option<Self> {
        match key {
            "relu_squared" => Some(Self::Relu2),
            "swish" => Some(Self::Silu),
            _ => Self::ALL.into_iter().find(|activation| activation.key() == key),
        }
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Relu2 => "squared ReLU",
            Self::Silu => "SiLU",
            Self::GeluTanh => "GELU",
        })
    }
}

impl Network {
    /// Largest number of layers.
    pub const MAX_LAYERS: usize = 1 << 14;
    /// Largest number of rows of a table.
    pub const MAX_ROWS: usize = i32::MAX as usize;
    /// Longest row multiplied by trits: up to this length every integer sum is exact.
    pub const MAX_WIDTH: usize = 1 << 17;
    /// Largest number of experts of a layer.
    pub const MAX_EXPERTS: usize = 1 << 12;

    /// Returns the layer that all layers equal, or `None` if they differ.
    pub fn uniform_layer(&self) -> Option<&Layer> {
        let (first, others) = self.layers.split_first()?;
        others.iter().all(|layer| layer == first).then_some(first)
    }

    /// Returns the kinds of layers, if each kind is alike, and layers with and without a window differ in
    /// nothing but that and their rotary embeddings.
    pub fn layer_kinds(&self) -> Option<LayerKinds<'_>> {
        let find = |is_kind: fn(&Layer) -> bool| self.layers.iter().find(|layer| is_kind(layer));
        let kinds = LayerKinds {
            full: find(|layer| layer.attention().is_some() && layer.window().is_none()),
            sliding: find(|layer| layer.window().is_some()),
            recurrent: find(|layer| layer.delta_net().is_some()),
        };
        let positions_apart = |layer: &Layer| {
            let mut layer = *layer;
            if let Some(attention) = layer.attention_mut() {
                (attention.window, attention.rope) = (None, None);
            }
            layer
        };
        let alike = match (kinds.full, kinds.sliding) {
            (Some(full), Some(sliding)) => positions_apart(full) == positions_apart(sliding),
            _ => true,
        };
        let of_a_kind = |layer: &Layer| Some(layer) == kinds.like(layer);
        (alike && self.layers.iter().all(of_a_kind)).then_some(kinds)
    }

    /// Changes the blocks of every layer with attention; of a mixture of experts, the recipe of an expert.
    pub fn update_layers(&mut self, change: impl Fn(&mut Attention, &mut Dense)) {
        for layer in &mut self.layers {
            let Mixer::Attention(attention) = &mut layer.mixer else { continue };
            match &mut layer.ffn {
                Ffn::Dense(dense) => change(attention, dense),
                Ffn::Experts(experts) => change(attention, &mut experts.expert),
            }
        }
    }

    /// Number of layers with keys and values in the cache: those with attention, and that of the prediction head
    /// behind them.
    pub fn kv_layers(&self) -> usize {
        self.attentions().count() + usize::from(self.mtp.is_some())
    }

    /// Returns the attention blocks of the layers that have one.
    pub fn attentions(&self) -> impl Iterator<Item = &Attention> {
        self.layers.iter().filter_map(Layer::attention)
    }

    /// Returns `true` if a layer has a recurrent mixer, so that a sequence has a state beside its K and V.
    pub fn is_recurrent(&self) -> bool {
        self.layers.iter().any(|layer| layer.delta_net().is_some())
    }

    /// Largest value of `size` over the attention blocks of all layers.
    pub fn max_attention(&self, size: impl Fn(&Attention) -> usize) -> usize {
        self.attentions().map(size).max().unwrap_or(0)
    }

    /// Largest value of `size` over the recurrent mixers of all layers; 0 without any.
    pub fn max_delta_net(&self, size: impl Fn(&DeltaNet) -> usize) -> usize {
        self.layers.iter().filter_map(Layer::delta_net).map(size).max().unwrap_or(0)
    }

    /// Length of the longest feed-forward block.
    pub fn max_ffn_len(&self) -> usize {
        let len = |layer: &Layer| layer.ffn.block().ffn_len.max(layer.ffn.shared_len());
        self.layers.iter().map(len).max().unwrap_or(0)
    }

    /// Largest value of `size` over the mixtures of experts of all layers; 0 without any.
    pub fn max_experts(&self, size: impl Fn(&Experts) -> usize) -> usize {
        self.layers.iter().filter_map(|layer| layer.ffn.experts()).map(size).max().unwrap_or(0)
    }

    /// Number of trits in all projections.
    pub fn trits(&self) -> usize {
        self.trits_of(|experts| experts.experts)
    }

    /// Number of trits that each token is multiplied by: those of its active experts only.
    pub fn active_trits(&self) -> usize {
        self.trits_of(|experts| experts.active)
    }

    fn trits_of(&self, blocks: impl Fn(&Experts) -> usize) -> usize {
        let trits = |layer: &Layer| {
            let mixer = match &layer.mixer {
                Mixer::Attention(a) => a.query_rows() + a.query_len() + 2 * a.kv_len(),
                Mixer::DeltaNet(delta_net) => delta_net.trit_rows(),
            };
            let blocks = layer.ffn.experts().map_or(1, &blocks);
            mixer + 3 * (blocks * layer.ffn.block().ffn_len + layer.ffn.shared_len())
        };
        self.hidden_len * self.layers.iter().map(trits).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn network() -> Network {
        let attention = Attention {
            heads: 2,
            kv_heads: 1,
            head_dim: 4,
            rope: Some(Rope::default()),
            ..Attention::default()
        };
        let dense = Dense { ffn_len: 8, ..Dense::default() };
        let layers = vec![Layer::new(attention, dense); 2];
        Network { vocab_len: 8, hidden_len: 8, layers, ..Network::default() }
    }

    #[test]
    fn layers_may_differ_in_window_and_rotation() {
        let differ = |network: &mut Network| {
            let a = network.layers[1].attention_mut().unwrap();
            (a.window, a.rope) = (Some(512), None);
        };
        let mut network = network();
        assert!(network.uniform_layer().is_some());
        differ(&mut network);
        assert!(network.uniform_layer().is_none());
        assert_eq!(network.check(), Ok(()));
    }

    #[test]
    fn trits_of_every_expert_are_counted() {
        let mut network = network();
        let dense = network.trits();
        let expert = *network.layers[1].ffn.block();
        let mut experts =
            Experts { experts: 5, active: 2, renormalize: false, expert, shared: None };
        network.layers[1].ffn = Ffn::Experts(experts);
        assert_eq!(network.trits(), dense + 8 * 4 * 3 * 8);
        assert_eq!(network.active_trits(), dense + 8 * 3 * 8);
        experts.shared = Some(SharedExpert { ffn_len: 20, gated: true });
        network.layers[1].ffn = Ffn::Experts(experts);
        assert_eq!(network.trits(), dense + 8 * 3 * (4 * 8 + 20));
        assert_eq!(network.max_ffn_len(), 20);
        assert_eq!(network.max_experts(|experts| experts.active), 2);
    }

    #[test]
    fn layers_of_two_kinds_differ_in_window_and_rotation_only() {
        let mut network = network();
        let kinds = network.layer_kinds().unwrap();
        assert_eq!((kinds.full, kinds.sliding), (network.layers.first(), None));
        let a = network.layers[1].attention_mut().unwrap();
        (a.window, a.rope) = (Some(512), None);
        let kinds = network.layer_kinds().unwrap();
        assert_eq!((kinds.full, kinds.sliding), (network.layers.first(), network.layers.last()));
        assert_eq!(kinds.rotated(), network.layers.first());
        let a = network.layers[1].attention_mut().unwrap();
        a.heads = 4;
        assert_eq!(network.layer_kinds(), None, "heads differ");
        let mut network = self::network();
        let a = network.layers[1].attention_mut().unwrap();
        a.rope = None;
        assert_eq!(network.layer_kinds(), None, "full layers differ");
    }
}
