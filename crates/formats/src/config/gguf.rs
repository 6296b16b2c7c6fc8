//! GGUF metadata → [`ModelConfig`].

use super::{Activation, BlockDiffusion, Evidence, ExtraNorms, ModelConfig, Pooling, RotaryPairs};
use crate::error::{Error, quote_safely};
use crate::gguf::value::Metadata;
use crate::vocabulary::{CONTROL_TYPE, GgufVocabulary};

/// Reads the configuration, and notes every guess in `decisions`.
pub(crate) fn read(
    metadata: &Metadata<'_>,
    evidence: &Evidence,
    vocabulary: Option<&GgufVocabulary>,
    decisions: &mut Vec<String>,
) -> Result<ModelConfig, Error> {
    let keys = Keys { metadata, arch: architecture(metadata)? };
    keys.refuse_what_we_do_not_compute()?;
    let hidden_len = keys.size("embedding_length")?;
    let heads = keys.size("attention.head_count")?;
    let config = ModelConfig {
        architecture: keys.arch.to_owned(),
        name: metadata.string("general.name")?.map(str::to_owned),
        vocab_len: evidence.vocab_len,
        hidden_len,
        ffn_len: keys.size("feed_forward_length")?,
        layers: keys.size("block_count")?,
        heads,
        kv_heads: keys.optional_size("attention.head_count_kv")?.unwrap_or(heads),
        head_dim: keys.head_dim(hidden_len, heads)?,
        context_len: keys.size("context_length")?,
        rope_theta: keys.number("rope.freq_base", 10_000.0, decisions)?,
        rotary_pairs: if keys.arch == "llama" {
            RotaryPairs::Adjacent
        } else {
            RotaryPairs::Halves
        },
        norm_eps: keys.number("attention.layer_norm_rms_epsilon", 1e-5, decisions)? as f32,
        activation: keys.activation(evidence.activation, vocabulary, decisions)?,
        // Where one projection norms its input, all do.
        sub_norms: evidence.sub_norms || evidence.extra_norms.inputs,
        extra_norms: keys.extra_norms(evidence),
        scaled_embedding: keys.arch == "gemma3",
        tied_head: !evidence.has_output,
        bos: metadata.u32("tokenizer.ggml.bos_token_id")?,
        eos: end_tokens(metadata, vocabulary, decisions)?,
        block_diffusion: keys.block_diffusion(vocabulary, decisions)?,
        pooling: metadata.u32(&keys.key("pooling_type"))?.and_then(Pooling::from_number),
    };
    config.check(metadata.file())?;
    Ok(config)
}

fn architecture<'a>(metadata: &Metadata<'a>) -> Result<&'a str, Error> {
    let key = "general.architecture";
    match metadata.string(key)? {
        Some(arch @ ("bitnet-b1.58" | "bitnet-25" | "bitnet" | "llama" | "qwen3" | "gemma3")) => {
            Ok(arch)
        }
        Some(other) => {
            let what = format!(
                "\"{}\", supported are bitnet-b1.58, bitnet-25, bitnet, llama, qwen3 and gemma3",
                quote_safely(other)
            );
            Err(metadata.fault(key, what))
        }
        None => Err(Error::setting(metadata.file(), key, "missing")),
    }
}

/// Access to the keys that start with the architecture's name.
struct Keys<'m, 'a> {
    metadata: &'m Metadata<'a>,
    arch: &'a str,
}

