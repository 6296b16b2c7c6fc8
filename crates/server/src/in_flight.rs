//! The replies being written, for whoever wants to look.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::app::App;

/// All replies being written.
#[derive(Default)]
pub(crate) struct InFlight {
    replies: Mutex<Replies>,
}

#[derive(Default)]
struct Replies {
    next: u64,
    all: BTreeMap<u64, Arc<Reply>>,
}

/// What is known of a reply.
pub(crate) struct Reply {
    pub(crate) request_id: String,
    pub(crate) prompt_tokens: usize,
    pub(crate) written: AtomicUsize,
    pub(crate) started: AtomicBool,
    pub(crate) since: Instant,
}

/// A place among the replies in flight, which it leaves when dropped.
pub(crate) struct Place {
    app: App,
    number: u64,
    reply: Arc<Reply>,
}

impl std::ops::Deref for Place {
    type Target = Reply;

    fn deref(&self) -> &Reply {
        &self.reply
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.app.in_flight.replies().all.remove(&self.number);
    }
}

impl InFlight {
    fn replies(&self) -> std::sync::MutexGuard<'_, Replies> {
        // Nothing in there can be half done.
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, oldest first.
    pub(crate) fn list(&self) -> Vec<(u64, Arc<Reply>)> {
        self.replies().all.iter().map(|(number, reply)| (*number, Arc::clone(reply))).collect()
    }
}

impl App {
    /// One more reply is being written.
    pub(crate) fn enter(&self, request_id: &str, prompt_tokens: usize) -> Place {
        let reply = Arc::new(Reply {
            request_id: request_id.to_owned(),
            prompt_tokens,
            written: AtomicUsize::new(0),
            started: AtomicBool::new(false),
            since: Instant::now(),
        });
        let mut replies = self.in_flight.replies();
        let number = replies.next;
        replies.next += 1;
        replies.all.insert(number, Arc::clone(&reply));
        Place { app: self.clone(), number, reply }
    }
}

impl Reply {
    /// Tokens written so far.
    pub(crate) fn written(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }

    /// Whether it is being computed.
    pub(crate) fn is_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }
}
