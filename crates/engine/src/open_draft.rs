//! Opens a draft model: same tokenizer, same threads as the model it drafts for.

use wf_formats::ModelFile;
use wf_model::{BlockDiffusion, Forward, HeadMode, LoadProgress, Model, TokenId};
use wf_text::Tokenizer;

use crate::error::OpenError;
use crate::load::{CacheSize, ModelSource, RunOptions, check_memory, load_with};
use crate::model_text::{file_name, read_text};

/// File of a draft model. No weight is read yet.
pub(crate) struct DraftFile(ModelFile);

impl DraftFile {
    /// Opens a draft model for a model with this tokenizer.
    pub(crate) fn open(
        source: &ModelSource,
        tokenizer: &Tokenizer,
        options: &RunOptions,
    ) -> Result<Self, OpenError> {
        let file = source.open(&options.open)?;
        let reject = |reason| Err(OpenError::Draft { file: file_name(&file), reason });
        let own = read_text(&file)?.tokenizer;
        if let Some(token) = first_difference(&own, tokenizer) {
            let text = |of: &Tokenizer| match of.token_text(token) {
                Some(text) => format!("{text:?}"),
                None => "absent".to_owned(),
            };
            return reject(format!(
                "token {token} is {} in its tokenizer, but {} in that of the model: the tokenizers must be equal",
                text(&own),
                text(tokenizer)
            ));
        }
        if let Some(BlockDiffusion { token_shift: false, .. }) = file.info().block_diffusion {
            return reject("its logits predict the token in place, not the next one".to_owned());
        }
        Ok(Self(file))
    }

    /// Loads the draft model onto the threads of `model`, with a K/V cache for as many tokens.
    pub(crate) fn load(
        &self,
        model: &Model,
        options: &RunOptions,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Box<dyn Forward>, OpenError> {
        let Self(file) = self;
        let pages = model.pages();
        check_memory(file.network(), options.kv, pages)?;
        let context_len = file.info().context_len.min(model.info().context_len);
        // Checking the head concerns the model's own tokens; drafts are verified anyway.
        let head = if options.head == HeadMode::Check { HeadMode::Auto } else { options.head };
        let options = RunOptions { head, ..options.clone() };
        let (compute, size) = (model.compute().clone(), CacheSize { context_len, pages });
        Ok(Box::new(load_with(compute, file, &options, size, progress)?))
    }
}

/// Returns the first token that differs between two tokenizers.
fn first_difference(a: &Tokenizer, b: &Tokenizer) -> Option<TokenId> {
    let tokens = 0..a.len().max(b.len()) as TokenId;
    let differs = |&token: &TokenId| a.token_text(token) != b.token_text(token);
    tokens.into_iter().find(differs)
}
