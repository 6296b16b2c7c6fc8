//! Writes a model as GGUF.

use wf_core::{Network, ValueHeadOrder, Vocabulary};

use super::copy::Copier;
use super::family::{WrittenFamily, blocks, experts};
use super::file::Staged;
use super::tokenizer::vocabulary_of;
use super::{Job, dims, layers, rope};
use crate::config::ModelInfo;
use crate::encoding::{FloatEncoding, TernaryEncoding};
use crate::error::Error;
use crate::gguf::hadamard;
use crate::gguf::write::{GgufWriter, MetadataValue};
use crate::names::TensorName;
use crate::tensor::Encoding;
use crate::text::GenerationDefaults;

/// Writes a model as a GGUF file whose projections are `trits`.
pub(super) fn stage(
    job: &Job<'_>,
    trits: TernaryEncoding,
    mut copier: Copier<'_>,
) -> Result<Staged, Error> {
    let &Job { source, target, out, .. } = job;
    let (network, info) = (source.network(), source.info());
    let io = |e| Error::io(out, e);
    let family = WrittenFamily::of(network);
    let (architecture, pairs) = family.gguf(network, trits);
    copier.pairs = pairs;
    copier.value_heads = Some(ValueHeadOrder::Tiled);
    let mut writer = GgufWriter::new();
    writer.set_network(network, info, architecture, target.name.as_deref());
    match (vocabulary_of(source)?, info.bos) {
        (Some(vocabulary), _) => writer.set_vocabulary(&vocabulary),
        (None, Some(bos)) => writer.set("tokenizer.ggml.bos_token_id", MetadataValue::U32(bos)),
        (None, None) => {}
    }
    if let Some(template) = source.chat_template() {
        writer.set("tokenizer.chat_template", MetadataValue::String(template.to_owned()));
    }
    set_sampling(&mut writer, source.generation_defaults());
    for (planned, info) in job.tensors() {
        let (name, dims) = match (planned.name, planned.name.gguf_joined()) {
            // The data of the other experts follows, because the plan lists them in order.
            (TensorName::Expert(_, 1.., _), _) => continue,
            (_, Some(joined)) => {
                let experts = experts(network).map_or(1, |experts| experts.experts);
                (joined, vec![experts, info.rows, info.cols])
            }
            (name, None) => (name.gguf_in(network), dims(info)),
        };
        writer.declare(&name, &dims, planned.encoding).map_err(io)?;
    }
    let rope_tensors = rope::gguf_tensors(network);
    for (name, divisors) in &rope_tensors {
        let encoding = Encoding::Float(FloatEncoding::F32);
        writer.declare(name, &[divisors.len()], encoding).map_err(io)?;
    }
    Staged::file(out, target.if_exists, |file| {
        let mut body = writer.begin(file).map_err(io)?;
        for (planned, info) in job.tensors() {
            copier.copy(info, planned.encoding, |bytes| body.append(bytes).map_err(io))?;
        }
        for (_, divisors) in &rope_tensors {
            let bytes: Vec<u8> = divisors.iter().flat_map(|value| value.to_le_bytes()).collect();
            body.append(&bytes).map_err(io)?;
        }
        body.finish().map(drop).map_err(io)?;
        source.check_unchanged()
    })
}

/// Sets the recommended sampling parameters under llama.cpp's keys.
fn set_sampling(writer: &mut GgufWriter, defaults: GenerationDefaults) {
    let floats = [
        ("temp", defaults.temperature),
        ("top_p", defaults.top_p),
        ("min_p", defaults.min_p),
        ("penalty_repeat", defaults.repetition_penalty),
    ];
    for (key, value) in floats.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        writer.set(&format!("general.sampling.{key}"), MetadataValue::F32(value as f32));
    }
    if let Some(k) = defaults.top_k {
        writer.set("general.sampling.top_k", number(k));
    }
}

