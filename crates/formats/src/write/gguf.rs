//! Any model → GGUF.

use std::path::Path;

use super::file::{Existing, Staged};
use super::target::{Container, Target};
use super::tokenizer::vocabulary_of;
use super::{Progress, dims, tensor};
use crate::config::{Activation, ModelConfig, RotaryPairs};
use crate::encoding::{FloatEncoding, Rounding, TernaryEncoding};
use crate::error::Error;
use crate::gguf::write::{GgufWriter, MetadataValue};
use crate::model_file::ModelFile;
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

/// Writes a model as a GGUF file, in place of one that is there.
pub fn write_gguf(source: &ModelFile, target: &GgufTarget, out: &Path) -> Result<(), Error> {
    let GgufTarget { trits, head, rounding, name } = target.clone();
    let container = Container::Gguf(trits);
    let existing = Existing::Replace;
    let target = Target { container, head, rounding, name, existing, threads: 1 };
    target.write(source, out)
}

/// Writes a model as a GGUF file whose projections are `trits`.
pub(super) fn stage(
    source: &ModelFile,
    target: &Target,
    trits: TernaryEncoding,
    out: &Path,
    progress: &mut Progress<'_>,
) -> Result<Staged, Error> {
    let config = source.config();
    let io = |e| Error::io(out, e);
    let (architecture, pairs) = architecture(config, trits);
    let mut writer = GgufWriter::new();
    writer.set_network(config, architecture, target.name.as_deref());
    match (vocabulary_of(source)?, config.bos) {
        (Some(vocabulary), _) => writer.set_vocabulary(&vocabulary),
        (None, Some(bos)) => writer.set("tokenizer.ggml.bos_token_id", MetadataValue::U32(bos)),
        (None, None) => {}
    }
    if let Some(template) = source.chat_template() {
        writer.set("tokenizer.chat_template", MetadataValue::String(template.to_owned()));
    }
    let plan = target.plan(source)?;
    for planned in &plan {
        let shape = dims(tensor(source, planned.name));
        let name = planned.name.gguf_in(config);
        writer.declare(&name, &shape, planned.encoding).map_err(io)?;
    }
    let mut carrier = target.carrier(source, pairs, progress);
    Staged::file(out, target.existing, |file| {
        let mut body = writer.begin(file).map_err(io)?;
        for planned in &plan {
            let info = tensor(source, planned.name);
            carrier.copy(info, planned.encoding, |bytes| body.append(bytes).map_err(io))?;
        }
        body.finish().map(drop).map_err(io)?;
        source.check_unchanged()
    })
}

/// The architecture that other readers know this network by, and its order of rotary pairs.
///
/// bitnet.cpp and ik_llama.cpp call the squared ReLU network `bitnet-b1.58`; llama.cpp, whose
/// encodings the others are, has had `bitnet` alone for most of its life.
fn architecture(config: &ModelConfig, trits: TernaryEncoding) -> (&'static str, RotaryPairs) {
    let of_llama_cpp = matches!(
        trits,
        TernaryEncoding::Tq1_0 | TernaryEncoding::Tq2_0 | TernaryEncoding::Q2_0 { .. }
    );
    if config.extra_norms.any() || config.scaled_embedding {
        let arch = if config.scaled_embedding { "gemma3" } else { "qwen3" };
        return (arch, RotaryPairs::Halves);
    }
    match (config.sub_norms, config.activation) {
        (false, Activation::Silu) => ("llama", RotaryPairs::Adjacent),
        (true, Activation::Silu) => ("bitnet", RotaryPairs::Halves),
        (true, Activation::Relu2) if of_llama_cpp => ("bitnet", RotaryPairs::Halves),
        (_, Activation::Relu2) => ("bitnet-b1.58", RotaryPairs::Halves),
        (_, Activation::GeluTanh) => ("gemma3", RotaryPairs::Halves),
    }
}

