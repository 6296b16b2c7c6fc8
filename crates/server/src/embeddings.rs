//! Texts become vectors, a few at a time: what every dialect of that shares.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::sleep;
use wf_engine::{Embed, Embedding, FrontendError, Pooling, Refused, TokenId};

use crate::app::{App, ServedModel, is_on};
use crate::error::ApiError;

/// Texts of one request that the engine has at once: enough to fill its steps, few enough to leave
/// turns to others.
const AT_ONCE: usize = 16;
/// How long to wait for room in the queue, once a request has begun.
const RETRY: Duration = Duration::from_millis(20);

/// What is asked for of every text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) pooling: Option<Pooling>,
    pub(crate) dimensions: Option<usize>,
    pub(crate) cache_salt: u64,
    pub(crate) priority: i32,
}

impl Wanted {
    /// Refuses a number of dimensions that a vector of this model cannot have.
    pub(crate) fn check_dimensions(&self, model: &ServedModel) -> Result<(), ApiError> {
        let most = model.frontend.embedding_len();
        match self.dimensions {
            Some(len) if len == 0 || len > most => {
                let message = format!("dimensions is {len}: 1 to {most} is allowed");
                Err(ApiError::field("dimensions", message))
            }
            _ => Ok(()),
        }
    }
}

/// A text as the engine gets it, and what the request calls it.
pub(crate) struct Text {
    pub(crate) field: String,
    pub(crate) tokens: Vec<TokenId>,
}

/// The vector of each text, in order. Dropping this cancels what is not computed yet.
pub(crate) async fn embed(
    app: &App,
    model: &ServedModel,
    request_id: &str,
    texts: Vec<Text>,
    wanted: Wanted,
) -> Result<Vec<Vec<f32>>, ApiError> {
    texts.iter().try_for_each(|text| check(model, text))?;
    let deadline = Instant::now() + app.options.limits.deadline;
    let mut stop = app.stop_signal();
    let one = |(at, text): (usize, Text)| async move {
        let place = app.enter(request_id, text.tokens.len());
        app.metrics.count_prompt(text.tokens.len(), 1);
        let mut ended = Ended { app, reason: "abort" };
        let embed = Embed {
            tokens: text.tokens,
            pooling: wanted.pooling,
            dimensions: wanted.dimensions,
            cache_salt: wanted.cache_salt,
            priority: wanted.priority,
            deadline: Some(deadline),
        };
        let vector = match start(model, embed, at > 0, deadline).await {
            Ok(embedding) => {
                place.started.store(true, std::sync::atomic::Ordering::Relaxed);
                embedding.vector().await
            }
            Err(error) => Err(error),
        };
        ended.reason = if vector.is_ok() { "stop" } else { "error" };
        vector.map_err(ApiError::from)
    };
    let vectors = stream::iter(texts.into_iter().enumerate()).map(one).buffered(AT_ONCE);
    tokio::select! {
        vectors = vectors.try_collect() => vectors,
        () = is_on(&mut stop) => Err(ApiError::stopping()),
    }
}

/// Hands a text in. A request that has begun waits where a new one would be sent away.
async fn start(
    model: &ServedModel,
    embed: Embed,
    has_begun: bool,
    deadline: Instant,
) -> Result<Embedding, FrontendError> {
    loop {
        match model.frontend.embed(embed.clone()) {
            Err(FrontendError::Refused(Refused::Busy { .. }))
                if has_begun && Instant::now() < deadline =>
            {
                sleep(RETRY).await;
            }
            started => return started,
        }
    }
}

/// Counts how a text ended, also if its reader went away.
struct Ended<'a> {
    app: &'a App,
    reason: &'static str,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.app.metrics.count_end(self.reason, None);
    }
}

/// Refuses what the engine would refuse, with the name that the request has for it, before any other
/// text is computed.
fn check(model: &ServedModel, text: &Text) -> Result<(), ApiError> {
    let (field, tokens) = (&text.field, &text.tokens);
    if tokens.is_empty() {
        return Err(ApiError::field(field, format!("{field}: a text without tokens")));
    }
    let vocab_len = model.frontend.engine().vocab_len();
    if let Some(unknown) = tokens.iter().find(|&&token| token as usize >= vocab_len) {
        let last = vocab_len - 1;
        let message = format!("{field}: {unknown} is not a token: 0 to {last} are");
        return Err(ApiError::field(field, message));
    }
    let (len, context) = (tokens.len(), model.frontend.context_len());
    if len > context {
        let message = format!("{field}: {len} tokens, the context of this model is {context}");
        let error = ApiError::field(field, message);
        return Err(ApiError { code: "context_length_exceeded", ..error });
    }
    Ok(())
}
