//! The replies to one request, side by side.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Instant;

use wf_engine::{Finish, FrontendError, Generate, Piece, TextStream, TokenId};

use crate::app::{App, ServedModel};
use crate::error::ApiError;
use crate::in_flight::Place;

/// The replies to one request. Dropping it cancels what is not written yet.
pub(crate) struct Replies {
    replies: Vec<Reply>,
    /// Who is looked at first, so that nobody always is.
    turn: usize,
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
    /// Whether its end was counted.
    ended: bool,
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
        let arrived = Instant::now();
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
                    ended: false,
                });
            }
        }
        Ok(Self { replies, turn: 0 })
    }

    /// The next piece of any reply, with the reply's place; nothing once all have ended.
    pub(crate) async fn next(&mut self) -> Option<(usize, Result<Piece, FrontendError>)> {
        poll_fn(|cx| {
            let count = self.replies.len();
            let mut all_ended = true;
            for at in (0..count).map(|i| (self.turn + i) % count) {
                let reply = &mut self.replies[at];
                if reply.ended {
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
                self.ended = true;
                self.app.metrics.count_end(reason.name(), Some(timings));
            }
            Err(_) => {
                self.ended = true;
                self.app.metrics.count_end("error", None);
            }
            Ok(
                Piece::Text { token: None, .. } | Piece::PromptLogprobs(_) | Piece::Progress { .. },
            ) => {}
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.ended {
            self.app.metrics.count_end("abort", None);
        }
    }
}