impl Keys<'_, '_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.arch)
    }

    fn optional_size(&self, name: &str) -> Result<Option<usize>, Error> {
        // A u32 fits a usize on every machine we build for.
        Ok(self.metadata.u32(&self.key(name))?.map(|value| value as usize))
    }

    fn size(&self, name: &str) -> Result<usize, Error> {
        self.optional_size(name)?
            .ok_or_else(|| Error::setting(self.metadata.file(), &self.key(name), "missing"))
    }

    fn number(&self, name: &str, usual: f64, decisions: &mut Vec<String>) -> Result<f64, Error> {
        let key = self.key(name);
        if let Some(value) = self.metadata.float(&key)? {
            return Ok(value);
        }
        decisions.push(format!("{key} is {usual}: the file does not say"));
        Ok(usual)
    }

    fn head_dim(&self, hidden_len: usize, heads: usize) -> Result<usize, Error> {
        let divided = hidden_len.checked_div(heads).filter(|_| hidden_len.is_multiple_of(heads));
        let key_len = self.optional_size("attention.key_length")?;
        let rotary_len = self.optional_size("rope.dimension_count")?;
        let Some(head_dim) = key_len.or(divided).or(rotary_len) else {
            let what = format!("{heads} heads do not divide the embedding length {hidden_len}");
            return Err(self.metadata.fault(&self.key("attention.head_count"), what));
        };
        for name in ["rope.dimension_count", "attention.value_length"] {
            if let Some(len) = self.optional_size(name)?.filter(|&len| len != head_dim) {
                let what = format!("{len}, must equal the head size {head_dim}");
                return Err(self.metadata.fault(&self.key(name), what));
            }
        }
        Ok(head_dim)
    }

    /// The norms that are there, and those that the architecture cannot do without.
    fn extra_norms(&self, evidence: &Evidence) -> ExtraNorms {
        let ExtraNorms { inputs, heads, outputs } = evidence.extra_norms;
        let is_gemma = self.arch == "gemma3";
        ExtraNorms {
            inputs,
            heads: heads || is_gemma || self.arch == "qwen3",
            outputs: outputs || is_gemma,
        }
    }

    /// Keys that ask for arithmetic this engine does not do.
    fn refuse_what_we_do_not_compute(&self) -> Result<(), Error> {
        let scaling = self.key("rope.scaling.type");
        let kind = self.metadata.string(&scaling)?.unwrap_or("none");
        // Converters of the 2024 models write "linear" and a factor of 1, which changes nothing.
        if !["none", "linear"].contains(&kind) {
            let what = format!("\"{}\", rotary scaling is not supported", quote_safely(kind));
            return Err(self.metadata.fault(&scaling, what));
        }
        for name in ["rope.scale_linear", "rope.scaling.factor"] {
            let key = self.key(name);
            if let Some(factor) = self.metadata.float(&key)?.filter(|&factor| factor != 1.0) {
                let what = format!("{factor}, rotary scaling is not supported");
                return Err(self.metadata.fault(&key, what));
            }
        }
        let parts = "split.count";
        if self.metadata.u32(parts)?.is_some_and(|count| count > 1) {
            let what = "more than 1: join the parts first (llama-gguf-split --merge)";
            return Err(self.metadata.fault(parts, what));
        }
        for name in ["expert_count", "attention.sliding_window"] {
            let key = self.key(name);
            if self.metadata.u32(&key)?.is_some_and(|value| value != 0) {
                return Err(self.metadata.fault(&key, "not supported"));
            }
        }
        Ok(())
    }

    fn activation(
        &self,
        asked: Option<Activation>,
        vocabulary: Option<&GgufVocabulary>,
        decisions: &mut Vec<String>,
    ) -> Result<Activation, Error> {
        let (activation, why) = match (asked, self.named_activation()?) {
            (Some(activation), _) => (activation, "as asked for".to_owned()),
            (None, Some(named)) => named,
            (None, None) => self.usual_activation(vocabulary)?,
        };
        decisions.push(format!("activation {activation}: {why}"));
        Ok(activation)
    }

    fn named_activation(&self) -> Result<Option<(Activation, String)>, Error> {
        for name in ["hidden_activation", "hidden_act"] {
            let key = self.key(name);
            let Some(value) = self.metadata.string(&key)? else { continue };
            let Some(activation) = Activation::from_key(value) else {
                let what = format!(
                    "\"{}\", supported are relu2, silu and gelu_pytorch_tanh",
                    quote_safely(value)
                );
                return Err(self.metadata.fault(&key, what));
            };
            return Ok(Some((activation, key)));
        }
        Ok(None)
    }

    /// Other converters write no activation, so the name and the vocabulary must tell the family.
    fn usual_activation(
        &self,
        vocabulary: Option<&GgufVocabulary>,
    ) -> Result<(Activation, String), Error> {
        let arch = self.arch;
        let tokenizer = vocabulary.map(|vocabulary| vocabulary.model.as_str());
        Ok(match (arch, tokenizer) {
            ("llama" | "qwen3", _) => (Activation::Silu, format!("architecture {arch}")),
            ("gemma3", _) => (Activation::GeluTanh, format!("architecture {arch}")),
            ("bitnet", Some("llama")) => {
                let why = "architecture bitnet with a llama vocabulary, the 2024 family";
                (Activation::Silu, why.to_owned())
            }
            ("bitnet", Some("gpt2")) => {
                let why = "architecture bitnet with a gpt2 vocabulary, the 2B-4T family";
                (Activation::Relu2, why.to_owned())
            }
            ("bitnet", _) => {
                let what = format!(
                    "architecture bitnet is squared ReLU or SiLU, and neither {} nor the vocabulary \
                     tells which; name the activation",
                    self.key("hidden_activation")
                );
                return Err(Error::unsupported(self.metadata.file(), what));
            }
            // Microsoft's converter of 2026 gives the SiLU models of 2024 this name too.
            (_, Some("llama")) => {
                let what = format!(
                    "architecture {arch} is squared ReLU, but with a llama vocabulary it may be a SiLU \
                     model of 2024, and there is no {}; name the activation",
                    self.key("hidden_activation")
                );
                return Err(Error::unsupported(self.metadata.file(), what));
            }
            _ => (Activation::Relu2, format!("architecture {arch}")),
        })
    }

    fn block_diffusion(
        &self,
        vocabulary: Option<&GgufVocabulary>,
        decisions: &mut Vec<String>,
    ) -> Result<Option<BlockDiffusion>, Error> {
        let causal_key = self.key("attention.causal");
        let causal = self.metadata.bool(&causal_key)?.unwrap_or(true);
        let Some(block_len) = self.optional_size("block_size")? else {
            if causal {
                return Ok(None);
            }
            let what = format!("false without {}, which is not supported", self.key("block_size"));
            return Err(self.metadata.fault(&causal_key, what));
        };
        let mask_key = "tokenizer.ggml.mask_token_id";
        let named = self.metadata.u32(mask_key)?;
        let Some(mask_token) = named.or_else(|| vocabulary.and_then(|v| v.find(MASK_TEXT))) else {
            let what = format!("missing, and the vocabulary has no token \"{MASK_TEXT}\"");
            return Err(Error::setting(self.metadata.file(), mask_key, what));
        };
        if named.is_none() {
            decisions.push(format!("mask token {mask_token}: its text is {MASK_TEXT}"));
        }
        let context_key = self.key("block_diffusion.context");
        let causal_context = match self.metadata.string(&context_key)? {
            Some("causal") => true,
            Some("block") => false,
            Some(other) => {
                let what = format!("\"{}\", allowed are causal and block", quote_safely(other));
                return Err(self.metadata.fault(&context_key, what));
            }
            None => causal,
        };
        Ok(Some(BlockDiffusion {
            mask_token,
            block_len,
            sub_block_len: self.optional_size("block_diffusion.sub_block_size")?,
            token_shift: self.metadata.bool("diffusion.shift_logits")?.unwrap_or(true),
            causal_context,
        }))
    }
}

