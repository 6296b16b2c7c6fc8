//! What the network is: its sizes and constants, from whichever file tells them.
//!
//! [`gguf`] reads GGUF metadata, [`hugging_face`] reads `config.json`. Both end in [`ModelConfig`],
//! and both go through [`ModelConfig::check`], so that nothing downstream meets a number that cannot
//! be.

pub(crate) mod gguf;
pub(crate) mod hugging_face;
mod pooling;
pub(crate) mod settings;

pub use pooling::Pooling;

use crate::error::Error;
use crate::names::{LayerTensor, NormGroup, TensorName};

/// What a refusal of plain float weights ends with.
pub(crate) const NAIVE_HINT: &str =
    "--naive rounds it all the same, for speed tests only: what it writes is nonsense";

/// What decides about the network besides its configuration.
pub(crate) struct Evidence {
    /// Rows of the embedding.
    pub(crate) vocab_len: usize,
    /// Whether there is an output head of its own.
    pub(crate) has_output: bool,
    /// Whether there are sub-norms.
    pub(crate) sub_norms: bool,
    /// Which other norms there are.
    pub(crate) extra_norms: ExtraNorms,
    /// The caller's word, which beats the file's and any guess.
    pub(crate) activation: Option<Activation>,
}

impl Evidence {
    /// Looks at every tensor's name and rows; `None` if there is no embedding.
    pub(crate) fn of(
        tensors: impl Iterator<Item = (TensorName, usize)>,
        activation: Option<Activation>,
    ) -> Option<Self> {
        let (mut vocab_len, mut has_output, mut sub_norms) = (None, false, false);
        let mut extra_norms = ExtraNorms::default();
        for (name, rows) in tensors {
            match name {
                TensorName::Embedding => vocab_len = Some(rows),
                TensorName::Output => has_output = true,
                TensorName::Layer(_, tensor) => match tensor.norm_group() {
                    Some(NormGroup::Sub) => sub_norms = true,
                    Some(NormGroup::Inputs) => extra_norms.inputs = true,
                    Some(NormGroup::Heads) => extra_norms.heads = true,
                    Some(NormGroup::Outputs) => extra_norms.outputs = true,
                    None => {}
                },
                TensorName::OutputNorm => {}
            }
        }
        Some(Self { vocab_len: vocab_len?, has_output, sub_norms, extra_norms, activation })
    }
}

/// Sizes and constants of the network.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Architecture as the file names it.
    pub architecture: String,
    /// Name of the model, where the file has one.
    pub name: Option<String>,
    /// Rows of the embedding.
    pub vocab_len: usize,
    /// Width of the residual stream.
    pub hidden_len: usize,
    /// Width of the feed-forward part.
    pub ffn_len: usize,
    /// How many layers.
    pub layers: usize,
    /// Query heads of a layer.
    pub heads: usize,
    /// Key and value heads of a layer.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Longest sequence the model was trained for.
    pub context_len: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Which dimensions of a head turn together.
    pub rotary_pairs: RotaryPairs,
    /// Added to the mean square inside every norm.
    pub norm_eps: f32,
    /// The function on the gate.
    pub activation: Activation,
    /// Whether there are norms before the attention output and down projections.
    pub sub_norms: bool,
    /// Which norms there are beyond those of BitNet models.
    pub extra_norms: ExtraNorms,
    /// Whether a token's embedding is multiplied by the root of its length.
    pub scaled_embedding: bool,
    /// Whether the embedding is the output head too.
    pub tied_head: bool,
    /// First token of a sequence.
    pub bos: Option<u32>,
    /// Tokens that end a reply.
    pub eos: Vec<u32>,
    /// How the model fills a block of masks, if it was trained to.
    pub block_diffusion: Option<BlockDiffusion>,
    /// How its makers want embeddings to be made, where they say.
    pub pooling: Option<Pooling>,
}

/// Norms that only some model families have, in all layers or in none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExtraNorms {
    /// Whether query, key, value, gate and up projections norm what they read once more, each with
    /// weights of its own.
    pub inputs: bool,
    /// Whether queries and keys are normed, head by head, before they are turned.
    pub heads: bool,
    /// Whether what attention and the feed-forward part give is normed before it is added.
    pub outputs: bool,
}

impl ExtraNorms {
    /// Whether there is any.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// Which dimensions of a head the rotary embedding turns together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotaryPairs {
    /// i and i + head_dim / 2, as in Hugging Face checkpoints.
    Halves,
    /// 2i and 2i + 1, as in GGUF files of the `llama` architecture.
    Adjacent,
}

