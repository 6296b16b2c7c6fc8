//! Errors of models in this process, with the messages of the command line.

use wf_engine::{FrontendError, RequestError};

use crate::output;

/// Error of opening or running a model.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// Kind of an error, by which other languages choose the type of an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No option has that name.
    UnknownOption,
    /// An option, a prompt or a text is invalid.
    Request,
    /// The model cannot be found, downloaded or loaded.
    Model,
    /// The engine failed.
    Engine,
}

impl Error {
    pub(super) fn new(kind: ErrorKind, error: &anyhow::Error) -> Self {
        Self { kind, message: output::explain(error) }
    }

    pub(super) fn from_message(kind: ErrorKind, message: String) -> Self {
        Self { kind, message }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the same error with the part of a request in front that it is about.
    #[must_use]
    pub fn about(self, part: &str) -> Self {
        Self { message: format!("{part}: {}", self.message), ..self }
    }
}

impl From<FrontendError> for Error {
    fn from(error: FrontendError) -> Self {
        let kind = match &error {
            FrontendError::Request(
                RequestError::EngineStopped | RequestError::QueueFull { .. },
            )
            | FrontendError::NonFiniteLogits { .. }
            | FrontendError::StepFailed
            | FrontendError::DeadlinePassed
            | FrontendError::EngineStopped => ErrorKind::Engine,
            FrontendError::Text(_)
            | FrontendError::NoTemplate
            | FrontendError::NoThinking { .. }
            | FrontendError::Request(_) => ErrorKind::Request,
        };
        Self::new(kind, &error.into())
    }
}
