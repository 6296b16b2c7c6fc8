//! Errors of opening a model and of generating text.

use wf_model::{Isa, LoadError, PAGE_LEN};
use wf_text::TextError;

use crate::decode::UnsupportedMode;
use crate::request::RequestError;

/// Error of a generation or an embedding.
#[derive(Debug, thiserror::Error)]
pub enum FrontendError {
    /// Rendering or encoding the prompt failed.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The model has no chat template.
    #[error("this model has no chat template: use a raw prompt instead")]
    NoTemplate,
    /// The engine rejected the request.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The model computed no finite logit.
    #[error("the model computed no finite logit after {tokens} tokens: its weights are broken")]
    NonFiniteLogits {
        /// Number of tokens generated before.
        tokens: usize,
    },
    /// The grammar allows no continuation.
    #[error(
        "after {tokens} tokens the grammar allows none of this model's tokens, or exceeds its \
         complexity limit"
    )]
    DeadEnd {
        /// Number of tokens generated before.
        tokens: usize,
    },
    /// The forward step panicked.
    #[error("an internal error ended this request; other requests are not affected")]
    StepFailed,
    /// The deadline of an embedding passed.
    #[error("the deadline of the request passed before it was computed")]
    DeadlinePassed,
    /// The engine thread ended.
    #[error("the engine stopped before the request was finished")]
    EngineStopped,
}

/// Error of opening or loading a model.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The block layout is invalid.
    #[error(transparent)]
    Blocks(#[from] UnsupportedMode),
    /// The file is invalid.
    #[error(transparent)]
    File(#[from] wf_formats::Error),
    /// The weights are invalid.
    #[error("{file}: {source}")]
    Load {
        /// File of the model.
        file: String,
        /// Cause.
        source: LoadError,
    },
    /// The tokenizer or the chat template is invalid.
    #[error("{file}: {source}")]
    Text {
        /// File of the model.
        file: String,
        /// Cause.
        source: TextError,
    },
    /// The model has no tokenizer.
    #[error("{file}: no tokenizer found: looked for {looked}")]
    NoTokenizer {
        /// File of the model.
        file: String,
        /// Places that were searched.
        looked: String,
    },
    /// The tokenizer has more tokens than the embedding has rows.
    #[error("{file}: the tokenizer has {tokens} tokens, but the embedding has only {rows} rows")]
    TokenizerTooLarge {
        /// File of the model.
        file: String,
        /// Number of tokens of the tokenizer.
        tokens: usize,
        /// Number of rows of the embedding.
        rows: usize,
    },
    /// The draft model does not fit the model.
    #[error("{file}: cannot be used as a draft model: {reason}")]
    Draft {
        /// File of the draft model.
        file: String,
        /// Reason.
        reason: String,
    },
    /// The CPU lacks the requested instruction set.
    #[error("instruction set {wanted} is not available: {reason}; available are {supported}")]
    NoSuchIsa {
        /// Requested instruction set.
        wanted: Isa,
        /// Reason.
        reason: &'static str,
        /// Instruction sets of this CPU.
        supported: String,
    },
    /// The requested context length is out of range.
    #[error("context length is {wanted}: must be between 2 and {max} tokens for this model")]
    Context {
        /// Requested length.
        wanted: usize,
        /// Context length of the model.
        max: usize,
    },
    /// The K/V cache does not fit into memory.
    #[error(
        "the K/V cache of {tokens} tokens needs {size_bytes} bytes, more than this machine can provide: \
         use a shorter context or less K/V memory"
    )]
    NoMemory {
        /// Number of tokens of the cache.
        tokens: usize,
        /// Size of the cache.
        size_bytes: usize,
    },
    /// The memory for the K/V cache is smaller than a page.
    #[error("K/V memory is {given} bytes: must be at least {page}, one page of {PAGE_LEN} tokens")]
    TooLittleMemory {
        /// Configured size in bytes.
        given: usize,
        /// Size of a page in bytes.
        page: usize,
    },
    /// The engine thread could not be started.
    #[error("cannot start the engine thread: {0}")]
    Thread(std::io::Error),
}
