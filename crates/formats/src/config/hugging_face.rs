//! `config.json` and the files beside it → [`ModelConfig`], and how the weights are stored.

use serde_json::Value;

use super::gguf::MASK_TEXT;
use super::settings::Settings;
use super::{Activation, BlockDiffusion, Evidence, ModelConfig, NAIVE_HINT, Pooling, RotaryPairs};
use crate::companions::Companions;
use crate::error::{Error, quote_safely};

/// How the trits of a checkpoint are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WeightScheme {
    /// Packed, and the product is multiplied by `weight_scale` (class `autobitlinear`).
    Multiply,
    /// Packed, and the product is divided by `weight_scale` (class `bitlinear`).
    Divide,
    /// Float master weights that become trits by their mean magnitude.
    Online,
    /// SGLBITNT: packed along the columns, and multiplied by a scale.
    PackedColumns,
}

/// Reads the configuration, and notes every guess in `decisions`.
pub(crate) fn read(
    documents: &Companions,
    evidence: &Evidence,
    decisions: &mut Vec<String>,
) -> Result<ModelConfig, Error> {
    let settings = &documents.config;
    let family = Family::of(settings)?;
    for (key, what) in [
        ("attention_bias", "true, biases are not supported"),
        ("mlp_bias", "true, biases are not supported"),
        ("rope_interleaved", "true, rotary pairs must be i and i + half"),
    ] {
        if settings.bool(key)? == Some(true) {
            return Err(settings.fault(key, what));
        }
    }
    let hidden_len = settings.size("hidden_size")?;
    let heads = settings.size("num_attention_heads")?;
    if !evidence.has_output && settings.bool("tie_word_embeddings")? == Some(false) {
        let what = "false, but there is no tensor \"lm_head.weight\"";
        return Err(settings.fault("tie_word_embeddings", what));
    }
    let context_len = settings.optional_size("max_position_embeddings")?;
    let config = ModelConfig {
        architecture: family.architecture.to_owned(),
        name: settings.string("_name_or_path")?.filter(|name| !name.is_empty()).map(str::to_owned),
        vocab_len: evidence.vocab_len,
        hidden_len,
        ffn_len: settings.size("intermediate_size")?,
        layers: settings.size("num_hidden_layers")?,
        heads,
        kv_heads: settings.optional_size("num_key_value_heads")?.unwrap_or(heads),
        head_dim: head_dim(settings, hidden_len, heads)?,
        context_len: context_len.unwrap_or_else(|| {
            decisions.push("context length 2048: config.json does not say".to_owned());
            2048
        }),
        rope_theta: rope_theta(settings, family, decisions)?,
        rotary_pairs: RotaryPairs::Halves,
        norm_eps: settings.number("rms_norm_eps")?.unwrap_or(family.usual_eps) as f32,
        activation: activation(settings, family, evidence.activation, decisions)?,
        sub_norms: evidence.sub_norms,
        extra_norms: evidence.extra_norms,
        scaled_embedding: false,
        tied_head: !evidence.has_output,
        bos: settings.token("bos_token_id")?.or(documents.generation.token("bos_token_id")?),
        eos: end_tokens(documents)?,
        block_diffusion: block_diffusion(documents, decisions)?,
        pooling: pooling(documents)?,
    };
    config.check(&settings.file)?;
    Ok(config)
}

/// A kind of network, and what the configuration classes of `transformers` take where a file says
/// nothing.
#[derive(Debug, PartialEq)]
struct Family {
    architecture: &'static str,
    usual_eps: f64,
    usual_theta: f64,
    usual_activation: Activation,
}

const BITNET: Family = Family {
    architecture: "BitNetForCausalLM",
    usual_eps: 1e-5,
    usual_theta: 500_000.0,
    usual_activation: Activation::Relu2,
};

const LLAMA: Family = Family {
    architecture: "LlamaForCausalLM",
    usual_eps: 1e-6,
    usual_theta: 10_000.0,
    usual_activation: Activation::Silu,
};

impl Family {
    fn of(settings: &Settings) -> Result<&'static Self, Error> {
        let named = settings.get("architectures").and_then(|names| names.get(0));
        let name = match named {
            Some(name) => name.as_str(),
            None => settings.string("model_type")?,
        };
        match name {
            Some("BitNetForCausalLM" | "BitnetForCausalLM" | "bitnet") => Ok(&BITNET),
            Some("LlamaForCausalLM" | "llama") => Ok(&LLAMA),
            other => {
                let found =
                    other.map_or("missing".to_owned(), |n| format!("\"{}\"", quote_safely(n)));
                let what = format!("{found}, supported are BitNetForCausalLM and LlamaForCausalLM");
                Err(settings.fault("architectures", what))
            }
        }
    }
}

