//! GGUF metadata → network and model information.

use wf_core::{Activation, TokenId, Vocabulary, token_type};

use super::{BlockDiffusion, Config, MASK_TEXT, ModelInfo, Pooling};
use crate::error::{Error, quote_safely};
use crate::families::{Evidence, Family, Keys, Source};
use crate::gguf::value::Metadata;

/// Control tokens that end a text or a turn in the families that are read.
const END_TEXTS: [&str; 4] = ["<|eot_id|>", "<|end_of_text|>", "<|im_end|>", "<|endoftext|>"];

/// Maximum number of tokens that end a completion.
const MAX_ENDS: u64 = 64;

/// The metadata of a file whose family is known.
pub(crate) struct GgufConfig<'a> {
    pub(crate) metadata: &'a Metadata<'a>,
    pub(crate) family: &'static Family,
    pub(crate) architecture: &'a str,
    pub(crate) vocabulary: Option<&'a Vocabulary>,
}

impl GgufConfig<'_> {
    /// Reads the configuration, and notes every guess in `decisions`.
    pub(crate) fn read(
        &self,
        evidence: &Evidence,
        activation: Option<Activation>,
        decisions: &mut Vec<String>,
    ) -> Result<Config, Error> {
        self.reject_split_files()?;
        let &Self { metadata, family, architecture, vocabulary } = self;
        let source = Source::Gguf { metadata, architecture };
        let mut keys = Keys { family, source, evidence, vocabulary, activation, decisions };
        let network = family.network(&mut keys)?;
        let context_key = self.key("context_length");
        let Some(context_len) = metadata.u32(&context_key)? else {
            return Err(Error::setting(metadata.file(), &context_key, "missing"));
        };
        let info = ModelInfo {
            architecture: architecture.to_owned(),
            name: metadata.string("general.name")?.map(str::to_owned),
            context_len: context_len as usize,
            bos: metadata.u32("tokenizer.ggml.bos_token_id")?,
            eos: self.end_tokens(decisions)?,
            block_diffusion: self.block_diffusion(decisions)?,
            pooling: metadata.u32(&self.key("pooling_type"))?.and_then(Pooling::from_number),
        };
        Config::new(metadata.file(), network, info)
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    fn reject_split_files(&self) -> Result<(), Error> {
        let key = "split.count";
        match self.metadata.u32(key)? {
            Some(parts) if parts > 1 => {
                let what = format!("{parts}: join the parts first (llama-gguf-split --merge)");
                Err(self.metadata.fault(key, what))
            }
            _ => Ok(()),
        }
    }

    fn block_diffusion(
        &self,
        decisions: &mut Vec<String>,
    ) -> Result<Option<BlockDiffusion>, Error> {
        let metadata = self.metadata;
        let causal_key = self.key("attention.causal");
        let causal = metadata.bool(&causal_key)?.unwrap_or(true);
        let Some(block_len) = metadata.u32(&self.key("block_size"))? else {
            if causal {
                return Ok(None);
            }
            let what = format!("false is supported with {} only", self.key("block_size"));
            return Err(metadata.fault(&causal_key, what));
        };
        let mask_key = "tokenizer.ggml.mask_token_id";
        let named = metadata.u32(mask_key)?;
        let found = || self.vocabulary.and_then(|vocabulary| vocabulary.find(MASK_TEXT));
        let Some(mask_token) = named.or_else(found) else {
            let what = format!("missing, and the vocabulary has no token \"{MASK_TEXT}\"");
            return Err(Error::setting(metadata.file(), mask_key, what));
        };
        if named.is_none() {
            decisions.push(format!("mask token {mask_token}: its text is {MASK_TEXT}"));
        }
        let context_key = self.key("block_diffusion.context");
        let causal_context = match metadata.string(&context_key)? {
            Some("causal") => true,
            Some("block") => false,
            Some(other) => {
                let what = format!("\"{}\", must be causal or block", quote_safely(other));
                return Err(metadata.fault(&context_key, what));
            }
            None => causal,
        };
        let sub_block_len = metadata.u32(&self.key("block_diffusion.sub_block_size"))?;
        Ok(Some(BlockDiffusion {
            mask_token,
            block_len: block_len as usize,
            sub_block_len: sub_block_len.map(|len| len as usize),
            token_shift: metadata.bool("diffusion.shift_logits")?.unwrap_or(true),
            causal_context,
        }))
    }

    /// Reads the tokens that end a completion: those the file names, and control tokens whose text
    /// is an end.
    fn end_tokens(&self, decisions: &mut Vec<String>) -> Result<Vec<TokenId>, Error> {
        let metadata = self.metadata;
        if let Some(ids) = metadata.integers("tokenizer.ggml.eos_token_ids", MAX_ENDS)? {
            return Ok(ids.into_iter().map(i32::cast_unsigned).collect());
        }
        let mut ends = Vec::new();
        for name in ["eos", "eot"] {
            let id = metadata.u32(&format!("tokenizer.ggml.{name}_token_id"))?;
            ends.extend(id.filter(|id| !ends.contains(id)));
        }
        let Some(vocabulary) = self.vocabulary else { return Ok(ends) };
        for text in END_TEXTS {
            let Some(id) = vocabulary.find(text).filter(|id| !ends.contains(id)) else { continue };
            let kind = usize::try_from(id).ok().and_then(|at| vocabulary.token_types.get(at));
            if kind == Some(&token_type::CONTROL) {
                decisions.push(format!("token {id} ends a completion: control token {text}"));
                ends.push(id);
            }
        }
        Ok(ends)
    }
}
