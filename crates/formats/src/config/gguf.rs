//! GGUF metadata → network and model information.

use wf_core::{TokenId, token_type};

use super::{BlockDiffusion, Config, MASK_TEXT, ModelInfo, Pooling, causal_context};
use crate::error::Error;
use crate::families::Keys;
use crate::gguf::value::Metadata;

/// Control tokens that end a text or a turn in the families that are read.
const END_TEXTS: [&str; 4] = ["<|eot_id|>", "<|end_of_text|>", "<|im_end|>", "<|endoftext|>"];

/// Maximum number of tokens that end a completion.
const MAX_ENDS: u64 = 64;

/// Reads the configuration, and notes every guess in the decisions of `keys`.
pub(crate) fn read(
    metadata: &Metadata<'_>,
    architecture: &str,
    mut keys: Keys<'_>,
) -> Result<Config, Error> {
    let settings = keys.settings;
    if let Some(parts) = settings.u32("split.count")?.filter(|&parts| parts > 1) {
        let what = format!("{parts}: join the parts first (llama-gguf-split --merge)");
        return Err(settings.fault("split.count", what));
    }
    let network = keys.family.network(&mut keys)?;
    let key = |name: &str| format!("{architecture}.{name}");
    let info = ModelInfo {
        architecture: architecture.to_owned(),
        name: settings.string("general.name")?.map(str::to_owned),
        context_len: settings.size(&key("context_length"))?,
        bos: settings.u32("tokenizer.ggml.bos_token_id")?,
        eos: end_tokens(metadata, &mut keys)?,
        block_diffusion: block_diffusion(&mut keys, key)?,
        pooling: settings.u32(&key("pooling_type"))?.and_then(Pooling::from_number),
    };
    Config::new(&settings.file, network, info)
}

fn block_diffusion(
    keys: &mut Keys<'_>,
    key: impl Fn(&str) -> String,
) -> Result<Option<BlockDiffusion>, Error> {
    let settings = keys.settings;
    let causal_key = key("attention.causal");
    let causal = settings.bool(&causal_key)?.unwrap_or(true);
    let Some(block_len) = settings.optional_size(&key("block_size"))? else {
        if causal {
            return Ok(None);
        }
        let what = format!("false is supported with {} only", key("block_size"));
        return Err(settings.fault(&causal_key, what));
    };
    let mask_key = "tokenizer.ggml.mask_token_id";
    let named = settings.u32(mask_key)?;
    let found = || keys.vocabulary.and_then(|vocabulary| vocabulary.find(MASK_TEXT));
    let Some(mask_token) = named.or_else(found) else {
        let what = format!("missing, and the vocabulary has no token \"{MASK_TEXT}\"");
        return Err(settings.fault(mask_key, what));
    };
    if named.is_none() {
        keys.decisions.push(format!("mask token {mask_token}: its text is {MASK_TEXT}"));
    }
    Ok(Some(BlockDiffusion {
        mask_token,
        block_len,
        sub_block_len: settings.optional_size(&key("block_diffusion.sub_block_size"))?,
        token_shift: settings.bool("diffusion.shift_logits")?.unwrap_or(true),
        causal_context: causal_context(settings, &key("block_diffusion.context"))?
            .unwrap_or(causal),
    }))
}

/// Reads the tokens that end a completion: those the file names, and control tokens whose text
/// is an end.
fn end_tokens(metadata: &Metadata<'_>, keys: &mut Keys<'_>) -> Result<Vec<TokenId>, Error> {
    if let Some(ids) = metadata.integers("tokenizer.ggml.eos_token_ids", MAX_ENDS)? {
        return Ok(ids.into_iter().map(i32::cast_unsigned).collect());
    }
    let mut ends = Vec::new();
    for name in ["eos", "eot"] {
        let id = keys.settings.u32(&format!("tokenizer.ggml.{name}_token_id"))?;
        ends.extend(id.filter(|id| !ends.contains(id)));
    }
    let Some(vocabulary) = keys.vocabulary else { return Ok(ends) };
    for text in END_TEXTS {
        let Some(id) = vocabulary.find(text).filter(|id| !ends.contains(id)) else { continue };
        let kind = usize::try_from(id).ok().and_then(|at| vocabulary.token_types.get(at));
        if kind == Some(&token_type::CONTROL) {
            keys.decisions.push(format!("token {id} ends a completion: control token {text}"));
            ends.push(id);
        }
    }
    Ok(ends)
}
