//! Embeddings of texts, a few at a time.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::sleep;
use wf_api::wire::Prompt;
use wf_engine::{Embedding, EmbeddingRequest, FrontendError, ModelText, RequestError, TokenId};

use super::Context;
use super::fields::check_range;
use crate::app::{App, is_on};
use crate::error::ApiError;
use crate::models::ServedModel;

/// Texts of one request that are in the engine at once: enough to fill its steps, few enough to leave turns
/// to other requests.
const CONCURRENCY: usize = 16;
/// Pause before a request that has begun tries a full queue again.
const RETRY: Duration = Duration::from_millis(20);

/// A tokenized text, with its path in the request.
struct Text {
    field: String,
    tokens: Vec<TokenId>,
}

/// Vectors of texts, in order.
pub(crate) struct Embedded {
    pub(crate) vectors: Vec<Vec<f32>>,
    /// Number of tokens of all texts.
    pub(crate) tokens: u32,
}

/// Tokenizes the texts of a field with `to_ids`, and computes a vector for each with the settings of `template`.
/// Dropping the future cancels what is not computed yet.
pub(crate) async fn embed(
    cx: &Context,
    field: &'static str,
    input: Prompt,
    to_ids: impl Fn(&ModelText, &str) -> Vec<TokenId> + Send + 'static,
    template: EmbeddingRequest,
) -> Result<Embedded, ApiError> {
    let (app, model) = (&cx.app, &cx.model);
    app.check_draining()?;
    let max_dimensions = model.frontend.embedding_len();
    check_range("dimensions", template.dimensions.unwrap_or(1), 1..=max_dimensions)?;
    check_count(app, field, &input)?;
    let texts = model
        .run(move |frontend| texts(field, input, |text| to_ids(frontend.text(), text)))
        .await?;
    texts.iter().try_for_each(|text| check(cx, text))?;
    let tokens = texts.iter().map(|text| text.tokens.len()).sum::<usize>() as u32;
    let deadline = cx.deadline();
    let one = |(at, text): (usize, Text)| {
        let embed = EmbeddingRequest {
            tokens: text.tokens,
            deadline: Some(deadline),
            origin: cx.origin(template.priority),
            max_kv_tokens: cx.max_kv_tokens(),
            ..template.clone()
        };
        embed_one(cx, embed, at > 0, deadline)
    };
    let vectors = stream::iter(texts.into_iter().enumerate()).map(one).buffered(CONCURRENCY);
    let mut stop = app.stop_signal();
    let vectors = tokio::select! {
        vectors = vectors.try_collect() => vectors,
        () = is_on(&mut stop) => Err(ApiError::stopping()),
    };
    Ok(Embedded { vectors: vectors?, tokens })
}

async fn embed_one(
    cx: &Context,
    embed: EmbeddingRequest,
    has_begun: bool,
    deadline: Instant,
) -> Result<Vec<f32>, ApiError> {
    let (app, len) = (&cx.app, embed.tokens.len());
    let entry = cx.enter(len);
    // A text that is refused has not begun, and so has no end.
    let embedding = start(&cx.model, embed, has_begun, deadline).await?;
    entry.start();
    cx.meter().count_prompt(len, 1);
    let mut ended = Ended { app, reason: "abort" };
    let vector = embedding.vector().await;
    ended.reason = if vector.is_ok() { "stop" } else { "error" };
    Ok(vector?)
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

fn texts(field: &str, input: Prompt, ids: impl Fn(&str) -> Vec<TokenId>) -> Vec<Text> {
    let named = |(at, tokens)| Text { field: format!("{field}[{at}]"), tokens };
    match input {
        Prompt::Text(text) => vec![Text { field: field.to_owned(), tokens: ids(&text) }],
        Prompt::Ids(tokens) => vec![Text { field: field.to_owned(), tokens }],
        Prompt::Texts(texts) => texts.iter().map(|text| ids(text)).enumerate().map(named).collect(),
        Prompt::ManyIds(many) => many.into_iter().enumerate().map(named).collect(),
    }
}

fn check_count(app: &App, field: &str, input: &Prompt) -> Result<(), ApiError> {
    let count = match input {
        Prompt::Text(_) | Prompt::Ids(_) => 1,
        Prompt::Texts(texts) => texts.len(),
        Prompt::ManyIds(many) => many.len(),
    };
    let max = app.options.limits.embedding_inputs;
    if count <= max {
        return Ok(());
    }
    Err(ApiError::field(field, format!("{field} has {count} texts: must have at most {max}")))
}

/// Rejects texts that the engine would reject, under their names in the request and before any is computed.
fn check(cx: &Context, text: &Text) -> Result<(), ApiError> {
    let (field, tokens) = (&text.field, &text.tokens);
    if tokens.is_empty() {
        return Err(ApiError::at(field, "must have at least one token"));
    }
    cx.model.check_tokens(field, tokens)?;
    let (len, max_len) = (tokens.len(), cx.max_len());
    if len > max_len {
        let message =
            format!("{field} has {len} tokens, which exceeds the context of {max_len} tokens");
        return Err(ApiError::too_long(field, message));
    }
    Ok(())
}
