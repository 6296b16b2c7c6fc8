//! Memory and time of request bodies over all connections: bytes that are held, and threads that parse.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::error::ApiError;

/// Bodies up to this length are parsed where they are read: that takes less than a millisecond.
const SMALL_LEN: usize = 64 << 10;
/// Maximum number of large bodies that are parsed at once.
const MAX_PARSING: usize = 2;

/// The bodies that are being read or parsed.
pub(crate) struct Bodies {
    max_len: usize,
    max_len_of_caller: usize,
    held: Mutex<Held>,
    parsing: Semaphore,
}

#[derive(Default)]
struct Held {
    len: usize,
    /// By the name of the caller.
    by_caller: HashMap<String, usize>,
}

impl Bodies {
    /// Creates an account of bodies with a maximum total length, of which one caller may hold a quarter.
    pub(crate) fn new(max_len: usize) -> Self {
        Self {
            max_len,
            max_len_of_caller: max_len / 4,
            held: Mutex::default(),
            parsing: Semaphore::new(MAX_PARSING),
        }
    }

    /// Starts to hold a body of a caller, given by its name, whose length is not known yet.
    pub(crate) fn hold(self: &Arc<Self>, caller: String) -> Hold {
        Hold { bodies: Arc::clone(self), caller, len: 0 }
    }

    /// Parses a body on a thread where it may take long, unless it is small.
    pub(crate) async fn parse<T: Send + 'static>(
        &self,
        bytes: Vec<u8>,
        parse: impl FnOnce(&[u8]) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        if bytes.len() <= SMALL_LEN {
            return parse(&bytes);
        }
        let _turn = self.parsing.acquire().await.map_err(|_| ApiError::internal())?;
        spawn_blocking(move || parse(&bytes)).await.map_err(|_| ApiError::internal())?
    }
}

/// Bytes of one body, which are free again when this is dropped.
pub(crate) struct Hold {
    bodies: Arc<Bodies>,
    caller: String,
    len: usize,
}

impl Hold {
    /// Adds bytes, unless that would exceed the limit of all bodies or of the caller.
    pub(crate) fn add(&mut self, len: usize) -> Result<(), ApiError> {
        let bodies = &self.bodies;
        let mut held = bodies.held.lock().unwrap_or_else(PoisonError::into_inner);
        let of_caller = held.by_caller.get(&self.caller).copied().unwrap_or(0) + len;
        let (whose, max) = match () {
            () if held.len + len > bodies.max_len => ("all requests", bodies.max_len),
            () if of_caller > bodies.max_len_of_caller => {
                ("your requests", bodies.max_len_of_caller)
            }
            () => {
                held.len += len;
                held.by_caller.insert(self.caller.clone(), of_caller);
                self.len += len;
                return Ok(());
            }
        };
        Err(ApiError::busy(format!(
            "the bodies of {whose} that are being read have {max} bytes, which is the limit: try again later"
        )))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.bodies.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.len -= self.len;
        let of_caller = held.by_caller.get(&self.caller).copied().unwrap_or(0);
        match of_caller.saturating_sub(self.len) {
            0 => drop(held.by_caller.remove(&self.caller)),
            rest => drop(held.by_caller.insert(std::mem::take(&mut self.caller), rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_limited_in_all_and_by_caller_and_free_again() {
        let bodies = Arc::new(Bodies::new(400));
        let mut a = bodies.hold("a".to_owned());
        a.add(60).unwrap();
        let mut again = bodies.hold("a".to_owned());
        again.add(40).unwrap();
        let message = again.add(1).unwrap_err().message;
        assert!(message.contains("your requests") && message.contains("100 bytes"), "{message}");
        let others: Vec<_> = ["b", "c", "d"]
            .map(|key| {
                let mut hold = bodies.hold(key.to_owned());
                hold.add(100).unwrap();
                hold
            })
            .into();
        let mut last = bodies.hold("e".to_owned());
        assert!(last.add(1).unwrap_err().message.contains("all requests"));
        drop(others);
        last.add(100).unwrap();
        drop((a, again, last));
        let held = bodies.held.lock().unwrap();
        assert_eq!((held.len, held.by_caller.len()), (0, 0));
    }
}
