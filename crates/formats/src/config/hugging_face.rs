//! `config.json` and the files beside it → network, model information, and the weight scheme.

use serde_json::Value;
use wf_core::{Activation, TokenId};

use super::settings::Settings;
use super::{BlockDiffusion, Config, MASK_TEXT, ModelInfo, Pooling, causal_context};
use crate::companions::Companions;
use crate::error::{Error, quote_safely};
use crate::families::{Evidence, Family, Keys};

/// Context length of a `config.json` that names none.
const DEFAULT_CONTEXT_LEN: usize = 2048;

/// Form in which a checkpoint stores its trits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WeightScheme {
    /// Packed; products are multiplied by `weight_scale` (class `autobitlinear`).
    Multiply,
    /// Packed; products are divided by `weight_scale` (class `bitlinear`).
    Divide,
    /// Float master weights, rounded to trits by their mean magnitude.
    Online,
    /// Floats that have to be exactly ternary, because nothing says how to round them.
    Exact,
    /// SGLBITNT: packed along the columns; products are multiplied by a scale.
    PackedColumns,
}

/// Reads the configuration, and notes every guess in `decisions`.
pub(crate) fn read(
    documents: &Companions,
    evidence: &Evidence,
    activation: Option<Activation>,
    decisions: &mut Vec<String>,
) -> Result<Config, Error> {
    let settings = &documents.config;
    let family = Family::of_config(settings)?;
    let (architecture, vocabulary) = (None, None);
    let mut keys =
        Keys { family, settings, architecture, evidence, vocabulary, activation, decisions };
    let network = family.network(&mut keys)?;
    let scaling = network.attentions().find_map(|attention| attention.rope);
    let context_len = match scaling.and_then(|rope| rope.scaling.extended_len()) {
        Some(extended) => {
            let why = "dynamic rotary scaling of max_position_embeddings by its factor";
            decisions.push(format!("context length {extended}: {why}"));
            Some(extended)
        }
        None => settings.optional_size("max_position_embeddings")?,
    };
    let info = ModelInfo {
        architecture: family.class().to_owned(),
        name: settings.string("_name_or_path")?.filter(|name| !name.is_empty()).map(str::to_owned),
        context_len: context_len.unwrap_or_else(|| {
            let key = "max_position_embeddings";
            decisions.push(format!("context length {DEFAULT_CONTEXT_LEN}: {key} is not set"));
            DEFAULT_CONTEXT_LEN
        }),
        bos: settings.u32("bos_token_id")?.or(documents.generation.u32("bos_token_id")?),
        eos: end_tokens(documents)?,
        block_diffusion: block_diffusion(documents, decisions)?,
        pooling: pooling(documents)?,
    };
    Config::new(&settings.file, network, info)
}

/// Modules that `transformers` lists as kept in floats and that hold no projection: the head, and for
/// a tied head the embedding and the last norm.
const NO_PROJECTIONS: [&str; 3] = ["lm_head", "model.embed_tokens", "model.norm"];

/// Returns the weight scheme that `quantization_config` selects.
pub(crate) fn weight_scheme(
    settings: &Settings,
    naive: bool,
    decisions: &mut Vec<String>,
) -> Result<WeightScheme, Error> {
    let Some(quantization) = settings.object("quantization_config")? else {
        // The code of the 2024 checkpoints has these keys and rounds master weights.
        let is_1_bit = settings.optional_size("weight_bits")? == Some(1);
        if is_1_bit && settings.optional_size("input_bits")? == Some(8) {
            decisions.push(
                "weights are rounded to trits: weight_bits is 1 and input_bits is 8".to_owned(),
            );
            return Ok(WeightScheme::Online);
        }
        if naive {
            let what = "weights are rounded to trits by --naive, for speed tests only";
            decisions.push(format!("{what}: the model was not trained for it"));
            return Ok(WeightScheme::Online);
        }
        return Ok(WeightScheme::Exact);
    };
    let choice = |key: &str, default: &'static str, allowed: &[&str]| -> Result<String, Error> {
        let value = quantization.string(key)?.unwrap_or(default);
        if allowed.contains(&value) {
            return Ok(value.to_owned());
        }
        let what = format!("\"{}\", must be one of {}", quote_safely(value), allowed.join(", "));
        Err(quantization.fault(key, what))
    };
    choice("quant_method", "", &["bitnet"])?;
    let class = choice("linear_class", "bitlinear", &["bitlinear", "autobitlinear"])?;
    let mode = choice("quantization_mode", "offline", &["offline", "online"])?;
    if quantization.bool("use_rms_norm")? == Some(true) {
        let what = "true, norms inside linear layers are not supported";
        return Err(quantization.fault("use_rms_norm", what));
    }
    let skipped = quantization.get("modules_to_not_convert").and_then(Value::as_array);
    let no_projection =
        |name: &Value| name.as_str().is_some_and(|name| NO_PROJECTIONS.contains(&name));
    if let Some(other) = skipped.into_iter().flatten().find(|name| !no_projection(name)) {
        let what = format!("{}, must list no projection", quote_safely(&other.to_string()));
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

/// Reads the end tokens of `config.json`, then those that only `generation_config.json` names.
fn end_tokens(documents: &Companions) -> Result<Vec<TokenId>, Error> {
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
        let Some(mask_token) = block.u32("mask_token_id")?.or_else(|| documents.mask_token())
        else {
            return Err(block.fault("mask_token_id", "missing"));
        };
        return Ok(Some(BlockDiffusion {
            mask_token,
            block_len: block.size("block_size")?,
            sub_block_len: block.optional_size("sub_block_size")?,
            token_shift: block.bool("token_shift")?.unwrap_or(true),
            causal_context: causal_context(&block, "context")?.unwrap_or(false),
        }));
    }
    let sizes = [
        documents.config.optional_size("bd_size")?,
        documents.diffusion.optional_size("bd_size")?,
        documents.diffusion.optional_size("block_size")?,
    ];
    let Some(block_len) = sizes.into_iter().flatten().next() else { return Ok(None) };
    // `dlm_config.json` comes last: one trainer always writes 0 there.
    let mask_token = documents
        .config
        .u32("mask_token_id")?
        .or_else(|| documents.mask_token())
        .or(documents.diffusion.u32("mask_token_id")?);
    let Some(mask_token) = mask_token else {
        let what = format!("missing, and the tokenizer has no token \"{MASK_TEXT}\"");
        return Err(documents.config.fault("mask_token_id", what));
    };
    decisions.push(format!(
        "block diffusion with blocks of {block_len}, mask token {mask_token}, shifted logits and causal \
         context: bd_size is set, and such checkpoints are trained with causal attention"
    ));
    Ok(Some(BlockDiffusion {
        mask_token,
        block_len,
        sub_block_len: None,
        token_shift: true,
        causal_context: true,
    }))
}

/// Reads the pooling from the key `pooling`, or from the configuration of sentence-transformers.
fn pooling(documents: &Companions) -> Result<Option<Pooling>, Error> {
    let settings = &documents.config;
    let Some(name) = settings.string("pooling")? else {
        return Pooling::from_sentence_transformers(&documents.pooling);
    };
    let unknown = || {
        let known = Pooling::ALL.map(Pooling::name).join(", ");
        let what = format!("\"{}\", must be one of {known}", quote_safely(name));
        settings.fault("pooling", what)
    };
    Pooling::from_name(name).map(Some).ok_or_else(unknown)
}
