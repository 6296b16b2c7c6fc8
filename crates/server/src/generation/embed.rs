//! Embeddings of texts, a few at a time.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::sleep;
use wf_engine::{Embedding, EmbeddingRequest, FrontendError, Pooling, RequestError, TokenId};

use super::Context;
use crate::app::{App, ServedModel, is_on};
use crate::error::ApiError;

/// Texts of one request that are in the engine at once: enough to fill its steps, few enough to leave turns
/// to other requests.
const CONCURRENCY: usize = 16;
/// Pause before a request that has begun tries a full queue again.
const RETRY: Duration = Duration::from_millis(20);

/// Settings that hold for every text of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EmbedOptions {
    pub(crate) pooling: Option<Pooling>,
    pub(crate) dimensions: Option<usize>,
    pub(crate) cache_salt: u64,
    pub(crate) priority: i32,
}

impl EmbedOptions {
    /// Rejects a number of dimensions that vectors of this model do not have.
    pub(crate) fn check_dimensions(&self, model: &ServedModel) -> Result<(), ApiError> {
        let max = model.frontend.embedding_len();
        match self.dimensions {
            Some(len) if len == 0 || len > max => {
                let message = format!("dimensions is {len}: must be between 1 and {max}");
                Err(ApiError::field("dimensions", message))
            }
            _ => Ok(()),
        }
    }
}

/// A tokenized text, with its path in the request.
pub(crate) struct Text {
    pub(crate) field: String,
    pub(crate) tokens: Vec<TokenId>,
}

/// Computes the vector of each text, in order. Dropping the future cancels what is not computed yet.
pub(crate) async fn embed(
    cx: &Context<'_>,
    texts: Vec<Text>,
    options: EmbedOptions,
) -> Result<Vec<Vec<f32>>, ApiError> {
    let Context { app, model, request_id, .. } = cx;
    texts.iter().try_for_each(|text| check(model, text))?;
    let deadline = Instant::now() + app.options.limits.deadline;
    let mut stop = app.stop_signal();
    let one = |(at, text): (usize, Text)| async move {
        let entry = app.in_flight.enter(request_id, text.tokens.len());
        app.metrics.count_prompt(text.tokens.len(), 1);
        let mut ended = Ended { app, reason: "abort" };
        let embed = EmbeddingRequest {
            tokens: text.tokens,
            pooling: options.pooling,
            dimensions: options.dimensions,
            cache_salt: options.cache_salt,
            priority: options.priority,
            deadline: Some(deadline),
        };
        let vector = match start(model, embed, at > 0, deadline).await {
            Ok(embedding) => {
                entry.start();
                embedding.vector().await
            }
            Err(error) => Err(error),
        };
        ended.reason = if vector.is_ok() { "stop" } else { "error" };
        vector.map_err(ApiError::from)
    };
    let vectors = stream::iter(texts.into_iter().enumerate()).map(one).buffered(CONCURRENCY);
    tokio::select! {
        vectors = vectors.try_collect() => vectors,
        () = is_on(&mut stop) => Err(ApiError::stopping()),
    }
}

/// Submits a text. A request that has begun waits where a new one would be rejected.
async fn start(
    model: &ServedModel,
    embed: EmbeddingRequest,
    has_begun: bool,
    deadline: Instant,
) -> Result<Embedding, FrontendError> {
    loop {
        match model.frontend.embed(embed.clone()) {
            Err(FrontendError::Request(RequestError::QueueFull { .. }))
                if has_begun && Instant::now() < deadline =>
            {
                sleep(RETRY).await;
            }
            started => return started,
        }
    }
}

/// Counts how a text ended, also if its client disconnected.
struct Ended<'a> {
    app: &'a App,
    reason: &'static str,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.app.metrics.count_end(self.reason, None);
    }
}

/// Rejects texts that the engine would reject, under their names in the request and before any is computed.
fn check(model: &ServedModel, text: &Text) -> Result<(), ApiError> {
    let (field, tokens) = (&text.field, &text.tokens);
    if tokens.is_empty() {
        return Err(ApiError::at(field, "must have at least one token"));
    }
    model.check_tokens(field, tokens)?;
    let (len, context_len) = (tokens.len(), model.frontend.context_len());
    if len > context_len {
        let message =
            format!("{field} has {len} tokens, which exceeds the context of {context_len} tokens");
        let error = ApiError::field(field, message);
        return Err(ApiError { code: "context_length_exceeded", ..error });
    }
    Ok(())
}