impl RotaryPairs {
    /// Which row of a query or key projection in the other order is `row` in this one.
    #[expect(clippy::arithmetic_side_effects, reason = "`check` has bounded both numbers")]
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

/// The function on the gate of the feed-forward part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// Squared ReLU.
    Relu2,
    /// x · sigmoid(x).
    Silu,
    /// x · Φ(x), where Φ is approximated by tanh.
    GeluTanh,
}

impl std::fmt::Display for Activation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Relu2 => "squared ReLU",
            Self::Silu => "SiLU",
            Self::GeluTanh => "GELU",
        })
    }
}

impl Activation {
    /// The name `config.json` and our GGUF key use.
    pub fn key(self) -> &'static str {
        match self {
            Self::Relu2 => "relu2",
            Self::Silu => "silu",
            Self::GeluTanh => "gelu_pytorch_tanh",
        }
    }

    pub(crate) fn from_key(key: &str) -> Option<Self> {
        match key {
            "relu2" | "relu_squared" => Some(Self::Relu2),
            "silu" | "swish" => Some(Self::Silu),
            "gelu_pytorch_tanh" => Some(Self::GeluTanh),
            _ => None,
        }
    }
}

/// How a model fills blocks of mask tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockDiffusion {
    /// The token that stands for "not yet known".
    pub mask_token: u32,
    /// Tokens of a block.
    pub block_len: usize,
    /// Tokens of the parts a block is filled in, where the model names them.
    pub sub_block_len: Option<usize>,
    /// Whether row p scores the token at p + 1 (and not the token at p).
    pub token_shift: bool,
    /// Whether finished tokens attend causally (and not to their whole block).
    pub causal_context: bool,
}

/// Largest dimension we accept: kernels may hold a dimension in an `i32`.
const MAX_DIM: usize = i32::MAX as usize;

/// Longest row that is multiplied by trits: up to here every sum over a row is exact.
const MAX_WIDTH: usize = 1 << 17;

impl ModelConfig {
    /// Refuses sizes that no network can have; `file` and the keys are for the message.
    pub(crate) fn check(&self, file: &str) -> Result<(), Error> {
        let sizes = [
            ("vocabulary size", self.vocab_len, MAX_DIM),
            ("hidden size", self.hidden_len, MAX_WIDTH),
            ("feed-forward size", self.ffn_len, MAX_WIDTH),
            ("number of layers", self.layers, MAX_DIM),
            ("number of heads", self.heads, MAX_WIDTH),
            ("number of key/value heads", self.kv_heads, MAX_WIDTH),
            ("head size", self.head_dim, MAX_WIDTH),
            ("context length", self.context_len, MAX_DIM),
        ];
        for (what, value, most) in sizes {
            if value == 0 || value > most {
                return Err(Error::setting(file, what, format!("{value}, allowed 1 to {most}")));
            }
        }
        let refuse = |key: &str, what: String| Err(Error::setting(file, key, what));
        if !self.heads.is_multiple_of(self.kv_heads) {
            let what = format!("{} query heads do not share them evenly", self.heads);
            return refuse(&format!("{} key/value heads", self.kv_heads), what);
        }
        if !self.head_dim.is_multiple_of(2) {
            let what = format!("{}, must be even: dimensions turn in pairs", self.head_dim);
            return refuse("head size", what);
        }
        if self.heads.checked_mul(self.head_dim).is_none_or(|len| len > MAX_WIDTH) {
            let (heads, len) = (self.heads, self.head_dim);
            let what = format!("{heads} heads of {len}, together at most {MAX_WIDTH} are allowed");
            return refuse("number of heads", what);
        }
        if !(self.rope_theta.is_finite() && self.rope_theta > 0.0) {
            return refuse(
                "rotary base",
                format!("{}, must be a positive number", self.rope_theta),
            );
        }
        if !(self.norm_eps > 0.0 && self.norm_eps < 1.0) {
            return refuse("norm epsilon", format!("{}, must be between 0 and 1", self.norm_eps));
        }
        self.check_tokens(file)
    }

    fn check_tokens(&self, file: &str) -> Result<(), Error> {
        let mask = self.block_diffusion.map(|b| ("mask token", b.mask_token));
        let named = self.bos.map(|id| ("bos token", id));
        let eos = self.eos.iter().map(|&id| ("eos token", id));
        for (what, id) in named.into_iter().chain(eos).chain(mask) {
            if usize::try_from(id).is_ok_and(|id| id < self.vocab_len) {
                continue;
            }
            let limit = format!("{id}, the vocabulary has {} tokens", self.vocab_len);
            return Err(Error::setting(file, what, limit));
        }
        let Some(block) = self.block_diffusion else { return Ok(()) };
        if block.block_len == 0 || block.block_len > self.context_len {
            let what = format!("{}, allowed 1 to {}", block.block_len, self.context_len);
            return Err(Error::setting(file, "block size", what));
        }
        match block.sub_block_len {
            Some(len) if len == 0 || !block.block_len.is_multiple_of(len) => {
                let what = format!("{len}, must divide the block size {}", block.block_len);
                Err(Error::setting(file, "sub-block size", what))
            }
            _ => Ok(()),
        }
    }

