//! Streamed responses.

use std::collections::VecDeque;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use super::Error;
use super::connection::ResponseBody;
use crate::sse::{DONE, EventReader};
use crate::wire::ErrorBody;

/// Maximum length of an event in bytes.
const MAX_EVENT_LEN: usize = 64 << 20;

/// A stream of events of type `T`. Dropping it cancels the request.
pub struct Events<T> {
    body: ResponseBody,
    reader: EventReader,
    /// Events that arrived together with the one before them.
    pending: VecDeque<String>,
    count: usize,
    event: PhantomData<T>,
}

impl<T: DeserializeOwned> Events<T> {
    pub(super) fn new(body: ResponseBody) -> Self {
        let reader = EventReader::default();
        Self { body, reader, pending: VecDeque::new(), count: 0, event: PhantomData }
    }

    /// Returns the next event, or `None` after `[DONE]`.
    ///
    /// # Errors
    ///
    /// Fails if the stream ends without `[DONE]` or continues after it, and for events that report an error or
    /// are not of type `T`.
    pub async fn next(&mut self) -> Result<Option<T>, Error> {
        match self.next_text().await? {
            None => Err(Error::Truncated(self.count)),
            Some(text) if text == DONE => match self.next_text().await? {
                None => Ok(None),
                Some(text) => Err(Error::AfterDone(text)),
            },
            Some(text) => {
                self.count += 1;
                parse(&text, self.count).map(Some)
            }
        }
    }

    /// Returns the data of the next event, or `None` at the end of the body.
    async fn next_text(&mut self) -> Result<Option<String>, Error> {
        loop {
            if let Some(text) = self.pending.pop_front() {
                return Ok(Some(text));
            }
            let Some(bytes) = self.body.next().await? else { return Ok(None) };
            self.pending.extend(self.reader.push(&bytes));
            if self.reader.pending_len() > MAX_EVENT_LEN {
                return Err(Error::TooLarge(MAX_EVENT_LEN));
            }
        }
    }
}

fn parse<T: DeserializeOwned>(text: &str, number: usize) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|source| match serde_json::from_str::<ErrorBody>(text) {
        Ok(body) => Error::Stream(Box::new(body.error)),
        Err(_) => Error::json(&format!("event {number}"), text.as_bytes(), &source),
    })
}
