//! Pieces of replies become server-sent events, or one whole answer.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::watch;
use tokio::time::sleep;
use wf_client::sse;
use wf_client::wire::{PromptTokensDetails, Timings, Usage};
use wf_engine::Piece;

use crate::app::{App, is_on};
use crate::error::ApiError;
use crate::replies::Replies;

/// One dialect of streams.
pub(crate) trait Writer: Send + 'static {
    /// The events before the first piece; may be none.
    fn begin(&mut self, replies: &Replies) -> String;

    /// The events of a piece of the reply at a place; may be none.
    fn piece(&mut self, replies: &Replies, at: usize, piece: Piece) -> String;

    /// The events after the last piece, but for the one that ends every stream.
    fn end(&mut self, replies: &Replies) -> String;

    /// What the bytes are.
    fn content_type(&self) -> &'static str {
        "text/event-stream"
    }

    /// The event that ends every stream; may be none.
    fn close(&self) -> String {
        sse::event(sse::DONE)
    }

    /// What is wrong, as the last event but for the one that ends every stream.
    fn error(&mut self, error: &ApiError) -> String {
        sse::json_event(&error.body())
    }

    /// Says that the connection is alive.
    fn keep_alive(&self) -> String {
        sse::comment("keep-alive")
    }
}

struct Sending<W> {
    replies: Replies,
    writer: W,
    stop: watch::Receiver<bool>,
    keep_alive: Duration,
    state: State,
}

enum State {
    New,
    Going,
    Over,
}

/// A response that sends replies as they are written. If the client goes away, they are cancelled.
pub(crate) fn respond<W: Writer>(app: &App, replies: Replies, writer: W) -> Response {
    let content_type = HeaderValue::from_static(writer.content_type());
    let sending = Sending {
        replies,
        writer,
        stop: app.stop_signal(),
        keep_alive: app.options.limits.keep_alive,
        state: State::New,
    };
    let events = stream::unfold(sending, |mut sending| async {
        let bytes = sending.next().await?;
        Some((Ok::<_, Infallible>(bytes), sending))
    });
    let mut response = Body::from_stream(events).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that gather bytes would hold tokens back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl<W: Writer> Sending<W> {
    /// The next bytes to send; nothing after the last.
    async fn next(&mut self) -> Option<String> {
        match self.state {
            State::New => {
                self.state = State::Going;
                let begin = self.writer.begin(&self.replies);
                Some(if begin.is_empty() { self.next_events().await } else { begin })
            }
            State::Going => Some(self.next_events().await),
            State::Over => None,
        }
    }

    async fn next_events(&mut self) -> String {
        loop {
            let next = tokio::select! {
                next = self.replies.next() => next,
                () = is_on(&mut self.stop) => return self.fail(&ApiError::stopping()),
                () = sleep(self.keep_alive) => return self.writer.keep_alive(),
            };
            match next {
                Some((at, Ok(piece))) => {
                    let events = self.writer.piece(&self.replies, at, piece);
                    if !events.is_empty() {
                        return events;
                    }
                }
                Some((_, Err(error))) => return self.fail(&error.into()),
                None => {
                    self.state = State::Over;
                    return self.writer.end(&self.replies) + &self.writer.close();
                }
            }
        }
    }

    /// What is wrong, and the end.
    fn fail(&mut self, error: &ApiError) -> String {
        self.state = State::Over;
        self.writer.error(error) + &self.writer.close()
    }
}

/// Waits for all replies, handing their pieces to `take`.
pub(crate) async fn collect(
    app: &App,
    replies: &mut Replies,
    mut take: impl FnMut(&Replies, usize, Piece),
) -> Result<(), ApiError> {
    let mut stop = app.stop_signal();
    loop {
        let next = tokio::select! {
            next = replies.next() => next,
            () = is_on(&mut stop) => return Err(ApiError::stopping()),
        };
        match next {
            Some((at, Ok(piece))) => take(replies, at, piece),
            Some((_, Err(error))) => return Err(error.into()),
            None => return Ok(()),
        }
    }
}

/// The tokens counted, of replies to prompts that have `choices` each.
pub(crate) fn usage(replies: &Replies, choices: usize) -> Usage {
    let streams = || (0..replies.len()).map(|at| replies.stream(at));
    let firsts = || streams().step_by(choices);
    let prompt_tokens = firsts().map(|reply| reply.prompt_ids().len()).sum::<usize>() as u32;
    let completion_tokens = streams().map(|reply| reply.ids().len()).sum::<usize>() as u32;
    let cached = firsts().map(|reply| reply.timings().cached_tokens).sum::<usize>() as u32;
    Usage {
        prompt_tokens,
        completion_tokens,
        total_tokens: prompt_tokens + completion_tokens,
        prompt_tokens_details: Some(PromptTokensDetails {
            cached_tokens: cached,
            cache_write_tokens: prompt_tokens - cached,
        }),
    }
}

/// Where the time of a reply went, as it is told.
pub(crate) fn timings(t: &wf_engine::Timings) -> Timings {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let rate = |tokens: usize, time: Duration| match time.is_zero() {
        true => 0.0,
        false => tokens as f64 / time.as_secs_f64(),
    };
    let computed = t.prompt_tokens.saturating_sub(t.cached_tokens);
    let prefill = t.prompt.saturating_sub(t.queued);
    Timings {
        queue_ms: ms(t.queued),
        cache_n: t.cached_tokens as u32,
        prompt_n: computed as u32,
        prompt_ms: ms(prefill),
        prompt_per_second: rate(computed, prefill),
        predicted_n: t.reply_tokens as u32,
        predicted_ms: ms(t.reply),
        predicted_per_second: rate(t.timed_tokens, t.reply),
        passes_n: t.work.passes as u32,
        draft_n: t.work.drafted as u32,
        draft_n_accepted: t.work.agreed as u32,
    }
}

/// Where the time went of the reply that took longest.
pub(crate) fn longest_timings(replies: &Replies) -> Timings {
    let all = (0..replies.len()).map(|at| replies.stream(at).timings());
    all.max_by_key(|t| t.prompt + t.reply).map(|t| timings(&t)).unwrap_or_default()
}
