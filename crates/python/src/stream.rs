//! A completion as an iterator over its text.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use wf_engine::{TextEvent, TextStream, TokenId};

use crate::errors::{exception, unusable};
use crate::wait::wait;

/// Text of a completion, piece by piece. Closing it cancels the rest.
#[pyclass(frozen, module = "wrinklefree")]
pub(crate) struct Stream {
    state: Mutex<State>,
    is_closed: AtomicBool,
    cancel: Arc<AtomicBool>,
    prompt_ids: Vec<TokenId>,
    seed: u64,
    process: u32,
}

struct State {
    source: Source,
    text: String,
    ids: Vec<TokenId>,
    finish_reason: Option<&'static str>,
}

enum Source {
    Ready(Box<TextStream>),
    /// A thread waits for the next piece. No lock is held meanwhile: a thread that holds the interpreter must never
    /// wait for one that needs it.
    Taken,
    Ended,
}

impl State {
    /// Appends the ids that are new.
    fn take_ids(&mut self, all: &[TokenId]) {
        self.ids.extend(all.iter().skip(self.ids.len()));
    }
}

impl Stream {
    pub(crate) fn new(stream: TextStream, cancel: Arc<AtomicBool>) -> Self {
        let (prompt_ids, seed) = (stream.prompt_ids().to_vec(), stream.seed());
        let source = Source::Ready(Box::new(stream));
        let state = State { source, text: String::new(), ids: Vec::new(), finish_reason: None };
        let (is_closed, process) = (AtomicBool::new(false), process::id());
        Self { state: Mutex::new(state), is_closed, cancel, prompt_ids, seed, process }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the source out, unless the stream has ended.
    fn take(&self) -> PyResult<Option<Box<TextStream>>> {
        let mut state = self.state();
        match std::mem::replace(&mut state.source, Source::Taken) {
            Source::Ready(source) => Ok(Some(source)),
            Source::Taken => Err(PyValueError::new_err("another thread waits for this stream")),
            Source::Ended => {
                state.source = Source::Ended;
                Ok(None)
            }
        }
    }

    /// Returns the next piece that is not empty.
    fn next_piece(&self, py: Python<'_>, source: &mut TextStream) -> PyResult<Option<String>> {
        let is_over =
            || self.cancel.load(Ordering::Relaxed) || self.is_closed.load(Ordering::Relaxed);
        loop {
            let event = wait(py, is_over, source.next_event())?;
            let event = event.transpose().map_err(|error| exception(py, error))?;
            self.state().take_ids(source.ids());
            match event {
                Some(TextEvent::Text { text, .. }) if !text.is_empty() => return Ok(Some(text)),
                Some(TextEvent::Done(finish)) => {
                    self.state().finish_reason = Some(finish.reason.name());
                }
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
}

#[pymethods]
impl Stream {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<String>> {
        if process::id() != self.process {
            return Err(unusable(py, "the stream was started in another process"));
        }
        let Some(mut source) = self.take()? else { return Ok(None) };
        let piece = self.next_piece(py, &mut source);
        let mut state = self.state();
        let is_closed = self.is_closed.load(Ordering::Relaxed);
        match piece {
            Ok(Some(piece)) if !is_closed => {
                state.text += &piece;
                state.source = Source::Ready(source);
                Ok(Some(piece))
            }
            // Dropping the source cancels the rest.
            ended => {
                state.source = Source::Ended;
                if is_closed { Ok(None) } else { ended }
            }
        }
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }

    /// Cancels the rest of the completion. A thread that waits for the next piece gets none.
    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        let mut state = self.state();
        if matches!(state.source, Source::Ready(_)) {
            state.source = Source::Ended;
        }
    }

    /// Text so far.
    #[getter]
    fn text(&self) -> String {
        self.state().text.clone()
    }

    /// Token ids so far, an end token included.
    #[getter]
    fn ids(&self) -> Vec<TokenId> {
        self.state().ids.clone()
    }

    /// Token ids of the prompt.
    #[getter]
    fn prompt_ids(&self) -> Vec<TokenId> {
        self.prompt_ids.clone()
    }

    /// Seed of the random numbers.
    #[getter]
    fn seed(&self) -> u64 {
        self.seed
    }

    /// Reason of the end, if it was reached: `stop`, `length` or `grammar_dead_end`.
    #[getter]
    fn finish_reason(&self) -> Option<&'static str> {
        self.state().finish_reason
    }
}
