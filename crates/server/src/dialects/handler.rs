//! The handler of all requests that generate text, in any dialect.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::watch;
use tokio::time::sleep;

use super::suggest::add_suggestion;
use super::{Dialect, Writer};
use crate::app::{App, is_on};
use crate::error::ApiError;
use crate::generation::Context;
use crate::generation::sequences::Sequences;
use crate::http::body::read_json;

/// Reads a request, runs its sequences, and responds with a stream or as a whole.
pub(super) async fn generate<D: Dialect>(
    app: App,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let cx = Context::new(&app, &request)?;
    let request = read_json(request, &app.options.limits).await?;
    let respond = async {
        let (dialect, mut generation) = D::read(request, &cx)?;
        let prompts = generation.tokenize(cx.model).await?;
        generation.compile(cx.model).await?;
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

/// Waits for all sequences and folds their frames into one response.
async fn whole_response<W: Writer>(
    app: &App,
    mut sequences: Sequences,
    mut writer: W,
) -> Result<Response, ApiError> {
    let mut stop = app.stop_signal();
    let mut response = writer.response();
    let mut frames = writer.start(&sequences);
    loop {
        frames.into_iter().for_each(|frame| W::fold(&mut response, frame));
        let next = tokio::select! {
            next = sequences.next() => next,
            () = is_on(&mut stop) => return Err(ApiError::stopping()),
        };
        frames = match next {
            Some((at, event)) => writer.event(&sequences, at, event?),
            None => break,
        };
    }
    writer.end(&sequences).into_iter().for_each(|frame| W::fold(&mut response, frame));
    Ok(Json(response).into_response())
}

/// Sends frames as they come. If the client disconnects, the sequences are dropped and thereby cancelled.
fn stream_response<W: Writer>(app: &App, sequences: Sequences, writer: W) -> Response {
    let stream = ResponseStream {
        sequences,
        writer,
        stop: app.stop_signal(),
        keep_alive: app.options.limits.keep_alive,
        state: State::New,
    };
    let chunks = stream::unfold(stream, |mut stream| async {
        let bytes = stream.next().await?;
        Some((Ok::<_, Infallible>(bytes), stream))
    });
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
    state: State,
}

enum State {
    New,
    Running,
    Ended,
}

impl<W: Writer> ResponseStream<W> {
    /// Returns the next bytes to send, or `None` after the last.
    async fn next(&mut self) -> Option<String> {
        match self.state {
            State::New => {
                self.state = State::Running;
                let frames = self.writer.start(&self.sequences);
                let bytes = self.encode(frames);
                Some(if bytes.is_empty() { self.next_frames().await } else { bytes })
            }
            State::Running => Some(self.next_frames().await),
            State::Ended => None,
        }
    }

    async fn next_frames(&mut self) -> String {
        loop {
            let next = tokio::select! {
                next = self.sequences.next() => next,
                () = is_on(&mut self.stop) => return self.fail(&ApiError::stopping()),
                () = sleep(self.keep_alive) => return self.writer.keep_alive(),
            };
            match next {
                Some((at, Ok(event))) => {
                    let frames = self.writer.event(&self.sequences, at, event);
                    let bytes = self.encode(frames);
                    if !bytes.is_empty() {
                        return bytes;
                    }
                }
                Some((_, Err(error))) => return self.fail(&error.into()),
                None => {
                    self.state = State::Ended;
                    let frames = self.writer.end(&self.sequences);
                    return self.encode(frames) + &self.writer.close();
                }
            }
        }
    }

    fn encode(&mut self, frames: Vec<W::Frame>) -> String {
        frames.into_iter().map(|frame| self.writer.encode(frame)).collect()
    }

    /// Reports an error and ends the stream.
    fn fail(&mut self, error: &ApiError) -> String {
        self.state = State::Ended;
        self.writer.error(error) + &self.writer.close()
    }
}
