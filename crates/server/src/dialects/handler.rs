//! The handler of all requests that generate text, in any dialect.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Request, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::{StreamExt, stream};
use tokio::sync::watch;
use tokio::time::sleep;
use utoipa::ToSchema;

use super::suggest::add_suggestion;
use super::{Dialect, Writer};
use crate::app::{App, is_on};
use crate::error::ApiError;
use crate::generation::{Context, Sequences};
use crate::http::body::read_json;
use crate::http::routes::{Doc, JSON, Routes};

impl Routes {
    /// Adds a route that generates text: a response of type `T`, or a stream of `E`.
    pub(super) fn generate<D: Dialect, T: ToSchema, E: ToSchema>(
        self,
        path: &str,
        doc: Doc,
    ) -> Self {
        let respond = async |State(app): State<App>, request: Request<Body>| {
            generate::<D>(app, request).await
        };
        self.route::<T>("post", path, doc, JSON, post(respond))
            .responding::<E>("post", path, D::Writer::CONTENT_TYPE)
            .reading::<D::Request>(path)
    }
}

/// Reads a request, runs its sequences, and responds with a stream or as a whole.
async fn generate<D: Dialect>(app: App, request: Request<Body>) -> Result<Response, ApiError> {
    app.check_draining()?;
    let cx = Context::new(&app, &request)?;
    let request = read_json(request, &app).await?;
    let respond = async {
        let (dialect, mut generation) = D::read(request, &cx)?;
        let prompts = generation.tokenize(&cx).await?;
        generation.compile(&cx.model).await?;
        let sequences = Sequences::start(&cx, &generation, prompts)?;
        let writer = dialect.writer(&cx, &generation, &sequences);
        if generation.stream && sequences.len() > 0 {
            return Ok(stream_response(&app, sequences, writer));
        }
        whole_response(&app, sequences, writer).await
    };
    let suggest = |error| add_suggestion::<D::Request>(error, D::ALIASES);
    respond.await.map_err(|error| suggest(error).renamed(D::ALIASES))
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
    let mut response = Body::from_stream(chunks).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(W::CONTENT_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Buffering proxies would hold tokens back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
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
        while !self.has_ended {
            let next = tokio::select! {
                next = self.sequences.next() => next,
                () = is_on(&mut self.stop) => return Some(self.fail(&ApiError::stopping())),
                () = sleep(self.keep_alive) => return Some(self.writer.keep_alive()),
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
