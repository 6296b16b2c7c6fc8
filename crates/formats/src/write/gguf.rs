//! Any model → GGUF.

use std::path::Path;

use super::file::write_whole;
use super::tokenizer::vocabulary_of;
use super::{float_pieces, projection, tensor};
use crate::config::{Activation, ModelConfig, RotaryPairs};
use crate::encoding::{FloatEncoding, Rounding, TernaryEncoding, encode_trits};
use crate::error::Error;
use crate::gguf::write::{GgufWriter, MetadataValue};
use crate::model_file::ModelFile;
use crate::names::TensorName;
use crate::tensor::Encoding;
use crate::vocabulary::GgufVocabulary;

/// What a GGUF file is to hold.
#[derive(Debug, Clone)]
pub struct GgufTarget {
    /// Encoding of the projections.
    pub trits: TernaryEncoding,
    /// Encoding of the embedding, and of the output head where it is another tensor.
    pub head: FloatEncoding,
    /// Whether scales may be rounded to what the encoding can hold.
    pub rounding: Rounding,
    /// The model's name, if another than the source's.
    pub name: Option<String>,
}

/// Writes a model as a GGUF file.
pub fn write_gguf(source: &ModelFile, target: &GgufTarget, out: &Path) -> Result<(), Error> {
    let config = source.config();
    let (architecture, pairs) = architecture(config);
    let mut writer = GgufWriter::new();
    set_network(&mut writer, config, architecture, target.name.as_deref());
    if let Some(vocabulary) = vocabulary_of(source)? {
        set_vocabulary(&mut writer, source, &vocabulary);
    }
    set_block_diffusion(&mut writer, config, architecture);
    for name in config.tensor_names() {
        let (rows, cols) = config.shape(name);
        let shape = [rows, cols];
        let shape = if name.is_norm() { &shape[1..] } else { &shape[..] };
        writer
            .declare(&name.gguf(), shape, encoding(name, target))
            .map_err(|e| Error::io(out, e))?;
    }
    write_whole(out, |file| {
        let mut body = writer.begin(file).map_err(|e| Error::io(out, e))?;
        for name in config.tensor_names() {
            let info = tensor(source, name);
            match encoding(name, target) {
                Encoding::Ternary(encoding) => {
                    let (trits, scales) = projection(source, info, pairs)?;
                    let rounding = target.rounding;
                    let bytes =
                        encode_trits(encoding, &trits, info.rows, info.cols, &scales, rounding)
                            .map_err(|e| {
                                Error::tensor(source.name(), &info.source_name, info.offset, e)
                            })?;
                    body.append(&bytes).map_err(|e| Error::io(out, e))?;
                }
                Encoding::Float(float)
                | Encoding::MasterWeights(float)
                | Encoding::TernaryFloats(float) => float_pieces(source, info, float, |bytes| {
                    body.append(bytes).map_err(|e| Error::io(out, e))
                })?,
            }
        }
        body.finish().map(drop).map_err(|e| Error::io(out, e))
    })
}

fn encoding(name: TensorName, target: &GgufTarget) -> Encoding {
    if name.is_linear() {
        Encoding::Ternary(target.trits)
    } else if name.is_norm() {
        Encoding::Float(FloatEncoding::F32)
    } else {
        Encoding::Float(target.head)
    }
}

/// The architecture that other readers know this network by, and its order of rotary pairs.
fn architecture(config: &ModelConfig) -> (&'static str, RotaryPairs) {
    match (config.sub_norms, config.activation) {
        (_, Activation::Relu2) => ("bitnet-b1.58", RotaryPairs::Halves),
        (true, Activation::Silu) => ("bitnet", RotaryPairs::Halves),
        (false, Activation::Silu) => ("llama", RotaryPairs::Adjacent),
    }
}

