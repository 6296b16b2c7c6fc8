//! What all parts of an answer have in common.

use crate::app::{App, ServedModel, now};
use crate::asked::Asked;
use crate::request_id::RequestId;

/// What all parts of an answer have in common, and what of it was asked for.
pub(crate) struct Form {
    pub(crate) app: App,
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) fingerprint: String,
    pub(crate) seed: i64,
    pub(crate) choices: usize,
    pub(crate) include_usage: bool,
    pub(crate) token_ids: bool,
    pub(crate) progress: bool,
    pub(crate) logprobs: bool,
}

impl Form {
    /// The form of an answer whose name starts with `kind`.
    pub(crate) fn new(
        app: &App,
        model: &ServedModel,
        kind: &str,
        id: &RequestId,
        asked: &Asked,
    ) -> Self {
        Self {
            app: app.clone(),
            id: format!("{kind}-{}", id.as_str()),
            created: now(),
            model: model.name().to_owned(),
            fingerprint: model.fingerprint(),
            seed: asked.seed,
            choices: asked.choices as usize,
            include_usage: asked.include_usage,
            token_ids: asked.token_ids,
            progress: asked.progress,
            logprobs: asked.generate.logprobs.is_some(),
        }
    }
}