/// Modules that `transformers` lists as kept float, and that hold no projection anyway: the head, and
/// for a tied head the embedding and the last norm.
const NO_PROJECTIONS: [&str; 3] = ["lm_head", "model.embed_tokens", "model.norm"];

/// How `transformers` would read the weights, by `quantization_config`.
pub(crate) fn weight_scheme(
    settings: &Settings,
    naive: bool,
    decisions: &mut Vec<String>,
) -> Result<WeightScheme, Error> {
    let family = Family::of(settings)?;
    let Some(quantization) = settings.object("quantization_config")? else {
        // The custom code of the 2024 checkpoints has these keys and rounds master weights.
        let is_1_bit = settings.optional_size("weight_bits")? == Some(1);
        if is_1_bit && settings.optional_size("input_bits")? == Some(8) {
            decisions.push("master weights become trits: weight_bits 1, input_bits 8".to_owned());
            return Ok(WeightScheme::Online);
        }
        if naive {
            let what = "weights are rounded to trits though the model was not trained for it";
            decisions.push(format!("{what}: asked for by --naive, for speed tests only"));
            return Ok(WeightScheme::Online);
        }
        let what = if *family == LLAMA {
            "missing: not a ternary model"
        } else {
            "missing, and without it transformers runs the weights as plain floats; if they are \
             BitNet master weights, add {\"quant_method\": \"bitnet\", \"linear_class\": \
             \"autobitlinear\", \"quantization_mode\": \"online\"}"
        };
        return Err(settings.fault("quantization_config", format!("{what}; {NAIVE_HINT}")));
    };
    let choice = |key: &str, usual: &'static str, allowed: &[&str]| -> Result<String, Error> {
        let value = quantization.string(key)?.unwrap_or(usual);
        if allowed.contains(&value) {
            return Ok(value.to_owned());
        }
        let what = format!("\"{}\", allowed: {}", quote_safely(value), allowed.join(", "));
        Err(quantization.fault(key, what))
    };
    choice("quant_method", "", &["bitnet"])?;
    let class = choice("linear_class", "bitlinear", &["bitlinear", "autobitlinear"])?;
    let mode = choice("quantization_mode", "offline", &["offline", "online"])?;
    if quantization.bool("use_rms_norm")? == Some(true) {
        let what = "true, a norm inside each linear layer is not supported";
        return Err(quantization.fault("use_rms_norm", what));
    }
    let skipped = quantization.get("modules_to_not_convert").and_then(Value::as_array);
    let no_projection =
        |name: &Value| name.as_str().is_some_and(|name| NO_PROJECTIONS.contains(&name));
    if let Some(other) = skipped.into_iter().flatten().find(|name| !no_projection(name)) {
        let what = format!("{}, only lm_head may stay float", quote_safely(&other.to_string()));
        return Err(quantization.fault("modules_to_not_convert", what));
    }
    Ok(match (class.as_str(), mode.as_str()) {
        ("autobitlinear", "online") => WeightScheme::Online,
        ("autobitlinear", _) => {
            decisions.push("weight_scale multiplies: linear_class autobitlinear".to_owned());
            WeightScheme::Multiply
        }
        _ => {
            decisions.push("weight_scale divides: linear_class bitlinear".to_owned());
            WeightScheme::Divide
        }
    })
}

fn head_dim(settings: &Settings, hidden_len: usize, heads: usize) -> Result<usize, Error> {
    if let Some(head_dim) = settings.optional_size("head_dim")? {
        return Ok(head_dim);
    }
    hidden_len.checked_div(heads).filter(|_| hidden_len.is_multiple_of(heads)).ok_or_else(|| {
        let what = format!("{heads} does not divide hidden_size {hidden_len}");
        settings.fault("num_attention_heads", what)
    })
}