/// Whole groups of keys, as the reader of this crate and others look for them.
impl GgufWriter {
    /// Sets the keys of the network. `name` is the model's, if another than the configuration says.
    pub fn set_network(&mut self, config: &ModelConfig, arch: &str, name: Option<&str>) {
        let text = |text: &str| MetadataValue::String(text.to_owned());
        self.set("general.architecture", text(arch));
        if let Some(name) = name.or(config.name.as_deref()) {
            self.set("general.name", text(name));
        }
        self.set("general.quantization_version", MetadataValue::U32(2));
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
            self.set(&format!("{arch}.{key}"), number(size));
        }
        let eps = MetadataValue::F32(config.norm_eps);
        self.set(&format!("{arch}.attention.layer_norm_rms_epsilon"), eps);
        self.set(&format!("{arch}.rope.freq_base"), MetadataValue::F32(config.rope_theta as f32));
        self.set(&format!("{arch}.hidden_activation"), text(config.activation.key()));
        if !config.eos.is_empty() {
            // The standard keys have room for two ends and no order; this key of ours keeps all.
            self.set("tokenizer.ggml.eos_token_ids", MetadataValue::U32s(config.eos.clone()));
        }
        if let Some(pooling) = config.pooling {
            self.set(&format!("{arch}.pooling_type"), MetadataValue::U32(pooling.number()));
        }
        self.set_block_diffusion(config, arch);
    }

    fn set_block_diffusion(&mut self, config: &ModelConfig, arch: &str) {
        let Some(block) = config.block_diffusion else { return };
        self.set("tokenizer.ggml.mask_token_id", MetadataValue::U32(block.mask_token));
        self.set("diffusion.shift_logits", MetadataValue::Bool(block.token_shift));
        self.set(&format!("{arch}.block_size"), number(block.block_len));
        if let Some(len) = block.sub_block_len {
            self.set(&format!("{arch}.block_diffusion.sub_block_size"), number(len));
        }
        let context = if block.causal_context { "causal" } else { "block" };
        let key = format!("{arch}.block_diffusion.context");
        self.set(&key, MetadataValue::String(context.to_owned()));
        // llama.cpp's own key. The network is causal where its context is.
        self.set(&format!("{arch}.attention.causal"), MetadataValue::Bool(block.causal_context));
    }

    /// Sets the keys of the vocabulary; tables without entries are left out.
    pub fn set_vocabulary(&mut self, vocabulary: &GgufVocabulary) {
        let GgufVocabulary { model, pre, tokens, token_types, merges, scores, .. } = vocabulary;
        let id = |id: Option<u32>| id.map(MetadataValue::U32);
        let flag = |flag: Option<bool>| flag.map(MetadataValue::Bool);
        let strings =
            |table: &[String]| (!table.is_empty()).then(|| MetadataValue::Strings(table.to_vec()));
        let keys = [
            ("model", Some(MetadataValue::String(model.clone()))),
            ("pre", pre.clone().map(MetadataValue::String)),
            ("tokens", strings(tokens)),
            (
                "token_type",
                (!token_types.is_empty()).then(|| MetadataValue::I32s(token_types.clone())),
            ),
            ("merges", strings(merges)),
            ("scores", (!scores.is_empty()).then(|| MetadataValue::F32s(scores.clone()))),
            ("bos_token_id", id(vocabulary.bos)),
            ("eos_token_id", id(vocabulary.eos)),
            ("eot_token_id", id(vocabulary.eot)),
            ("add_bos_token", flag(vocabulary.add_bos)),
            ("add_eos_token", flag(vocabulary.add_eos)),
            ("add_space_prefix", flag(vocabulary.add_space_prefix)),
        ];
        for (key, value) in keys {
            if let Some(value) = value {
                self.set(&format!("tokenizer.ggml.{key}"), value);
            }
        }
    }
}

/// A size; opening the source has bounded it by an `i32`.
fn number(size: usize) -> MetadataValue {
    MetadataValue::U32(u32::try_from(size).unwrap_or(u32::MAX))
}
