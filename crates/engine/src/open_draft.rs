//! A draft model beside the model it guesses for: the same tokens, the same threads.

use wf_formats::ModelFile;
use wf_model::{BlockDiffusion, Forward, HeadMode, Loading, Model, TokenId};
use wf_text::Tokenizer;

use crate::open::{ModelSource, OpenError, RunOptions, load_on, name, read_text, reserve};

/// A file that can guess for another. No weight is read yet.
pub(crate) struct DraftFile(ModelFile);

impl DraftFile {
    /// Opens a model that is to guess for one with this tokenizer.
    pub(crate) fn open(
        source: &ModelSource,
        tokenizer: &Tokenizer,
        options: &RunOptions,
    ) -> Result<Self, OpenError> {
        let file = source.open(&options.open)?;
        let refused = |why| Err(OpenError::Draft { file: name(&file), why });
        let own = read_text(&file)?.tokenizer;
        if let Some(token) = first_difference(&own, tokenizer) {
            let text = |of: &Tokenizer| match of.token_text(token) {
                Some(text) => format!("{text:?}"),
                None => "nothing".to_owned(),
            };
            return refused(format!(
                "token {token} is {} in it and {} in the model: both need the same tokenizer",
                text(&own),
                text(tokenizer)
            ));
        }
        if let Some(BlockDiffusion { token_shift: false, .. }) = file.config().block_diffusion {
            return refused("each of its rows scores its own token, not the next".to_owned());
        }
        Ok(Self(file))
    }

    /// Loads it to run where `model` runs, with room for as many tokens.
    pub(crate) fn load(
        &self,
        model: &Model,
        options: &RunOptions,
        progress: &mut dyn FnMut(Loading),
    ) -> Result<Box<dyn Forward>, OpenError> {
        let Self(file) = self;
        let config = file.config();
        let pages = reserve(config, options.kv, model.pages())?;
        let context_len = config.context_len.min(model.config().context_len);
        // A check of the head is about the replies, and what this one says is checked anyway.
        let head = if options.head == HeadMode::Check { HeadMode::Auto } else { options.head };
        let options = RunOptions { head, ..options.clone() };
        let compute = model.compute().clone();
        Ok(Box::new(load_on(compute, file, &options, (context_len, pages), progress)?))
    }
}

/// The first token that two tokenizers do not both have.
fn first_difference(a: &Tokenizer, b: &Tokenizer) -> Option<TokenId> {
    let tokens = 0..a.len().max(b.len()) as TokenId;
    let differs = |&token: &TokenId| a.token_text(token) != b.token_text(token);
    tokens.into_iter().find(differs)
}
