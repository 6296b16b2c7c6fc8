//! A reply as it is written: events, until the stream says that it is done.

use std::collections::VecDeque;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use super::Error;
use super::connection::Answer;
use crate::sse::{DONE, EventReader};
use crate::wire::ErrorBody;

/// The most bytes of an event.
const LARGEST_EVENT: usize = 64 << 20;

/// Events of type `T`. Dropping this cancels the request.
pub struct Events<T> {
    answer: Answer,
    reader: EventReader,
    /// Events that came together with the one before them.
    waiting: VecDeque<String>,
    seen: usize,
    event: PhantomData<T>,
}

impl<T: DeserializeOwned> Events<T> {
    pub(super) fn of(answer: Answer) -> Self {
        let reader = EventReader::default();
        Self { answer, reader, waiting: VecDeque::new(), seen: 0, event: PhantomData }
    }

    /// The next event; none when the stream said `[DONE]` and ended. A stream that ends without it,
    /// or does not end with it, is an error.
    pub async fn next(&mut self) -> Result<Option<T>, Error> {
        match self.next_text().await? {
            None => Err(Error::Cut { events: self.seen }),
            Some(text) if text == DONE => match self.next_text().await? {
                None => Ok(None),
                Some(text) => Err(Error::AfterDone(text)),
            },
            Some(text) => {
                self.seen += 1;
                parse(&text, self.seen).map(Some)
            }
        }
    }

    /// The next event as it came; none at the end of the bytes.
    async fn next_text(&mut self) -> Result<Option<String>, Error> {
        loop {
            if let Some(text) = self.waiting.pop_front() {
                return Ok(Some(text));
            }
            let Some(bytes) = self.answer.next().await? else { return Ok(None) };
            self.waiting.extend(self.reader.push(&bytes));
            if self.reader.unfinished_bytes() > LARGEST_EVENT {
                return Err(Error::TooLarge { limit: LARGEST_EVENT });
            }
        }
    }
}

fn parse<T: DeserializeOwned>(text: &str, number: usize) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|source| match serde_json::from_str::<ErrorBody>(text) {
        Ok(body) => Error::InStream(Box::new(body.error)),
        Err(_) => Error::json(&format!("event {number}"), text.as_bytes(), source),
    })
}
