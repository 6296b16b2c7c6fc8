//! Errors of the client.

use std::io;
use std::time::Duration;

use crate::wire::{ErrorBody, ErrorDetail};

/// Maximum number of characters of a response that a message quotes.
const MAX_QUOTE_LEN: usize = 300;

/// Error of a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The base URL, the API key or the path cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// The connection to an address failed.
    #[error("cannot connect to {0}: {1}")]
    Connect(String, #[source] io::Error),
    /// An operation took longer than its timeout.
    #[error("{0} timed out after {seconds} s", seconds = .1.as_secs_f64())]
    Timeout(&'static str, Duration),
    /// The connection was lost, or the response was not HTTP.
    #[error("connection lost: {}", innermost(.0))]
    Connection(#[source] hyper::Error),
    /// The server responded with an error.
    #[error("the server responded with status {status}: {}", describe(detail.as_deref(), body))]
    Status {
        /// Status code.
        status: u16,
        /// Details, if the body is in OpenAI's format.
        detail: Option<Box<ErrorDetail>>,
        /// Beginning of the body.
        body: String,
        /// Delay after which to retry.
        retry_after: Option<Duration>,
    },
    /// The response is not of the expected type.
    #[error("{0}")]
    Json(String),
    /// The response has more bytes than the limit.
    #[error("the response is larger than the limit of {0} bytes")]
    TooLarge(usize),
    /// The server reported an error inside a stream.
    #[error("the server ended the stream with an error: {}", .0.message)]
    Stream(Box<ErrorDetail>),
    /// A stream ended after some events without `[DONE]`.
    #[error("the stream ended after {0} events without [DONE]")]
    Truncated(usize),
    /// A stream continued after `[DONE]`.
    #[error("the stream continued after [DONE]: {0}")]
    AfterDone(String),
}

impl Error {
    /// Returns the status code, if the server responded with an error.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Returns the delay after which to retry, if the server is overloaded (429) or not ready (503).
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Creates the error of a text that is not of the expected type, with the place where it stands.
    pub(super) fn json(place: &str, text: &[u8], error: &serde_json::Error) -> Self {
        Self::Json(format!("{place}: {error} in {}", beginning(text)))
    }

    /// Creates the error of a response whose status is not success.
    pub(super) fn from_status(status: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        let detail = serde_json::from_slice(body).ok();
        let detail = detail.map(|body: ErrorBody| Box::new(body.error));
        Self::Status { status, detail, body: beginning(body), retry_after }
    }
}

fn beginning(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let text = text.trim();
    match text.char_indices().nth(MAX_QUOTE_LEN) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the message of the root cause: hyper's own messages name its layers.
fn innermost(error: &hyper::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}

fn describe(detail: Option<&ErrorDetail>, body: &str) -> String {
    match detail {
        Some(ErrorDetail { message, param: Some(param), .. }) => format!("{message} ({param})"),
        Some(detail) => detail.message.clone(),
        None if body.is_empty() => "empty body".to_owned(),
        None => body.to_owned(),
    }
}
