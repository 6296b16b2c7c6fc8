//! Other people's JSON for the same work.

pub(crate) mod anthropic;
pub(crate) mod ollama;
pub(crate) mod responses;
pub(crate) mod sglang;

use axum::body::Body;
use axum::http::{Request, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::error::ApiError;
use crate::request_id::RequestId;

/// Says errors in the form that clients of a path expect, wherever on the way they arose.
pub(crate) async fn say_errors(request: Request<Body>, next: Next) -> Response {
    let path = request.uri().path();
    let is_anthropic = path == "/v1/messages" || path.starts_with("/v1/messages/");
    let is_ollama = path.starts_with("/api/");
    if !is_anthropic && !is_ollama {
        return next.run(request).await;
    }
    let id = request.extensions().get::<RequestId>().cloned();
    let mut response = next.run(request).await;
    let Some(error) = response.extensions_mut().remove::<ApiError>() else { return response };
    let body = match is_ollama {
        true => ollama::error_body(&error),
        false => anthropic::error_body(&error, id.as_ref()),
    };
    let (mut head, _) = response.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::from(body))
}
