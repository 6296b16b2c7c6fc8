//! Requests to a server in this process, without a socket.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Answer, Caller};
use crate::access::{Background, Peer};
use crate::http::request_id;

/// Calls the routes of a server in this process.
#[derive(Clone)]
pub struct LocalCaller {
    router: Router,
    /// Sender of the requests, if it is not this process.
    sender: Option<Background>,
}

impl LocalCaller {
    /// Creates a caller of the routes of a server.
    pub fn new(router: Router) -> Self {
        Self { router, sender: None }
    }

    /// Creates a caller of the routes of a server on behalf of another, with less urgency than its own requests.
    pub(crate) fn on_behalf_of(router: Router, sender: Background) -> Self {
        Self { router, sender: Some(sender) }
    }
}

impl Caller for LocalCaller {
    async fn call(&self, endpoint: &'static str, body: Value) -> Result<Answer, String> {
        let text = body.to_string();
        drop(body);
        let mut request = Request::post(endpoint)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .extension(Peer::default())
            .body(Body::from(text))
            .map_err(|error| error.to_string())?;
        if let Some(sender) = &self.sender {
            request.extensions_mut().insert(sender.clone());
        }
        let response = match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let status = response.status().as_u16();
        let id = response.headers().get(request_id::HEADER);
        let request_id = id.and_then(|id| id.to_str().ok()).map(str::to_owned);
        let bytes = to_bytes(response.into_body(), usize::MAX).await;
        let bytes = bytes.map_err(|error| error.to_string())?;
        let text = || json!({"error": {"message": String::from_utf8_lossy(&bytes)}});
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
        Ok(Answer { status, request_id, body })
    }
}
