//! The response to a request whose model takes long to load: a stream that begins before there is anything to send.

use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use tokio::time::timeout;

use super::Writer;
use crate::app::{App, is_on};
use crate::error::ApiError;
use crate::observe::log::RequestLog;

/// Sends signs of life until there is a response, and then its body. The head is sent before, so an error is a part
/// of the stream.
pub(super) fn late_response<W: Writer>(
    app: &App,
    model: &str,
    log: Option<RequestLog>,
    response: impl Future<Output = Result<Response, ApiError>> + Send + 'static,
) -> Response {
    let mut stop = app.stop_signal();
    let body = async move {
        let response = tokio::select! {
            response = response => response,
            () = is_on(&mut stop) => Err(ApiError::stopping()),
        };
        match response {
            Ok(response) => response.into_body(),
            Err(error) => {
                log.iter().for_each(|log| log.set_error(error.code));
                Body::from(W::refusal(&error) + W::END)
            }
        }
    };
    let sign = Bytes::from(W::waiting(model));
    let late =
        Late { sign: sign.clone(), every: app.options.limits.keep_alive, body: Box::pin(body) };
    let first = stream::iter([Ok(sign)]);
    let rest = stream::unfold(Stage::Waiting(late), Stage::next);
    W::stream(Body::from_stream(first.chain(rest)))
}

/// A body that is not there yet.
struct Late {
    sign: Bytes,
    /// Interval of the signs.
    every: Duration,
    body: Pin<Box<dyn Future<Output = Body> + Send>>,
}

enum Stage {
    Waiting(Late),
    Sending(BodyDataStream),
}

impl Stage {
    /// Returns the next bytes, or `None` after the last.
    async fn next(self) -> Option<(Result<Bytes, axum::Error>, Self)> {
        let mut chunks = match self {
            Self::Waiting(mut late) => match timeout(late.every, &mut late.body).await {
                Err(_) => return Some((Ok(late.sign.clone()), Self::Waiting(late))),
                Ok(body) => body.into_data_stream(),
            },
            Self::Sending(chunks) => chunks,
        };
        let chunk = chunks.next().await?;
        Some((chunk, Self::Sending(chunks)))
    }
}
