//! One log line per request, written when its response is complete.
//!
//! It has names, counts and times that the server made or checked, and nothing of prompts, outputs or keys.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::Method;

/// Facts for the line of a request. The line is written when the last copy is dropped: for a stream, at its end.
#[derive(Clone)]
pub(crate) struct RequestLog(Arc<Line>);

struct Line {
    method: Method,
    route: String,
    id: String,
    start: Instant,
    facts: Mutex<Facts>,
}

#[derive(Default)]
struct Facts {
    caller: String,
    status: Option<u16>,
    code: Option<&'static str>,
    prompt_tokens: Option<usize>,
    completion_tokens: Option<usize>,
    queue: Option<Duration>,
    first_token: Option<Duration>,
}

impl RequestLog {
    pub(crate) fn new(method: Method, route: String, id: String, caller: String) -> Self {
        let facts = Mutex::new(Facts { caller, ..Facts::default() });
        Self(Arc::new(Line { method, route, id, start: Instant::now(), facts }))
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        // No operation on the facts can panic halfway.
        self.0.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_caller(&self, name: String) {
        self.facts().caller = name;
    }

    pub(crate) fn set_status(&self, status: u16) {
        self.facts().status = Some(status);
    }

    /// Sets the code of the error that the request ended with.
    pub(crate) fn set_error(&self, code: &'static str) {
        self.facts().code = Some(code);
    }

    pub(crate) fn count_prompt(&self, tokens: usize) {
        *self.facts().prompt_tokens.get_or_insert(0) += tokens;
    }

    pub(crate) fn count_token(&self, since_arrival: Duration) {
        let mut facts = self.facts();
        *facts.completion_tokens.get_or_insert(0) += 1;
        facts.first_token.get_or_insert(since_arrival);
    }

    /// Notes the time in the queue; of several sequences, the longest.
    pub(crate) fn note_queue(&self, queued: Duration) {
        let queue = &mut self.facts().queue;
        *queue = (*queue).max(Some(queued));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let facts = self.facts.get_mut().unwrap_or_else(PoisonError::into_inner);
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        // A client that left before the head of the response has no status.
        let code = facts.code.or(facts.status.is_none().then_some("disconnected"));
        tracing::info!(
            method = %self.method,
            route = self.route,
            status = facts.status,
            code,
            caller = facts.caller,
            prompt_tokens = facts.prompt_tokens,
            completion_tokens = facts.completion_tokens,
            queue_ms = facts.queue.map(ms),
            first_token_ms = facts.first_token.map(ms),
            ms = ms(self.start.elapsed()),
            id = self.id,
            "request"
        );
    }
}
