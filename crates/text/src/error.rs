//! The error type of the crate.

/// Error of a vocabulary, a chat template or a conversation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// `tokenizer.json` is not valid JSON of the expected structure.
    #[error("tokenizer.json: {0}")]
    Json(#[from] serde_json::Error),

    /// A well-formed vocabulary uses an unsupported feature.
    #[error("tokenizer: {part} is {found}: not supported; must be {allowed}")]
    Unsupported {
        /// Part of the tokenizer, as named in its file.
        part: &'static str,
        /// Value found.
        found: String,
        /// Supported values.
        allowed: &'static str,
    },

    /// The vocabulary is inconsistent.
    #[error("tokenizer: {0}")]
    Vocabulary(String),

    /// The chat template does not parse.
    #[error("chat template: {0}")]
    TemplateSyntax(String),

    /// The chat template failed on these messages, or called `raise_exception`.
    #[error("chat template: {0}")]
    TemplateRender(String),

    /// The rendered prompt exceeds the size limit.
    #[error("chat template: output is larger than the limit of {limit_bytes} bytes")]
    PromptTooLong {
        /// Maximum size of a prompt.
        limit_bytes: usize,
    },

    /// A message contains special-token text on which the output of the template depends, so that the prompt
    /// cannot be both faithful and safe.
    #[error(
        "chat template: it handles special-token text inside a message specially; remove {0:?} from the \
         message"
    )]
    SpecialTextInspected(String),

    /// The messages contain all 32 noncharacters that could mark user text.
    #[error(
        "chat messages contain every noncharacter from U+FDD0 to U+FDEF: at least one must be unused"
    )]
    NoFreeNoncharacter,

    /// The last message cannot be continued.
    #[error(
        "chat template: it does not write the last message exactly once and unchanged, so the message cannot be \
         continued"
    )]
    LastMessageNotWritten,

    /// A template variable has a reserved name.
    #[error("chat template argument {0:?} is reserved")]
    ReservedArgument(&'static str),

    /// The date is invalid.
    #[error("date is {0:?}: must be a valid date in the form YYYY-MM-DD")]
    Date(String),
}

impl TextError {
    pub(crate) fn unsupported(
        part: &'static str,
        found: impl Into<String>,
        allowed: &'static str,
    ) -> Self {
        TextError::Unsupported { part, found: found.into(), allowed }
    }

    pub(crate) fn vocabulary(what: impl Into<String>) -> Self {
        TextError::Vocabulary(what.into())
    }
}
