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
    /// The base URL is invalid.
    #[error("{url}: {reason}")]
    Url {
        /// The base URL.
        url: String,
        /// Description of the problem.
        reason: &'static str,
    },
    /// The API key cannot be sent in a header.
    #[error("the API key has characters that are not allowed in a header")]
    Key,
    /// The path is invalid.
    #[error("{0:?} is not a valid path")]
    Path(String),
    /// The connection failed.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Address of the server.
        address: String,
        /// The I/O error.
        source: io::Error,
    },
    /// A timeout passed.
    #[error("{what} timed out after {} s", after.as_secs_f64())]
    Timeout {
        /// The operation that timed out.
        what: &'static str,
        /// The timeout.
        after: Duration,
    },
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
    #[error("{what}: {source} in {text}")]
    Json {
        /// Path of the request, or number of the event.
        what: String,
        /// Error of the parser.
        source: serde_json::Error,
        /// Beginning of the text.
        text: String,
    },
    /// The response is too large.
    #[error("the response is larger than the limit of {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The server reported an error inside a stream.
    #[error("the server ended the stream with an error: {}", .0.message)]
    Stream(Box<ErrorDetail>),
    /// A stream ended without `[DONE]`.
    #[error("the stream ended after {events} events without [DONE]")]
    Truncated {
        /// Number of events received.
        events: usize,
    },
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

    pub(super) fn json(what: &str, text: &[u8], source: serde_json::Error) -> Self {
        Self::Json { what: what.to_owned(), source, text: beginning(text) }
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
