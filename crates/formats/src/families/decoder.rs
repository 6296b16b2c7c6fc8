//! Decoders whose layers are all alike, read from keys that families share.

use wf_core::{
    Activation, ActivationCodes, Attention, Dense, Embedding, Ffn, Head, Layer, Mixer, Network,
    Norm, RotaryPairs,
};

use super::experts;
use super::keys::{Key, Keys};
use super::rope::{ROPE_DIM, rope, rotated_dims};
use crate::error::{Error, quote_safely};
use crate::names::LayerTensor as T;

const HIDDEN: Key = Key::new("embedding_length", "hidden_size");
const FFN: Key = Key::new("feed_forward_length", "intermediate_size");
const LAYERS: Key = Key::new("block_count", "num_hidden_layers");
const HEADS: Key = Key::new("attention.head_count", "num_attention_heads");
const KV_HEADS: Key = Key::new("attention.head_count_kv", "num_key_value_heads");
const HEAD_DIM: Key = Key::new("attention.key_length", "head_dim");
const VALUE_DIM: Key = Key::gguf("attention.value_length");
const EPS: Key = Key::new("attention.layer_norm_rms_epsilon", "rms_norm_eps");
const WINDOW: Key = Key::gguf("attention.sliding_window");
const TIED: Key = Key::json("tie_word_embeddings");

const ACTIVATION_CODES: Key = Key::new("activation_codes", "activation_codes");

/// Epsilon of files in GGUF that name none.
const GGUF_EPS: f64 = 1e-5;

/// Values that the `transformers` class of a family takes where `config.json` has none.
#[derive(Clone, Copy)]
pub(super) struct Defaults {
    pub(super) eps: f64,
    pub(super) theta: f64,
    /// Codes of activations in files that name none.
    pub(super) activations: ActivationCodes,
    /// True if the family reads windows of layers, which are otherwise rejected.
    pub(super) windows: bool,
    /// True if part of a head may rotate.
    pub(super) partial_rotation: bool,
}

impl Defaults {
    /// The values of Llama.
    pub(super) const LLAMA: Self = Self {
        eps: 1e-6,
        theta: 10_000.0,
        activations: ActivationCodes::Int8,
        windows: false,
        partial_rotation: false,
    };
}

/// Reads a network of equal layers with dense blocks. The optional norms are those whose tensors the file
/// has.
pub(super) fn decoder(
    keys: &mut Keys<'_>,
    activation: Activation,
    pairs: RotaryPairs,
    defaults: Defaults,
) -> Result<Network, Error> {
    decoder_with(keys, activation, pairs, defaults, dense_block)
}

