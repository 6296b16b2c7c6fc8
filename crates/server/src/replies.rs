//! The replies to one request, side by side.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Instant;

use tracing::Span;
use wf_engine::{Finish, FrontendError, Generate, Piece, TextStream, TokenId};

use crate::app::{App, ServedModel};
use crate::error::ApiError;
use crate::in_flight::Place;
use crate::trace::{Written, record_written};

/// How a reply ended whose reader went away.
const ABORTED: &str = "abort";

/// The replies to one request. Dropping it cancels what is not written yet.
pub(crate) struct Replies {
    replies: Vec<Reply>,
    /// Who is looked at first, so that nobody always is.
    turn: usize,
    /// The request's, which lasts as long as its replies.
    span: Span,
}

/// One reply and what is counted of it.
struct Reply {
    stream: TextStream,
    app: App,
    place: Place,
    arrived: Instant,
    last_token: Option<Instant>,
    /// How many replies its prompt has, if it is the first of them: prompts are counted once.
    counts_prompt: Option<usize>,
    /// How it ended, once that was counted.
    end: Option<&'static str>,
}

impl Replies {
    /// Begins `choices` replies to each prompt, or none at all.
    pub(crate) fn start(
        app: &App,
        model: &ServedModel,
        request_id: &str,
        prompts: Vec<Vec<TokenId>>,
        choices: u32,
        generate: &Generate,
    ) -> Result<Self, ApiError> {
        let (arrived, span) = (Instant::now(), Span::current());
        span.record("gen_ai.request.model", model.name());
        let mut replies = Vec::with_capacity(prompts.len() * choices as usize);
        for prompt in prompts {
            for choice in 0..choices {
                let place = app.enter(request_id, prompt.len());
                let mut generate = generate.clone();
                generate.sampling.choice = choice;
                let stream = model.frontend.generate_from(prompt.clone(), generate)?;
                replies.push(Reply {
                    stream,
                    app: app.clone(),
                    place,
                    arrived,
                    last_token: None,
                    counts_prompt: (choice == 0).then_some(choices as usize),
                    end: None,
                });
            }
        }
        Ok(Self { replies, turn: 0, span })
    }

    /// The next piece of any reply, with the reply's place; nothing once all have ended.
    pub(crate) async fn next(&mut self) -> Option<(usize, Result<Piece, FrontendError>)> {
        poll_fn(|cx| {
            let count = self.replies.len();
            let mut all_ended = true;
            for at in (0..count).map(|i| (self.turn + i) % count) {
                let reply = &mut self.replies[at];
                if reply.end.is_some() {
                    continue;
                }
                // Whoever stops waiting for a piece loses nothing.
                let polled = pin!(reply.stream.next_piece()).poll(cx);
                match polled {
                    Poll::Pending => all_ended = false,
                    Poll::Ready(None) => {}
                    Poll::Ready(Some(piece)) => {
                        reply.count(&piece);
                        self.turn = at + 1;
                        return Poll::Ready(Some((at, piece)));
                    }
                }
            }
            if all_ended { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }

    /// The reply at a place.
    pub(crate) fn stream(&self, at: usize) -> &TextStream {
        &self.replies[at].stream
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.replies.len()
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        if self.span.is_disabled() {
            return;
        }
        let mut written = Written::default();
        for reply in &self.replies {
            if reply.counts_prompt.is_some() {
                written.prompt_tokens += reply.stream.prompt_ids().len();
            }
            written.reply_tokens += reply.stream.ids().len();
            written.reasons.push(reply.end.unwrap_or(ABORTED));
        }
        record_written(&self.span, &written);
    }
}

impl Reply {
    fn count(&mut self, piece: &Result<Piece, FrontendError>) {
        match piece {
            Ok(Piece::Started { .. }) => {
                self.place.started.store(true, Ordering::Relaxed);
                if let Some(choices) = self.counts_prompt {
                    self.app.metrics.count_prompt(self.stream.prompt_ids().len(), choices);
                }
            }
            Ok(Piece::Text { token: Some(_), .. }) => {
                let now = Instant::now();
                let since_last = self.last_token.map(|last| now - last);
                self.app.metrics.count_token(now - self.arrived, since_last);
                self.last_token = Some(now);
                self.place.written.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Piece::Done(Finish { reason, timings, .. })) => {
                self.end = Some(reason.name());
                self.app.metrics.count_end(reason.name(), Some(timings));
            }
            Err(_) => {
                self.end = Some("error");
                self.app.metrics.count_end("error", None);
            }
            Ok(
                Piece::Text { token: None, .. }
                | Piece::PromptLogprobs(_)
                | Piece::Progress { .. }
                | Piece::Preview(_),
            ) => {}
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.end.is_none() {
            self.app.metrics.count_end(ABORTED, None);
        }
    }
}
