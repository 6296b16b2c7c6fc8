//! Reads forms with files (`multipart/form-data`) as they arrive.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::http::{Request, header};
use futures_util::stream::{self, Stream};
use multer::{Constraints, Field, Multipart, SizeLimit};

use super::chunks::next_chunk;
use crate::error::ApiError;
use crate::options::Limits;

/// Maximum length of everything in a form that is not content: boundaries, and the heads of parts.
const MAX_OVERHEAD: usize = 1 << 20;
/// Maximum length of a field that is not a file.
const MAX_TEXT_LEN: usize = 1024;

/// A form that is being read.
pub(crate) struct Form {
    parts: Multipart<'static>,
    unread: Arc<AtomicUsize>,
}

/// A field of a form, or a file.
pub(crate) struct Part {
    field: Field<'static>,
    unread: Arc<AtomicUsize>,
}

impl Form {
    /// Begins to read a form with at most `max_len` bytes of content.
    pub(crate) fn new(
        request: Request<Body>,
        limits: &Limits,
        max_len: u64,
    ) -> Result<Self, ApiError> {
        let (head, body) = request.into_parts();
        let content_type =
            head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let boundary = multer::parse_boundary(content_type.unwrap_or_default());
        let boundary = boundary.map_err(|_| {
            ApiError::invalid("the content type must be multipart/form-data with a boundary")
        })?;
        let max_len = max_len.saturating_add(MAX_OVERHEAD as u64);
        let constraints = Constraints::new().size_limit(SizeLimit::new().whole_stream(max_len));
        let unread = Arc::new(AtomicUsize::new(0));
        let body = chunks(body, *limits, Arc::clone(&unread));
        Ok(Self { parts: Multipart::with_constraints(body, boundary, constraints), unread })
    }

    /// Returns the next part; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Part>, ApiError> {
        let field = self.parts.next_field().await.map_err(explain)?;
        Ok(field.map(|field| Part { field, unread: Arc::clone(&self.unread) }))
    }
}

impl Part {
    pub(crate) fn name(&self) -> &str {
        self.field.name().unwrap_or_default()
    }

    /// Returns the name of a file.
    pub(crate) fn file_name(&self) -> Option<&str> {
        self.field.file_name()
    }

    /// Returns the next bytes; `None` at the end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, ApiError> {
        let chunk = self.field.chunk().await.map_err(explain)?;
        let len = chunk.as_ref().map_or(0, Bytes::len);
        self.unread.fetch_sub(len, Ordering::Relaxed);
        Ok(chunk)
    }

    /// Reads a field that is not a file.
    pub(crate) async fn text(mut self) -> Result<String, ApiError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_TEXT_LEN {
                let message = format!("longer than the limit of {MAX_TEXT_LEN} bytes");
                return Err(ApiError::at(self.name(), &message));
            }
        }
        let not_text = |_| ApiError::at(self.name(), "is not valid UTF-8");
        String::from_utf8(bytes).map_err(not_text)
    }
}

/// Returns the pieces of a body, each only when the one before was looked at: the parser would otherwise keep all
/// that has arrived in memory, and the head of a part however long it is.
fn chunks(
    body: Body,
    limits: Limits,
    unread: Arc<AtomicUsize>,
) -> impl Stream<Item = Result<Vec<u8>, Cause>> + Send {
    stream::try_unfold(body, move |mut body| {
        let unread = Arc::clone(&unread);
        async move {
            tokio::task::yield_now().await;
            let Some(chunk) = next_chunk(&mut body, &limits).await.map_err(Cause)? else {
                return Ok(None);
            };
            let before = unread.fetch_add(chunk.len(), Ordering::Relaxed);
            if before > MAX_OVERHEAD {
                let message = "the form has too much besides its fields";
                return Err(Cause(ApiError::invalid(message)));
            }
            Ok(Some((chunk, body)))
        }
    })
}

/// An error of the body, on its way through the parser.
#[derive(Debug)]
struct Cause(ApiError);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Cause {}

fn explain(error: multer::Error) -> ApiError {
    match error {
        multer::Error::StreamReadFailed(cause) => match cause.downcast::<Cause>() {
            Ok(cause) => cause.0,
            Err(_) => ApiError::internal(),
        },
        multer::Error::StreamSizeExceeded { limit } => {
            let message = format!("request body is larger than the limit of {limit} bytes");
            let status = axum::http::StatusCode::PAYLOAD_TOO_LARGE;
            ApiError::status(status, "body_too_large", &message)
        }
        error => ApiError::invalid(format!("the form is not valid: {error}")),
    }
}
