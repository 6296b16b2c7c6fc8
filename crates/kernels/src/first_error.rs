//! What went wrong first, by place and not by time, where many threads work.

use std::sync::{Mutex, PoisonError};

/// The error of the lowest place, whichever thread met it and when: so that a message does not depend
/// on the number of threads.
#[derive(Debug)]
pub struct FirstError<E>(Mutex<Option<(usize, E)>>);

impl<E> FirstError<E> {
    /// Nothing went wrong yet.
    pub fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Keeps the error of a job, if it is one and no job of a lower number has one.
    pub fn note(&self, job: usize, result: Result<(), E>) {
        let Err(error) = result else { return };
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|&(first_job, _)| job < first_job) {
            *first = Some((job, error));
        }
    }

    /// `value`, or else the error.
    pub fn or<T>(self, value: T) -> Result<T, E> {
        let first = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        first.map_or(Ok(value), |(_, error)| Err(error))
    }
}

impl<E> Default for FirstError<E> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_job_is_heard_whenever_it_speaks() {
        let none = FirstError::<&str>::new();
        none.note(3, Ok(()));
        assert_eq!(none.or(7), Ok(7));
        let some = FirstError::new();
        for (job, error) in [(5, "five"), (2, "two"), (9, "nine")] {
            some.note(job, Err(error));
        }
        assert_eq!(some.or(7), Err("two"));
    }
}