/// What a mask token is written as, where no key names it.
pub const MASK_TEXT: &str = "|<MASK>|";

/// Control tokens that end a text or a turn in the families we read.
const END_TEXTS: [&str; 4] = ["<|eot_id|>", "<|end_of_text|>", "<|im_end|>", "<|endoftext|>"];

/// The ids that end a reply: those the file names, and control tokens whose text is an end.
fn end_tokens(
    metadata: &Metadata<'_>,
    vocabulary: Option<&GgufVocabulary>,
    decisions: &mut Vec<String>,
) -> Result<Vec<u32>, Error> {
    /// More ends than any model has.
    const MAX_ENDS: u64 = 64;
    if let Some(ids) = metadata.integers("tokenizer.ggml.eos_token_ids", MAX_ENDS)? {
        return Ok(ids.into_iter().map(i32::cast_unsigned).collect());
    }
    let mut ends = Vec::new();
    for name in ["eos", "eot"] {
        let id = metadata.u32(&format!("tokenizer.ggml.{name}_token_id"))?;
        ends.extend(id.filter(|id| !ends.contains(id)));
    }
    let Some(vocabulary) = vocabulary else { return Ok(ends) };
    for text in END_TEXTS {
        let Some(id) = vocabulary.find(text).filter(|id| !ends.contains(id)) else { continue };
        let kind = usize::try_from(id).ok().and_then(|at| vocabulary.token_types.get(at));
        if kind == Some(&CONTROL_TYPE) {
            decisions.push(format!("token {id} ends a reply: it is the control token {text}"));
            ends.push(id);
        }
    }
    Ok(ends)
}
