//! The error type of the crate.

/// Error of a vocabulary, a chat template or a conversation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// `tokenizer.json` is not valid JSON of the expected structure.
    #[error("tokenizer.json: {0}")]
    Json(#[from] serde_json::Error),
    /// The vocabulary is inconsistent or uses an unsupported feature.
    #[error("tokenizer: {0}")]
    Vocabulary(String),
    /// The chat template does not parse, or does not write what was asked of it.
    #[error("chat template: {0}")]
    Template(String),
    /// The chat template failed on these messages, or called `raise_exception`.
    #[error("chat template: {0}")]
    TemplateRender(String),
    /// The messages or the arguments of a template are invalid.
    #[error("{0}")]
    Chat(String),
}

impl TextError {
    /// Returns the error for a part of a vocabulary that is well-formed but not supported.
    pub(crate) fn unsupported(part: &str, found: &str, allowed: &str) -> Self {
        Self::Vocabulary(format!("{part} is {found}: not supported; must be {allowed}"))
    }

    pub(crate) fn vocabulary(what: impl Into<String>) -> Self {
        Self::Vocabulary(what.into())
    }
}
