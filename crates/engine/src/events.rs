//! Events of a request, as the engine thread sends them.
//!
//! The engine never waits for a reader. What an unread request holds is bounded all the same: the tokens of its
//! completion, the logprobs of its prompt, and [`MAX_UNREAD`] reports of progress. Further reports are dropped, as the
//! next one replaces them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::clock;
use crate::request::Event;

/// Number of unread events from which on reports of progress are dropped.
pub(crate) const MAX_UNREAD: usize = 64;

/// Creates the two ends of the events of one request.
pub(crate) fn channel() -> (EventSender, Events) {
    let (sender, receiver) = unbounded_channel();
    let unread = Arc::new(AtomicUsize::new(0));
    (EventSender { sender, unread: Arc::clone(&unread) }, Events { receiver, unread })
}

/// The end of the engine.
pub(crate) struct EventSender {
    sender: UnboundedSender<(Instant, Event)>,
    unread: Arc<AtomicUsize>,
}

impl EventSender {
    pub(crate) fn send(&self, event: Event) {
        let is_report = matches!(event, Event::Progress { .. } | Event::Preview(_));
        if is_report && self.unread.load(Ordering::Relaxed) >= MAX_UNREAD {
            return;
        }
        self.unread.fetch_add(1, Ordering::Relaxed);
        // A closed channel is noticed before the next step.
        let _ = self.sender.send((clock::now(), event));
    }

    /// Returns `true` if the reader is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

/// Events of a request. Dropping it cancels the request within one step.
pub struct Events {
    receiver: UnboundedReceiver<(Instant, Event)>,
    unread: Arc<AtomicUsize>,
}

impl Events {
    /// Blocks until the next event. Returns `None` after `Done`, or if the engine died.
    pub fn next_blocking(&mut self) -> Option<Event> {
        self.next_with_time().map(|(_, event)| event)
    }

    /// Waits for the next event and the time it happened. Returns `None` after `Done`, or if the engine died.
    pub async fn next(&mut self) -> Option<(Instant, Event)> {
        let event = self.receiver.recv().await;
        self.count(event)
    }

    /// Blocks until the next event and returns the time it happened, which may lie in the past if the
    /// reader is late. Returns `None` after `Done`, or if the engine died.
    pub fn next_with_time(&mut self) -> Option<(Instant, Event)> {
        let event = self.receiver.blocking_recv();
        self.count(event)
    }

    fn count(&self, event: Option<(Instant, Event)>) -> Option<(Instant, Event)> {
        self.unread.fetch_sub(usize::from(event.is_some()), Ordering::Relaxed);
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_dropped_while_nobody_reads() {
        let (sender, mut events) = channel();
        let report = |done| Event::Progress { done, total: 1000 };
        (0..1000).for_each(|done| sender.send(report(done)));
        sender.send(Event::Started { cached: 0 });
        assert_eq!(events.receiver.len(), MAX_UNREAD + 1, "other events are kept");
        (0..=MAX_UNREAD).for_each(|_| assert!(events.next_blocking().is_some()));
        sender.send(report(1000));
        assert_eq!(events.receiver.len(), 1, "a reader that catches up gets reports again");
        drop(events);
        assert!(sender.is_closed());
    }
}
