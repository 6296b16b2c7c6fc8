//! Errors of opening a model and of generating text.

use wf_text::TextError;

use crate::output::FinishReason;
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
    /// The request demands or limits thinking, and the model does not think.
    #[error("thinking cannot be turned on or limited: {}", why_no_thinking(.is_chat))]
    NoThinking {
        /// The prompt is a conversation.
        is_chat: bool,
    },
    /// The engine rejected the request.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The model computed no finite logit.
    #[error("the model computed no finite logit after {tokens} tokens: its weights are broken")]
    NonFiniteLogits {
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

fn why_no_thinking(is_chat: &bool) -> &'static str {
    match is_chat {
        true => "the chat template of this model does not declare it",
        false => "the prompt is not a conversation",
    }
}

impl FinishReason {
    /// Returns the error of a request that failed after so many tokens.
    pub(crate) fn check(self, tokens: usize) -> Result<(), FrontendError> {
        match self {
            Self::Stop | Self::Length | Self::Deadline | Self::DeadEnd => Ok(()),
            Self::NonFiniteLogits => Err(FrontendError::NonFiniteLogits { tokens }),
            Self::Failed => Err(FrontendError::StepFailed),
        }
    }
}

/// Error of opening or loading a model.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file is invalid.
    #[error(transparent)]
    File(#[from] wf_formats::Error),
    /// The model cannot run, or not as requested.
    #[error("{0}")]
    Model(String),
}
