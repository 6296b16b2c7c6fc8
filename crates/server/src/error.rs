//! Every refusal, as a status and a body in OpenAI's form. The words are fixed here: no path, no
//! address and no text of another request can get into them.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use wf_client::wire::{ErrorBody, ErrorDetail};
use wf_engine::{FrontendError, Refused};

/// Why a request was not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) kind: &'static str,
    pub(crate) code: &'static str,
    pub(crate) param: Option<String>,
    pub(crate) message: String,
    /// After how many seconds to try again.
    pub(crate) retry_after: Option<u32>,
}

/// When to come back if the queue is full: a reply takes seconds.
const RETRY_WHEN_BUSY: u32 = 1;
/// When to come back if the server is loading or stopping: others may have taken its place.
const RETRY_WHEN_UNAVAILABLE: u32 = 5;

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, code: &'static str, message: String) -> Self {
        Self { status, kind, code, param: None, message, retry_after: None }
    }

    /// The request is wrong.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        let (kind, code) = ("invalid_request_error", "invalid_request");
        Self::new(StatusCode::BAD_REQUEST, kind, code, message.into())
    }

    /// A field of the request is wrong.
    pub(crate) fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        let param = Some(param.into());
        Self { param, code: "invalid_value", ..Self::invalid(message) }
    }

    /// A field that this server does not offer.
    pub(crate) fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: "unsupported_parameter", ..Self::field(param, message) }
    }

    /// A status and a code of its own.
    pub(crate) fn status(status: StatusCode, code: &'static str, message: &str) -> Self {
        Self::new(status, "invalid_request_error", code, message.to_owned())
    }

    pub(crate) fn no_such_model(message: String) -> Self {
        let (kind, code) = ("invalid_request_error", "model_not_found");
        let param = Some("model".to_owned());
        Self { param, ..Self::new(StatusCode::NOT_FOUND, kind, code, message) }
    }

    pub(crate) fn unauthorized() -> Self {
        let message = "a key is needed: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`";
        let (kind, code) = ("authentication_error", "invalid_api_key");
        Self::new(StatusCode::UNAUTHORIZED, kind, code, message.into())
    }

    pub(crate) fn internal() -> Self {
        let message = "an internal error ended this request; others are not touched by it";
        let (kind, code) = ("server_error", "internal_error");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, kind, code, message.into())
    }

    /// Too many ask at once.
    pub(crate) fn busy(message: String) -> Self {
        let (status, retry_after) = (StatusCode::TOO_MANY_REQUESTS, Some(RETRY_WHEN_BUSY));
        Self { retry_after, ..Self::new(status, "rate_limit_error", "queue_full", message) }
    }

    /// Not now.
    pub(crate) fn unavailable(code: &'static str, message: &str) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let retry_after = Some(RETRY_WHEN_UNAVAILABLE);
        Self { retry_after, ..Self::new(status, "server_error", code, message.into()) }
    }

    /// The server stops before the reply is written.
    pub(crate) fn stopping() -> Self {
        Self::unavailable("shutting_down", "the server is shutting down")
    }

    /// The same of a field that the request calls otherwise. Messages begin with the field's name.
    pub(crate) fn renamed(mut self, ours: &str, theirs: &str) -> Self {
        if self.param.as_deref() == Some(ours) {
            self.message = self.message.replacen(ours, theirs, 1);
            self.param = Some(theirs.to_owned());
        }
        self
    }

    pub(crate) fn body(&self) -> ErrorBody {
        ErrorBody {
            error: ErrorDetail {
                message: self.message.clone(),
                kind: self.kind.to_owned(),
                param: self.param.clone(),
                code: Some(self.code.to_owned()),
            },
        }
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        let message = refused.to_string();
        match refused {
            Refused::EmptyPrompt => Self::field("prompt", message),
            Refused::TooLong { .. } => {
                Self { code: "context_length_exceeded", ..Self::field("messages", message) }
            }
            Refused::TextTooLong { .. } => {
                Self { code: "context_length_exceeded", ..Self::field("input", message) }
            }
            Refused::UnknownToken { .. } => Self::field("prompt", message),
            Refused::NothingToWrite => Self::field("max_tokens", message),
            Refused::Unsupported(_) => Self::field("decode", message),
            Refused::Sampling(bad) => Self::field(bad.field, message),
            Refused::Busy { .. } => Self::busy(message),
            Refused::Stopped => Self::stopping(),
        }
    }
}

impl From<FrontendError> for ApiError {
    fn from(error: FrontendError) -> Self {
        let message = error.to_string();
        match error {
            FrontendError::Refused(refused) => refused.into(),
            FrontendError::Text(_) | FrontendError::NoTemplate => Self::field("messages", message),
            FrontendError::NoFiniteScore { .. } => Self { message, ..Self::internal() },
            FrontendError::DeadEnd { .. } => {
                Self { code: "grammar_dead_end", ..Self::invalid(message) }
            }
            FrontendError::StepFailed => Self::internal(),
            FrontendError::DeadlinePassed => Self::unavailable("deadline", &message),
            FrontendError::EngineStopped => Self::stopping(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        // For the dialects, which say it in their own form.
        response.extensions_mut().insert(self);
        response
    }
}
