//! What can go wrong between text and tokens, in one type.

/// Why a vocabulary, a template or a chat could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The bytes of `tokenizer.json` are not the JSON we expect.
    #[error("tokenizer.json: {0}")]
    Json(#[from] serde_json::Error),

    /// A well-formed vocabulary asks for something this crate does not do.
    #[error("tokenizer: {part} {found} is not supported; allowed: {allowed}")]
    Unsupported {
        /// Which part of the tokenizer, as its file names it.
        part: &'static str,
        /// What the file holds there.
        found: String,
        /// What it may hold.
        allowed: &'static str,
    },

    /// The parts of a vocabulary contradict each other.
    #[error("tokenizer: {0}")]
    Vocabulary(String),

    /// The chat template does not parse.
    #[error("chat template: {0}")]
    TemplateSyntax(String),

    /// The chat template failed on these messages, or called `raise_exception`.
    #[error("chat template: {0}")]
    TemplateRender(String),

    /// The rendered prompt would be too long to be meant.
    #[error("chat template: more than {limit_bytes} bytes of output")]
    PromptTooLong {
        /// The longest prompt a template may write.
        limit_bytes: usize,
    },

    /// A message holds special-token text and the template changes its mind because of it, so that
    /// the prompt cannot be both faithful and safe.
    #[error(
        "chat template: it treats special-token text inside a message in a way of its own; \
         remove {0:?} from the message"
    )]
    SpecialTextInspected(String),

    /// Messages hold all 32 noncharacters we could mark user text with.
    #[error(
        "chat messages hold every noncharacter from U+FDD0 to U+FDEF; at least one must be free"
    )]
    NoFreeNoncharacter,

    /// The last message was to be continued, but the prompt does not have it once and whole.
    #[error(
        "chat template: it does not write the last message once and whole, so it cannot be continued"
    )]
    LastMessageNotWritten,

    /// A variable for the template has the name of one the template gets anyway.
    #[error("chat template argument {0:?} is reserved")]
    ReservedArgument(&'static str),

    /// The date option is not a date.
    #[error("date {0:?} is not of the form YYYY-MM-DD")]
    Date(String),
}

impl TextError {
    /// A refusal that says what was found and what is allowed.
    pub(crate) fn unsupported(
        part: &'static str,
        found: impl Into<String>,
        allowed: &'static str,
    ) -> Self {
        TextError::Unsupported { part, found: found.into(), allowed }
    }

    /// A vocabulary that contradicts itself.
    pub(crate) fn vocabulary(what: impl Into<String>) -> Self {
        TextError::Vocabulary(what.into())
    }
}
