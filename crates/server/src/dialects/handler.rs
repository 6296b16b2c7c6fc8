//! The handler of all requests that generate text, in any dialect.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::{StreamExt, stream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use utoipa::ToSchema;

use super::late::late_response;
use super::suggest::add_suggestion;
use super::{Dialect, Writer};
use crate::app::{App, is_on};
use crate::error::ApiError;
use crate::generation::{Addressed, Arrival, Context, Sequences};
#[cfg(feature = "fuzzing")]
use crate::http::body::parse;
use crate::http::body::{Received, RequestBody, read_json};
use crate::http::routes::{Doc, JSON, Routes};
use crate::models::Lease;

impl Routes {
    /// Adds a route that generates text: a response of type `T`, or a stream of `E`.
    pub(super) fn generate<D: Dialect, T: ToSchema, E: ToSchema>(
        self,
        path: &str,
        doc: Doc,
    ) -> Self {
        #[cfg(feature = "fuzzing")]
        let this = self.reader(read::<D>);
        #[cfg(not(feature = "fuzzing"))]
        let this = self;
        let respond = async |State(app): State<App>, request: Request<Body>| {
            generate::<D>(app, request).await
        };
        this.route::<T>("post", path, doc, JSON, post(respond))
            .responding::<E>("post", path, D::Writer::CONTENT_TYPE)
            .reading::<D::Request>(path)
    }
}

/// Reads a request, waits for its model, runs its sequences, and responds with a stream or as a whole.
async fn generate<D: Dialect>(app: App, request: Request<Body>) -> Result<Response, ApiError> {
    app.check_draining()?;
    let arrival = Arrival::new(&app, &request)?;
    let Received { body, names, model, stream } = read_json(request, &app).await?;
    let request = arrival.for_model(model.as_deref())?;
    let respond = async move |cx: Context| {
        let suggest = |error| add_suggestion::<D::Request>(error, D::Request::OWN_NAMES);
        let unknown_fields = Arc::clone(&cx.unknown_fields);
        let response = respond::<D>(cx, body).await;
        let mut response = response.map_err(|error| suggest(error).renamed(&names))?;
        unknown_fields.report(response.headers_mut());
        Ok(response)
    };
    match load(&request, stream).await? {
        Some(lease) => respond(request.with_lease(lease)).await,
        None => {
            let (name, log) = (request.model_name()?.to_owned(), request.log());
            let response = async move {
                let lease = request.lease().await?;
                respond(request.with_lease(lease)).await
            };
            Ok(late_response::<D::Writer>(&app, &name, log, response))
        }
    }
}

/// Waits for the model of a request. Returns `None` if a stream has to begin before it is loaded, because its client
/// would take the silence for a broken connection.
async fn load(request: &Addressed, stream: bool) -> Result<Option<Lease>, ApiError> {
    let keep_alive = request.app.options.limits.keep_alive;
    let mut stop = request.app.stop_signal();
    tokio::select! {
        lease = request.lease() => lease.map(Some),
        () = sleep(keep_alive), if stream => Ok(None),
        () = is_on(&mut stop) => Err(ApiError::stopping()),
    }
}

async fn respond<D: Dialect>(cx: Context, body: D::Request) -> Result<Response, ApiError> {
    let (dialect, mut generation) = D::read(body, &cx)?;
    let prompts = generation.tokenize(&cx).await?;
    generation.compile(&cx.model).await?;
    let sequences = Sequences::start(&cx, &generation, prompts)?;
    let writer = dialect.writer(&cx, &generation, &sequences);
    if generation.stream && sequences.len() > 0 {
        return Ok(stream_response(&cx.app, sequences, writer));
    }
    whole_response(&cx.app, sequences, writer).await
}

/// Reads the body of a request and encodes its prompts: everything that needs no engine.
#[cfg(feature = "fuzzing")]
fn read<D: Dialect>(cx: &Context, body: &[u8]) -> Result<(), ApiError> {
    let Received { body, names, .. } = parse(body, &cx.app.options.limits)?;
    let suggest = |error| add_suggestion::<D::Request>(error, D::Request::OWN_NAMES);
    let read = D::read(body, cx).map_err(|error| suggest(error).renamed(&names));
    let (_, generation) = read?;
    generation.prompt.encode(cx.model.frontend.text())?;
    Ok(())
}

/// Waits for all sequences and adds their frames to one response.
async fn whole_response<W: Writer>(
    app: &App,
    mut sequences: Sequences,
    mut writer: W,
) -> Result<Response, ApiError> {
    let mut stop = app.stop_signal();
    let mut frames = writer.start(&sequences);
    loop {
        frames.into_iter().for_each(|frame| writer.fold(frame));
        let next = tokio::select! {
            next = sequences.next() => next,
            () = is_on(&mut stop) => return Err(ApiError::stopping()),
        };
        frames = match next {
            Some((at, event)) => writer.event(&sequences, at, event?),
            None => break,
        };
    }
    writer.end(&sequences).into_iter().for_each(|frame| writer.fold(frame));
    Ok(Json(writer.response()).into_response())
}

/// Sends frames as they come. If the client disconnects, the sequences are dropped and thereby cancelled.
fn stream_response<W: Writer>(app: &App, sequences: Sequences, mut writer: W) -> Response {
    let frames = writer.start(&sequences);
    let stream = ResponseStream {
        sequences,
        writer,
        stop: app.stop_signal(),
        keep_alive: app.options.limits.keep_alive,
        has_ended: false,
    };
    let start = Some(stream.encode(&frames)).filter(|start| !start.is_empty());
    let chunks = stream::unfold(stream, async |mut stream| Some((stream.next().await?, stream)));
    let chunks = stream::iter(start).chain(chunks).map(Ok::<_, Infallible>);
    W::stream(Body::from_stream(chunks))
}

struct ResponseStream<W> {
    sequences: Sequences,
    writer: W,
    stop: watch::Receiver<bool>,
    keep_alive: Duration,
    has_ended: bool,
}

impl<W: Writer> ResponseStream<W> {
    /// Returns the next bytes to send, or `None` after the last.
    async fn next(&mut self) -> Option<String> {
        // For all pieces until one has bytes: while a long prompt is read, many have none.
        let keep_alive = Instant::now() + self.keep_alive;
        while !self.has_ended {
            let next = tokio::select! {
                next = self.sequences.next() => next,
                () = is_on(&mut self.stop) => return Some(self.fail(&ApiError::stopping())),
                () = sleep_until(keep_alive) => return Some(self.writer.keep_alive()),
            };
            let bytes = match next {
                Some((at, Ok(event))) => {
                    let frames = self.writer.event(&self.sequences, at, event);
                    self.encode(&frames)
                }
                Some((_, Err(error))) => self.fail(&error.into()),
                None => {
                    self.has_ended = true;
                    let frames = self.writer.end(&self.sequences);
                    self.encode(&frames) + W::END
                }
            };
            if !bytes.is_empty() {
                return Some(bytes);
            }
        }
        None
    }

    fn encode(&self, frames: &[W::Frame]) -> String {
        frames.iter().map(|frame| self.writer.encode(frame)).collect()
    }

    fn fail(&mut self, error: &ApiError) -> String {
        self.has_ended = true;
        self.sequences.note_error(error);
        self.writer.error(error) + W::END
    }
}