fn set_network(writer: &mut GgufWriter, config: &ModelConfig, arch: &str, name: Option<&str>) {
    let text = |text: &str| MetadataValue::String(text.to_owned());
    writer.set("general.architecture", text(arch));
    if let Some(name) = name.or(config.name.as_deref()) {
        writer.set("general.name", text(name));
    }
    writer.set("general.quantization_version", MetadataValue::U32(2));
    let sizes = [
        ("vocab_size", config.vocab_len),
        ("context_length", config.context_len),
        ("embedding_length", config.hidden_len),
        ("block_count", config.layers),
        ("feed_forward_length", config.ffn_len),
        ("attention.head_count", config.heads),
        ("attention.head_count_kv", config.kv_heads),
        ("attention.key_length", config.head_dim),
        ("attention.value_length", config.head_dim),
        ("rope.dimension_count", config.head_dim),
    ];
    for (key, size) in sizes {
        writer.set(&format!("{arch}.{key}"), number(size));
    }
    let eps = MetadataValue::F32(config.norm_eps);
    writer.set(&format!("{arch}.attention.layer_norm_rms_epsilon"), eps);
    writer.set(&format!("{arch}.rope.freq_base"), MetadataValue::F32(config.rope_theta as f32));
    writer.set(&format!("{arch}.hidden_activation"), text(config.activation.key()));
}

fn set_vocabulary(writer: &mut GgufWriter, source: &ModelFile, vocabulary: &GgufVocabulary) {
    let config = source.config();
    writer.set("tokenizer.ggml.model", MetadataValue::String(vocabulary.model.clone()));
    if let Some(pre) = &vocabulary.pre {
        writer.set("tokenizer.ggml.pre", MetadataValue::String(pre.clone()));
    }
    writer.set("tokenizer.ggml.tokens", MetadataValue::Strings(vocabulary.tokens.clone()));
    let tables = [
        ("token_type", MetadataValue::I32s(vocabulary.token_types.clone())),
        ("merges", MetadataValue::Strings(vocabulary.merges.clone())),
        ("scores", MetadataValue::F32s(vocabulary.scores.clone())),
    ];
    for (key, table) in tables {
        if !table.is_empty() {
            writer.set(&format!("tokenizer.ggml.{key}"), table);
        }
    }
    let ids = [("bos", vocabulary.bos), ("eos", vocabulary.eos), ("eot", vocabulary.eot)];
    for (key, id) in ids {
        if let Some(id) = id {
            writer.set(&format!("tokenizer.ggml.{key}_token_id"), MetadataValue::U32(id));
        }
    }
    if !config.eos.is_empty() {
        // The standard keys have room for two ends and no order; this key of ours keeps all.
        writer.set("tokenizer.ggml.eos_token_ids", MetadataValue::U32s(config.eos.clone()));
    }
    if let Some(add_bos) = vocabulary.add_bos {
        writer.set("tokenizer.ggml.add_bos_token", MetadataValue::Bool(add_bos));
    }
    if let Some(template) = source.chat_template() {
        writer.set("tokenizer.chat_template", MetadataValue::String(template.to_owned()));
    }
}

fn set_block_diffusion(writer: &mut GgufWriter, config: &ModelConfig, arch: &str) {
    let Some(block) = config.block_diffusion else { return };
    writer.set("tokenizer.ggml.mask_token_id", MetadataValue::U32(block.mask_token));
    writer.set("diffusion.shift_logits", MetadataValue::Bool(block.token_shift));
    writer.set(&format!("{arch}.block_size"), number(block.block_len));
    if let Some(len) = block.sub_block_len {
        writer.set(&format!("{arch}.block_diffusion.sub_block_size"), number(len));
    }
    let context = if block.causal_context { "causal" } else { "block" };
    let key = format!("{arch}.block_diffusion.context");
    writer.set(&key, MetadataValue::String(context.to_owned()));
    // llama.cpp's own key. The network is causal where its context is.
    writer.set(&format!("{arch}.attention.causal"), MetadataValue::Bool(block.causal_context));
}

/// A size; opening the source has bounded it by an `i32`.
fn number(size: usize) -> MetadataValue {
    MetadataValue::U32(u32::try_from(size).unwrap_or(u32::MAX))
}
