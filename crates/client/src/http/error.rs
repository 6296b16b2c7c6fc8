//! What can go wrong between a client and its server.

use std::io;
use std::time::Duration;

use crate::wire::{ErrorBody, ErrorDetail};

/// Bytes of an answer that a message quotes.
const QUOTED_BYTES: usize = 300;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is not one.
    #[error("{url}: {reason}")]
    Url {
        /// The address.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The key cannot be sent.
    #[error("the API key has characters that no header may have")]
    Key,
    /// The path cannot be sent.
    #[error("{0:?} is no path")]
    Path(String),
    /// Nobody listens there.
    #[error("no connection to {address}: {source}")]
    Connect {
        /// Where.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// It took too long.
    #[error("{what} within {} s", after.as_secs_f64())]
    Timeout {
        /// What did not happen.
        what: &'static str,
        /// How long was waited for it.
        after: Duration,
    },
    /// The connection broke, or what came was not HTTP.
    #[error("the connection broke: {}", innermost(.0))]
    Broken(#[source] hyper::Error),
    /// The server said no.
    #[error("the server answered {status}: {}", said(detail.as_deref(), body))]
    Status {
        /// The status code.
        status: u16,
        /// Its own words, if they were in the usual form.
        detail: Option<Box<ErrorDetail>>,
        /// The beginning of the body.
        body: String,
        /// When to try again.
        retry_after: Option<Duration>,
    },
    /// An answer that is not what it should be.
    #[error("{what}: {source} in {text}")]
    Json {
        /// The path, or the event's number.
        what: String,
        /// What is wrong.
        source: serde_json::Error,
        /// The beginning of the text.
        text: String,
    },
    /// An answer larger than any that is meant.
    #[error("more than {limit} bytes without an end")]
    TooLarge {
        /// The most that is taken.
        limit: usize,
    },
    /// An error inside a stream.
    #[error("the server ended the stream: {}", .0.message)]
    InStream(Box<ErrorDetail>),
    /// A stream that ended before it said so.
    #[error("the stream ended after {events} events without [DONE]")]
    Cut {
        /// Events that came.
        events: usize,
    },
    /// A stream that went on after its end.
    #[error("the stream went on after [DONE]: {0}")]
    AfterDone(String),
}

impl Error {
    /// The status code, if the server answered with one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// When to try again, if the server has too much to do (429) or is not ready (503).
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    pub(super) fn json(what: &str, text: &[u8], source: serde_json::Error) -> Self {
        Self::Json { what: what.to_owned(), source, text: beginning(text) }
    }

    /// The error of a status code that is none of success.
    pub(super) fn of_status(status: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        let detail = serde_json::from_slice(body).ok();
        let detail = detail.map(|body: ErrorBody| Box::new(body.error));
        Self::Status { status, detail, body: beginning(body), retry_after }
    }
}

fn beginning(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let text = text.trim();
    match text.char_indices().nth(QUOTED_BYTES) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}

/// hyper's messages name the layer; the cause is what a reader can act on.
fn innermost(error: &hyper::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}

fn said(detail: Option<&ErrorDetail>, body: &str) -> String {
    match detail {
        Some(ErrorDetail { message, param: Some(param), .. }) => format!("{message} ({param})"),
        Some(detail) => detail.message.clone(),
        None if body.is_empty() => "nothing more".to_owned(),
        None => body.to_owned(),
    }
}
