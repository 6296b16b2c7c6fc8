//! Time limits of connections between requests: one may be idle for long, but a head that has begun must arrive soon.

use std::future::Future;
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Requests of one connection.
#[derive(Clone, Default)]
pub(crate) struct Requests(Arc<Counts>);

#[derive(Default)]
struct Counts {
    started: AtomicUsize,
    ended: AtomicUsize,
}

impl Requests {
    /// Starts a request, whose head has arrived. It ends when the result is dropped.
    pub(crate) fn start(&self) -> Running {
        self.0.started.fetch_add(1, Ordering::Relaxed);
        Running(self.clone())
    }

    fn started(&self) -> usize {
        self.0.started.load(Ordering::Relaxed)
    }

    fn is_idle(&self) -> bool {
        self.started() == self.0.ended.load(Ordering::Relaxed)
    }
}

/// A request that has not been answered completely.
pub(crate) struct Running(Requests);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// The body of a response, during which its request runs.
pub(crate) struct RunningBody {
    pub(crate) body: Body,
    pub(crate) _request: Running,
}

impl hyper::body::Body for RunningBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The receiving half of a stream, which fails when a request head takes longer than a limit to arrive.
pub(crate) struct HeadGuard<S> {
    stream: S,
    requests: Requests,
    limit: Duration,
    /// Running since the first byte of a head, with the number of requests before it.
    begun: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<S> HeadGuard<S> {
    pub(crate) fn new(stream: S, requests: Requests, limit: Duration) -> Self {
        Self { stream, requests, limit, begun: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let started = self.requests.started();
        let is_stale = self.begun.as_ref().is_some_and(|(number, _)| *number != started);
        if is_stale || !self.requests.is_idle() {
            self.begun = None;
            return read;
        }
        if read.is_ready() {
            if self.begun.is_none() && buf.filled().len() > before {
                self.begun = Some((started, Box::pin(sleep(self.limit))));
            }
            return read;
        }
        let Some((_, timer)) = &mut self.begun else { return Poll::Pending };
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the request head arrived too slowly")))
    }
}
