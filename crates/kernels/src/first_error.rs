//! The first error of parallel jobs, by job number.

use std::sync::{Mutex, PoisonError};

/// The error of the job with the lowest number, so that a message does not depend on timing or the
/// number of threads.
#[derive(Debug)]
pub struct FirstError<E>(Mutex<Option<(usize, E)>>);

impl<E> FirstError<E> {
    /// Creates a value without an error.
    pub fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Records the result of a job. An error is kept if no job with a lower number has one.
    pub fn record(&self, job: usize, result: Result<(), E>) {
        let Err(error) = result else { return };
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|&(first_job, _)| job < first_job) {
            *first = Some((job, error));
        }
    }

    /// Returns the error, or `value` if there is none.
    pub fn into_result<T>(self, value: T) -> Result<T, E> {
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
    fn keeps_the_error_of_the_lowest_job() {
        let none = FirstError::<&str>::new();
        none.record(3, Ok(()));
        assert_eq!(none.into_result(7), Ok(7));
        let some = FirstError::new();
        for (job, error) in [(5, "five"), (2, "two"), (9, "nine")] {
            some.record(job, Err(error));
        }
        assert_eq!(some.into_result(7), Err("two"));
    }
}
