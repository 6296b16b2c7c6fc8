//! API errors: a status and a body in OpenAI's shape, which dialects may render in their own.
//!
//! Messages are composed from checked values. No path, address or text of another request gets into them.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use wf_api::wire::{ErrorBody, ErrorDetail};
use wf_engine::{FrontendError, RequestError};

use crate::access::Refusal;

/// The reason a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) kind: &'static str,
    pub(crate) code: &'static str,
    pub(crate) param: Option<String>,
    pub(crate) message: String,
    /// Seconds after which a client should retry.
    pub(crate) retry_after: Option<u32>,
}

/// Retry delay when the queue is full: a completion takes seconds.
const RETRY_WHEN_BUSY: u32 = 1;
/// Retry delay while the server is loading or shutting down.
const RETRY_WHEN_UNAVAILABLE: u32 = 5;

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, code: &'static str, message: String) -> Self {
        Self { status, kind, code, param: None, message, retry_after: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        let (kind, code) = ("invalid_request_error", "invalid_request");
        Self::new(StatusCode::BAD_REQUEST, kind, code, message.into())
    }

    pub(crate) fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        let param = Some(param.into());
        Self { param, code: "invalid_value", ..Self::invalid(message) }
    }

    /// Reports an invalid field in a message that begins with its path.
    pub(crate) fn at(param: impl Into<String>, what: &str) -> Self {
        let param = param.into();
        let message = format!("{param}: {what}");
        Self::field(param, message)
    }

    pub(crate) fn required(param: impl Into<String>) -> Self {
        let param = param.into();
        let message = format!("{param} is required");
        Self::field(param, message)
    }

    pub(crate) fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: "unsupported_parameter", ..Self::field(param, message) }
    }

    /// Reports a field whose text exceeds the context.
    pub(crate) fn too_long(param: impl Into<String>, message: String) -> Self {
        Self { code: "context_length_exceeded", ..Self::field(param, message) }
    }

    /// Reports an invalid request with a status and a code of its own.
    pub(crate) fn status(status: StatusCode, code: &'static str, message: &str) -> Self {
        Self::new(status, "invalid_request_error", code, message.to_owned())
    }

    pub(crate) fn no_such_model(message: String) -> Self {
        let (kind, code) = ("invalid_request_error", "model_not_found");
        let param = Some("model".to_owned());
        Self { param, ..Self::new(StatusCode::NOT_FOUND, kind, code, message) }
    }

    /// Reports a model that cannot be loaded. The reason names files, so it is for operators only.
    pub(crate) fn load_failed(name: &str, reason: Option<String>) -> Self {
        let reason = reason.unwrap_or_else(|| "the log of the server has the reason".to_owned());
        let message = format!("model {name} cannot be loaded: {reason}");
        let (kind, code) = ("server_error", "model_load_failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, kind, code, message)
    }

    /// Reports a model that has not been loaded within the time of a request.
    pub(crate) fn load_timeout(name: &str) -> Self {
        Self::unavailable("loading", &format!("model {name} is still loading: try again later"))
    }

    pub(crate) fn unauthorized() -> Self {
        let message =
            "invalid or missing API key: send `Authorization: Bearer KEY` or `x-api-key: KEY`";
        let (kind, code) = ("authentication_error", "invalid_api_key");
        Self::new(StatusCode::UNAUTHORIZED, kind, code, message.into())
    }

    /// Rejects a caller without a key for operators.
    pub(crate) fn admin_only() -> Self {
        let message =
            "this needs a key for operators: start the server with --admin-key and send that key";
        let (kind, code) = ("permission_error", "admin_key_required");
        Self::new(StatusCode::FORBIDDEN, kind, code, message.into())
    }

    pub(crate) fn internal() -> Self {
        let message = "internal error; other requests are not affected";
        let (kind, code) = ("server_error", "internal_error");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, kind, code, message.into())
    }

    pub(crate) fn busy(message: String) -> Self {
        let (status, retry_after) = (StatusCode::TOO_MANY_REQUESTS, Some(RETRY_WHEN_BUSY));
        Self { retry_after, ..Self::new(status, "rate_limit_error", "queue_full", message) }
    }

    /// Reports a limit of a key that is reached.
    pub(crate) fn limited(key: &str, refusal: &Refusal) -> Self {
        let Refusal { code, limit, retry_after } = refusal;
        let message = format!("the limit of {key} is {limit}: try again in {retry_after} s");
        let status = StatusCode::TOO_MANY_REQUESTS;
        let retry_after = Some(*retry_after);
        Self { retry_after, ..Self::new(status, "rate_limit_error", code, message) }
    }

    /// Reports a server that cannot serve at the moment.
    pub(crate) fn unavailable(code: &'static str, message: &str) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let retry_after = Some(RETRY_WHEN_UNAVAILABLE);
        Self { retry_after, ..Self::new(status, "server_error", code, message.into()) }
    }

    pub(crate) fn stopping() -> Self {
        Self::unavailable("shutting_down", "the server is shutting down")
    }

    /// Renames fields to what the request calls them, as pairs of our name and theirs.
    pub(crate) fn renamed(mut self, names: &[(&str, &str)]) -> Self {
        // An unknown field is named as the request names it.
        if self.code == "unknown_parameter" {
            return self;
        }
        for (ours, theirs) in names {
            let is_param = self.param.as_deref() == Some(ours);
            if is_param {
                self.param = Some((*theirs).to_owned());
            }
            // A message may mention other fields. Names with an underscore are not English words.
            if is_param || ours.contains('_') {
                self.message = self.message.replacen(ours, theirs, 1);
            }
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

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        let message = error.to_string();
        match error {
            RequestError::EmptyPrompt | RequestError::UnknownToken { .. } => {
                Self::field("prompt", message)
            }
            RequestError::PromptTooLong { .. } => Self::too_long("messages", message),
            RequestError::TextTooLong { .. } => Self::too_long("input", message),
            RequestError::ZeroMaxTokens => Self::field("max_tokens", message),
            RequestError::UnsupportedMode(_) => Self::field("decode", message),
            RequestError::Sampling(bad) => Self::field(bad.field, message),
            RequestError::QueueFull { .. } => Self::busy(message),
            RequestError::TooManySequences { .. } => {
                Self { code: "too_many_sequences", ..Self::field("prompt", message) }
            }
            RequestError::EngineStopped => Self::stopping(),
        }
    }
}

impl From<FrontendError> for ApiError {
    fn from(error: FrontendError) -> Self {
        let message = error.to_string();
        match error {
            FrontendError::Request(error) => error.into(),
            FrontendError::Text(_)
            | FrontendError::NoTemplate
            | FrontendError::NoThinking { .. } => Self::field("messages", message),
            FrontendError::NonFiniteLogits { .. } => Self { message, ..Self::internal() },
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
        // Dialects with another shape of errors render it again.
        response.extensions_mut().insert(self);
        response
    }
}