/// Groups of keys that readers expect together.
impl GgufWriter {
    /// Sets the keys of a network and its model. `name` replaces the name in `info`.
    ///
    /// # Panics
    ///
    /// If the layers of `network` differ in more than windows and rotation.
    pub fn set_network(
        &mut self,
        network: &Network,
        info: &ModelInfo,
        arch: &str,
        name: Option<&str>,
    ) {
        let family = WrittenFamily::of(network);
        let (attention, dense) = blocks(network);
        let rotated = attention.rope.and_then(|rope| rope.dims).unwrap_or(attention.head_dim);
        let text = |text: &str| MetadataValue::String(text.to_owned());
        self.set("general.architecture", text(arch));
        if let Some(name) = name.or(info.name.as_deref()) {
            self.set("general.name", text(name));
        }
        self.set("general.quantization_version", MetadataValue::U32(2));
        let sizes = [
            ("vocab_size", network.vocab_len),
            ("context_length", info.context_len),
            ("embedding_length", network.hidden_len),
            ("block_count", network.layers.len() + usize::from(network.mtp.is_some())),
            ("feed_forward_length", dense.ffn_len),
            ("attention.head_count", attention.heads),
            ("attention.head_count_kv", attention.kv_heads),
            ("attention.key_length", attention.head_dim),
            ("attention.value_length", attention.head_dim),
            ("rope.dimension_count", rotated),
        ];
        for (key, size) in sizes {
            self.set(&format!("{arch}.{key}"), number(size));
        }
        if let Some(experts) = experts(network) {
            let sizes = [
                ("expert_count", experts.experts),
                ("expert_used_count", experts.active),
                ("expert_feed_forward_length", experts.expert.ffn_len),
            ];
            for (key, size) in sizes {
                self.set(&format!("{arch}.{key}"), number(size));
            }
            if let Some(shared) = experts.shared {
                let key = format!("{arch}.expert_shared_feed_forward_length");
                self.set(&key, number(shared.ffn_len));
            }
            let renormalize = MetadataValue::Bool(experts.renormalize);
            self.set(&format!("{arch}.expert_weights_norm"), renormalize);
        }
        let eps = MetadataValue::F32(network.norm.eps);
        self.set(&format!("{arch}.attention.layer_norm_rms_epsilon"), eps);
        if let Some(rope) = attention.rope {
            self.set(&format!("{arch}.rope.freq_base"), MetadataValue::F32(rope.theta as f32));
            for (key, value) in rope::gguf_keys(&rope.scaling) {
                self.set(&format!("{arch}.{key}"), value);
            }
        }
        self.set(&format!("{arch}.hidden_activation"), text(dense.activation.key()));
        for (key, scale) in [
            ("embedding_scale", network.embedding.scale),
            ("residual_scale", network.residual_scale),
            ("logit_scale", network.head.divisor),
        ] {
            // Readers of Gemma3 compute its embedding scale.
            if let Some(scale) = scale.filter(|_| family == WrittenFamily::MiniCpm) {
                self.set(&format!("{arch}.{key}"), MetadataValue::F32(scale));
            }
        }
        for (key, value) in layers::gguf_keys(network, family) {
            self.set(&format!("{arch}.{key}"), value);
        }
        if family.names_codes(network) {
            self.set(&format!("{arch}.activation_codes"), text(network.activations.key()));
        }
        if !info.eos.is_empty() {
            // The standard keys hold two end tokens; this one, specific to `wf`, holds all in order.
            self.set("tokenizer.ggml.eos_token_ids", MetadataValue::U32s(info.eos.clone()));
        }
        if let Some(pooling) = info.pooling {
            self.set(&format!("{arch}.pooling_type"), MetadataValue::U32(pooling.number()));
        }
        self.set_block_diffusion(info, arch);
        self.set_hadamard(network);
    }

    /// Sets the keys of PrismML's fork of llama.cpp for weights under a transform.
    fn set_hadamard(&mut self, network: &Network) {
        let Some(transform) = &network.hadamard else { return };
        let mut set = |name: &str, value| self.set(&hadamard::key(name), value);
        let text = |text: &str| MetadataValue::String(text.to_owned());
        let is_under =
            |name: &TensorName| name.is_linear() || (*name == TensorName::Output && transform.head);
        let weights = TensorName::all(network).filter(is_under);
        let weights = weights.map(|name| name.gguf_in(network)).collect();
        set("version", MetadataValue::U32(1));
        set("block_size", number(transform.block_len));
        set("transform", text(hadamard::TRANSFORM));
        set("axis", text(hadamard::AXIS));
        set("weight_names", MetadataValue::Strings(weights));
        if transform.embedding {
            let table = TensorName::Embedding.gguf_in(network);
            set("inverse_weight_names", MetadataValue::Strings(vec![table]));
        }
        set("sign_mode", text(if transform.signs.is_empty() { "identity" } else { "explicit" }));
        if !transform.signs.is_empty() {
            let len = |signs: &Vec<i8>| i32::try_from(signs.len()).unwrap_or(i32::MAX);
            let signs = transform.signs.iter().flatten().map(|&sign| i32::from(sign)).collect();
            let lens = transform.signs.iter().map(len).collect();
            set("sign_widths", MetadataValue::I32s(lens));
            set("sign_values", MetadataValue::I32s(signs));
        }
        set("gdn_v_grouped", MetadataValue::Bool(transform.grouped_values));
    }

    fn set_block_diffusion(&mut self, info: &ModelInfo, arch: &str) {
        let Some(block) = info.block_diffusion else { return };
        self.set("tokenizer.ggml.mask_token_id", MetadataValue::U32(block.mask_token));
        self.set("diffusion.shift_logits", MetadataValue::Bool(block.token_shift));
        self.set(&format!("{arch}.block_size"), number(block.block_len));
        if let Some(len) = block.sub_block_len {
            self.set(&format!("{arch}.block_diffusion.sub_block_size"), number(len));
        }
        let context = if block.causal_context { "causal" } else { "block" };
        let key = format!("{arch}.block_diffusion.context");
        self.set(&key, MetadataValue::String(context.to_owned()));
        // The key of llama.cpp.
        self.set(&format!("{arch}.attention.causal"), MetadataValue::Bool(block.causal_context));
    }

    /// Sets the keys of the vocabulary; empty tables are omitted.
    pub fn set_vocabulary(&mut self, vocabulary: &Vocabulary) {
        let Vocabulary { model, pre, tokens, token_types, merges, scores, .. } = vocabulary;
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

/// Converts a size, which fits because the source was opened.
fn number(size: usize) -> MetadataValue {
    MetadataValue::U32(u32::try_from(size).unwrap_or(u32::MAX))
}