    /// Rows and columns the network needs a tensor to have; a norm is one row.
    pub fn shape(&self, name: TensorName) -> (usize, usize) {
        // `check` has bounded both products.
        let queries = self.heads.saturating_mul(self.head_dim);
        let keys = self.kv_heads.saturating_mul(self.head_dim);
        match name {
            TensorName::Embedding | TensorName::Output => (self.vocab_len, self.hidden_len),
            TensorName::OutputNorm => (1, self.hidden_len),
            TensorName::Layer(_, tensor) => match tensor {
                LayerTensor::AttnNorm
                | LayerTensor::FfnNorm
                | LayerTensor::QueryInputNorm
                | LayerTensor::KeyInputNorm
                | LayerTensor::ValueInputNorm
                | LayerTensor::GateInputNorm
                | LayerTensor::UpInputNorm
                | LayerTensor::AttnOutputNorm
                | LayerTensor::FfnOutputNorm => (1, self.hidden_len),
                LayerTensor::QueryHeadNorm | LayerTensor::KeyHeadNorm => (1, self.head_dim),
                LayerTensor::AttnSubNorm => (1, queries),
                LayerTensor::FfnSubNorm => (1, self.ffn_len),
                LayerTensor::Query => (queries, self.hidden_len),
                LayerTensor::Key | LayerTensor::Value => (keys, self.hidden_len),
                LayerTensor::AttnOutput => (self.hidden_len, queries),
                LayerTensor::Gate | LayerTensor::Up => (self.ffn_len, self.hidden_len),
                LayerTensor::Down => (self.hidden_len, self.ffn_len),
            },
        }
    }

    /// Whether a layer has this tensor.
    fn has(&self, tensor: LayerTensor) -> bool {
        match tensor.norm_group() {
            None => true,
            Some(NormGroup::Sub) => self.sub_norms,
            Some(NormGroup::Inputs) => self.extra_norms.inputs,
            Some(NormGroup::Heads) => self.extra_norms.heads,
            Some(NormGroup::Outputs) => self.extra_norms.outputs,
        }
    }

    /// Every tensor the network needs, in the order it uses them.
    pub fn tensor_names(&self) -> impl Iterator<Item = TensorName> + '_ {
        let head = (!self.tied_head).then_some(TensorName::Output);
        let layers = (0..self.layers).flat_map(move |layer| {
            LayerTensor::ALL
                .into_iter()
                .filter(|tensor| self.has(*tensor))
                .map(move |tensor| TensorName::Layer(layer, tensor))
        });
        std::iter::once(TensorName::Embedding)
            .chain(layers)
            .chain([TensorName::OutputNorm])
            .chain(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ModelConfig {
        ModelConfig {
            architecture: "bitnet".to_owned(),
            name: None,
            vocab_len: 8,
            hidden_len: 8,
            ffn_len: 8,
            layers: 1,
            heads: 2,
            kv_heads: 1,
            head_dim: 4,
            context_len: 8,
            rope_theta: 1e4,
            rotary_pairs: RotaryPairs::Halves,
            norm_eps: 1e-5,
            activation: Activation::Relu2,
            sub_norms: true,
            tied_head: true,
            bos: None,
            eos: Vec::new(),
            block_diffusion: None,
            extra_norms: ExtraNorms::default(),
            scaled_embedding: false,
            pooling: None,
        }
    }

    #[test]
    fn rows_too_long_for_exact_sums_are_refused() {
        let refused = |change: fn(&mut ModelConfig)| {
            let mut config = config();
            change(&mut config);
            config.check("m").map_err(|error| error.to_string())
        };
        assert_eq!(refused(|c| c.ffn_len = 1 << 17), Ok(()));
        let message = refused(|c| c.ffn_len = (1 << 17) + 1).unwrap_err();
        assert_eq!(message, "m: feed-forward size: 131073, allowed 1 to 131072");
        assert!(refused(|c| c.hidden_len = 1 << 18).is_err());
        let message = refused(|c| (c.heads, c.head_dim) = (1 << 12, 64)).unwrap_err();
        assert!(message.contains("4096 heads of 64, together at most 131072"), "{message}");
    }
}