/// As [`decoder`], where `ffn` completes the recipe of the feed-forward blocks.
pub(super) fn decoder_with(
    keys: &mut Keys<'_>,
    activation: Activation,
    pairs: RotaryPairs,
    defaults: Defaults,
    ffn: impl FnOnce(&mut Keys<'_>, Dense) -> Result<Ffn, Error>,
) -> Result<Network, Error> {
    reject_unsupported(keys, defaults.windows)?;
    let hidden_len = keys.size(HIDDEN)?;
    let heads = keys.size(HEADS)?;
    let eps = if keys.is_gguf() { GGUF_EPS } else { defaults.eps };
    let norm = Norm { eps: keys.number_or(EPS, eps, "norm epsilon")? as f32 };
    let has = |tensors: &[T]| keys.evidence.has_any(tensors).then_some(norm);
    let input_norm = has(&[
        T::QueryInputNorm,
        T::KeyInputNorm,
        T::ValueInputNorm,
        T::GateInputNorm,
        T::UpInputNorm,
    ]);
    // If one projection norms its input, all do: sub-norms are the input norms of the other two.
    let sub_norm = has(&[T::AttnSubNorm, T::FfnSubNorm]).or(input_norm);
    let output_norm = has(&[T::AttnOutputNorm, T::FfnOutputNorm]);
    let qk_norm = has(&[T::QueryHeadNorm, T::KeyHeadNorm]);
    let head_dim = head_dim(keys, hidden_len, heads)?;
    let (mut rope, rope_divisors) = rope(keys, pairs, defaults.theta)?;
    rope.dims = rotated_dims(keys, head_dim, defaults.partial_rotation)?;
    let attention = Attention {
        heads,
        kv_heads: keys.optional_size(KV_HEADS)?.unwrap_or(heads),
        head_dim,
        norm,
        input_norm,
        qk_norm,
        rope: Some(rope),
        window: None,
        score_scale: None,
        gated: false,
        sub_norm,
        output_norm,
    };
    let dense = Dense { activation, norm, input_norm, sub_norm, output_norm, ..Dense::default() };
    let layer = Layer { mixer: Mixer::Attention(attention), ffn: ffn(keys, dense)? };
    Ok(Network {
        vocab_len: keys.evidence.vocab_len,
        hidden_len,
        embedding: Embedding::default(),
        layers: vec![layer; layers(keys)?],
        norm,
        head: Head { tied: !keys.evidence.has_output, divisor: None },
        rope_divisors,
        residual_scale: None,
        activations: activations(keys, defaults.activations)?,
        hadamard: None,
        mtp: None,
    })
}

fn reject_unsupported(keys: &Keys<'_>, windows: bool) -> Result<(), Error> {
    for name in ["attention_bias", "mlp_bias", "rope_interleaved"] {
        if keys.flag(Key::json(name))? == Some(true) {
            return Err(keys.fault(Key::json(name), "true is not supported"));
        }
    }
    let window = keys.optional_size(WINDOW)?.filter(|&window| window != 0);
    if let Some(window) = window.filter(|_| !windows) {
        return Err(keys.fault(WINDOW, format!("{window}, attention windows are not supported")));
    }
    if !keys.evidence.has_output && keys.flag(TIED)? == Some(false) {
        return Err(keys.fault(TIED, "false, but there is no tensor \"lm_head.weight\""));
    }
    Ok(())
}

/// Reads the number of layers, bounded before anything is allocated for them.
fn layers(keys: &Keys<'_>) -> Result<usize, Error> {
    let layers = keys.size(LAYERS)?;
    if layers > Network::MAX_LAYERS {
        let what = format!("{layers}, must be between 1 and {}", Network::MAX_LAYERS);
        return Err(keys.fault(LAYERS, what));
    }
    Ok(layers)
}

fn dense_block(keys: &mut Keys<'_>, dense: Dense) -> Result<Ffn, Error> {
    if let Some((key, experts)) = experts::count(keys)?.filter(|&(_, experts)| experts > 0) {
        let name = keys.architecture.unwrap_or(keys.family.class());
        let what = format!("{experts}, experts are not supported in {name}");
        return Err(keys.fault(key, what));
    }
    Ok(Ffn::Dense(Dense { ffn_len: keys.size(FFN)?, ..dense }))
}

/// Reads the codes of activations, for which only files written by `wf` have a key. Floats that nothing
/// says how to quantize are run by `transformers` with activations in floats.
fn activations(keys: &Keys<'_>, default: ActivationCodes) -> Result<ActivationCodes, Error> {
    let default = if keys.evidence.runs_as_floats { ActivationCodes::Int16 } else { default };
    let Some(name) = keys.text(ACTIVATION_CODES)? else { return Ok(default) };
    ActivationCodes::from_key(name).ok_or_else(|| {
        let known = ActivationCodes::ALL.map(ActivationCodes::key).join(", ");
        let what = format!("\"{}\", must be one of {known}", quote_safely(name));
        keys.fault(ACTIVATION_CODES, what)
    })
}

fn head_dim(keys: &Keys<'_>, hidden_len: usize, heads: usize) -> Result<usize, Error> {
    let divided = hidden_len.checked_div(heads).filter(|_| hidden_len.is_multiple_of(heads));
    let named = keys.optional_size(HEAD_DIM)?.or(divided).or(keys.optional_size(ROPE_DIM)?);
    let Some(head_dim) = named else {
        let what = format!("{heads}, must divide the hidden size {hidden_len}");
        return Err(keys.fault(HEADS, what));
    };
    if let Some(len) = keys.optional_size(VALUE_DIM)?.filter(|&len| len != head_dim) {
        return Err(keys.fault(VALUE_DIM, format!("{len}, must equal the head size {head_dim}")));
    }
    Ok(head_dim)
}
