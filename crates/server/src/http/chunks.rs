//! Reads bodies piece by piece, and ends those that arrive too slowly.

use axum::body::Body;
use axum::http::StatusCode;
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::error::ApiError;
use crate::options::Limits;

/// Bytes that have to arrive within each read timeout.
const MIN_PROGRESS: usize = 1024;

/// Returns the next bytes of a body, at least [`MIN_PROGRESS`] unless they are its last; `None` at its end.
pub(super) async fn next_chunk(
    body: &mut Body,
    limits: &Limits,
) -> Result<Option<Vec<u8>>, ApiError> {
    let mut bytes = Vec::new();
    let progress = async {
        while bytes.len() < MIN_PROGRESS {
            let Some(frame) = body.frame().await else { break };
            let cut = |_| ApiError::invalid("request body ended before it was complete");
            if let Ok(data) = frame.map_err(cut)?.into_data() {
                bytes.extend_from_slice(&data);
            }
        }
        Ok(())
    };
    match timeout(limits.read_timeout, progress).await {
        Ok(read) => read.map(|()| (!bytes.is_empty()).then_some(bytes)),
        Err(_) => {
            let message = "request body arrived too slowly";
            Err(ApiError::status(StatusCode::REQUEST_TIMEOUT, "body_too_slow", message))
        }
    }
}
