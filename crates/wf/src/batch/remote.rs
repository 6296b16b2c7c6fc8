//! Requests of a batch to a server, with patience: it may be busy, or restart.

use std::time::Duration;

use serde_json::{Value, json};
use wf_api::http::{Client, Error, Timeouts};
use wf_server::batch::{Answer, Caller};

/// Number of times that a request is sent again before the batch ends.
const MAX_RETRIES: u32 = 8;
/// Pause before the first retry. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Time for the response to a request, which may wait behind all others.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Sends requests to a server.
#[derive(Clone)]
pub(super) struct RemoteCaller {
    client: Client,
    /// Model of requests that name none.
    model: Option<String>,
}

impl RemoteCaller {
    pub(super) fn new(client: Client, model: Option<String>) -> Self {
        let timeouts = Timeouts { response: RESPONSE_TIMEOUT, ..Timeouts::default() };
        Self { client: client.with_timeouts(timeouts), model }
    }
}

impl Caller for RemoteCaller {
    async fn call(&self, endpoint: &'static str, mut body: Value) -> Result<Answer, String> {
        if let (Some(model), Value::Object(fields)) = (&self.model, &mut body) {
            fields.entry("model").or_insert_with(|| Value::from(model.as_str()));
        }
        let mut pause = FIRST_PAUSE;
        for retry in 0.. {
            let error = match self.client.post_json::<Value>(endpoint, &body).await {
                Ok(body) => return Ok(Answer { status: 200, request_id: None, body }),
                Err(error) => error,
            };
            // A server that is overloaded or restarts is asked again; a request that it rejects is not.
            if !is_temporary(&error) {
                return Ok(rejection(error));
            }
            if retry == MAX_RETRIES {
                return Err(error.to_string());
            }
            tokio::time::sleep(error.retry_after().unwrap_or(pause).max(pause)).await;
            pause *= 2;
        }
        unreachable!("the loop ends by a return")
    }
}

fn is_temporary(error: &Error) -> bool {
    match error {
        Error::Connect(..) | Error::Connection(_) | Error::Timeout(..) => true,
        error => matches!(error.status(), Some(429 | 502..=504)),
    }
}

/// Returns the response of a server that rejects a request.
fn rejection(error: Error) -> Answer {
    let Error::Status { status, detail, body, .. } = error else {
        let message = error.to_string();
        return Answer {
            status: 500,
            request_id: None,
            body: json!({"error": {"message": message}}),
        };
    };
    let body = match detail {
        Some(detail) => json!({"error": detail}),
        None => json!({"error": {"message": body}}),
    };
    Answer { status, request_id: None, body }
}