fn rope_theta(
    settings: &Settings,
    family: &Family,
    decisions: &mut Vec<String>,
) -> Result<f64, Error> {
    let mut theta = settings.number("rope_theta")?;
    for key in ["rope_scaling", "rope_parameters"] {
        let Some(rope) = settings.object(key)? else { continue };
        let kind = rope.string("rope_type")?.or(rope.string("type")?).unwrap_or("default");
        if kind != "default" {
            let what = format!("\"{}\", only the default is supported", quote_safely(kind));
            return Err(rope.fault("rope_type", what));
        }
        theta = theta.or(rope.number("rope_theta")?);
    }
    if settings.number("partial_rotary_factor")?.is_some_and(|factor| factor != 1.0) {
        return Err(settings.fault("partial_rotary_factor", "only 1.0 is supported"));
    }
    Ok(theta.unwrap_or_else(|| {
        let usual = family.usual_theta;
        decisions.push(format!("rotary base {usual}: the usual of {}", family.architecture));
        usual
    }))
}

fn activation(
    settings: &Settings,
    family: &Family,
    asked: Option<Activation>,
    decisions: &mut Vec<String>,
) -> Result<Activation, Error> {
    if let Some(activation) = asked {
        decisions.push(format!("activation {activation}: as asked for"));
        return Ok(activation);
    }
    let Some(name) = settings.string("hidden_act")? else {
        let usual = family.usual_activation;
        decisions.push(format!("activation {usual}: the usual of {}", family.architecture));
        return Ok(usual);
    };
    Activation::from_key(name).ok_or_else(|| {
        let what =
            format!("\"{}\", supported are relu2, silu and gelu_pytorch_tanh", quote_safely(name));
        settings.fault("hidden_act", what)
    })
}

/// Ends named by `config.json`, then those that only `generation_config.json` names.
fn end_tokens(documents: &Companions) -> Result<Vec<u32>, Error> {
    let mut ends = documents.config.tokens("eos_token_id")?;
    for id in documents.generation.tokens("eos_token_id")? {
        if !ends.contains(&id) {
            ends.push(id);
        }
    }
    Ok(ends)
}

fn block_diffusion(
    documents: &Companions,
    decisions: &mut Vec<String>,
) -> Result<Option<BlockDiffusion>, Error> {
    if let Some(block) = documents.config.object("block_diffusion")? {
        let Some(mask_token) = block.token("mask_token_id")?.or_else(|| documents.mask_token())
        else {
            return Err(block.fault("mask_token_id", "missing"));
        };
        let causal_context = match block.string("context")? {
            Some("causal") => true,
            Some("block") | None => false,
            Some(other) => {
                let what = format!("\"{}\", allowed are causal and block", quote_safely(other));
                return Err(block.fault("context", what));
            }
        };
        return Ok(Some(BlockDiffusion {
            mask_token,
            block_len: block.size("block_size")?,
            sub_block_len: block.optional_size("sub_block_size")?,
            token_shift: block.bool("token_shift")?.unwrap_or(true),
            causal_context,
        }));
    }
    let sizes = [
        documents.config.optional_size("bd_size")?,
        documents.diffusion.optional_size("bd_size")?,
        documents.diffusion.optional_size("block_size")?,
    ];
    let Some(block_len) = sizes.into_iter().flatten().next() else { return Ok(None) };
    // `dlm_config.json` comes last: a trainer in the wild writes 0 there whatever the mask is.
    let mask_token = documents
        .config
        .token("mask_token_id")?
        .or_else(|| documents.mask_token())
        .or(documents.diffusion.token("mask_token_id")?);
    let Some(mask_token) = mask_token else {
        let what = format!("missing, and the tokenizer has no token \"{MASK_TEXT}\"");
        return Err(documents.config.fault("mask_token_id", what));
    };
    decisions.push(format!(
        "block diffusion with blocks of {block_len}, mask token {mask_token}, shifted rows and causal \
         context: bd_size is set, and checkpoints with it are trained with causal attention"
    ));
    Ok(Some(BlockDiffusion {
        mask_token,
        block_len,
        sub_block_len: None,
        token_shift: true,
        causal_context: true,
    }))
}

/// Our own key in `config.json`, or what sentence-transformers keeps in a file of its own.
fn pooling(documents: &Companions) -> Result<Option<Pooling>, Error> {
    let settings = &documents.config;
    let Some(name) = settings.string("pooling")? else {
        return Pooling::from_sentence_transformers(&documents.pooling);
    };
    let unknown = || {
        let what = format!("\"{}\", allowed are mean, cls and last", quote_safely(name));
        settings.fault("pooling", what)
    };
    Pooling::named(name).map(Some).ok_or_else(unknown)
}
