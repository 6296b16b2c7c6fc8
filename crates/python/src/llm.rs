//! The class `LLM`: a model in this process.

use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use wf::local::{Error, LocalModel};
use wf_engine::{GenerationRequest, PromptInput, TokenId};

use crate::completion::{Completion, TokenLogprob, collect};
use crate::errors::{exception, unusable};
use crate::input::{self, Inputs};
use crate::keywords;
use crate::scored::Scored;
use crate::stream::Stream;
use crate::wait::{Cancel, run, wait};

/// A model in this process.
#[pyclass(frozen, name = "LLM", module = "wrinklefree")]
pub(crate) struct Llm {
    /// Absent once it is closed.
    model: Mutex<Option<Arc<LocalModel>>>,
    process: u32,
}

/// A result for one input, or results for a batch.
#[derive(IntoPyObject)]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    fn new(mut results: Vec<T>, is_one: bool) -> Self {
        match results.pop() {
            Some(one) if is_one => Self::One(one),
            last => {
                results.extend(last);
                Self::Many(results)
            }
        }
    }
}

#[pymethods]
impl Llm {
    #[new]
    #[pyo3(signature = (model=None, **settings))]
    fn new(
        py: Python<'_>,
        model: Option<PathBuf>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let keywords = keywords::read(settings)?;
        let opened = run(py, move || LocalModel::open(model.as_deref(), &keywords))?;
        let model = opened.map_err(|error| exception(py, error))?;
        Ok(Self { model: Mutex::new(Some(Arc::new(model))), process: process::id() })
    }

    /// Continues prompts, without the chat template.
    #[pyo3(signature = (prompt, *, specials=false, logprobs=None, cancel=None, **sampling))]
    fn generate(
        &self,
        py: Python<'_>,
        prompt: &Bound<'_, PyAny>,
        specials: bool,
        logprobs: Option<usize>,
        cancel: Option<&Bound<'_, Cancel>>,
        sampling: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<OneOrMany<Completion>> {
        let inputs = input::prompts(prompt, specials)?;
        self.complete(py, inputs, logprobs, cancel, sampling)
    }

    /// Answers conversations.
    #[pyo3(signature = (messages, *, logprobs=None, cancel=None, **sampling))]
    fn chat(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        logprobs: Option<usize>,
        cancel: Option<&Bound<'_, Cancel>>,
        sampling: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<OneOrMany<Completion>> {
        let inputs = input::conversations(messages)?;
        self.complete(py, inputs, logprobs, cancel, sampling)
    }

    /// Starts a completion of a prompt or a conversation, and returns an iterator over its text.
    #[pyo3(signature = (prompt, *, specials=false, cancel=None, **sampling))]
    fn stream(
        &self,
        py: Python<'_>,
        prompt: &Bound<'_, PyAny>,
        specials: bool,
        cancel: Option<&Bound<'_, Cancel>>,
        sampling: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Stream> {
        let input = input::prompt_or_conversation(prompt, specials)?;
        let (model, keywords) = (self.model(py)?, keywords::read(sampling)?);
        let start = || {
            let request = model.completion(&keywords)?;
            Ok(model.frontend().generate(GenerationRequest { input, ..request })?)
        };
        let stream = py.detach(start).map_err(|error: Error| exception(py, error))?;
        Ok(Stream::new(stream, Cancel::flag(cancel)))
    }

    /// Returns a vector of length 1 for each text.
    #[pyo3(signature = (texts, *, cancel=None, **options))]
    fn embed(
        &self,
        py: Python<'_>,
        texts: &Bound<'_, PyAny>,
        cancel: Option<&Bound<'_, Cancel>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<OneOrMany<Vec<f32>>> {
        let (texts, is_one) = input::texts(texts)?.into_list();
        let (model, keywords) = (self.model(py)?, keywords::read(options)?);
        let pending = py.detach(|| model.embed(&texts, &keywords));
        let pending = pending.map_err(|error| exception(py, error))?;
        let vectors = wait_for_all(py, cancel, pending, |one| one.vector())?;
        Ok(OneOrMany::new(vectors, is_one))
    }

    /// Returns the log probabilities of the tokens of given completions.
    #[pyo3(signature = (prompt, completion, *, top=0, cancel=None))]
    fn logprobs(
        &self,
        py: Python<'_>,
        prompt: &Bound<'_, PyAny>,
        completion: &Bound<'_, PyAny>,
        top: usize,
        cancel: Option<&Bound<'_, Cancel>>,
    ) -> PyResult<OneOrMany<Vec<TokenLogprob>>> {
        let (prompts, is_one) = input::all_inputs(prompt)?.into_list();
        let completions = match is_one {
            true => vec![input::prompt(completion, false)?],
            false => input::prompts(completion, false)?.into_list().0,
        };
        if prompts.len() != completions.len() {
            let (prompts, completions) = (prompts.len(), completions.len());
            let message =
                format!("{prompts} prompts and {completions} completions: must be equally many");
            return Err(PyValueError::new_err(message));
        }
        let model = self.model(py)?;
        let start = || {
            let pairs = prompts.iter().zip(&completions).enumerate();
            let pairs = pairs.map(|(at, (prompt, completion))| {
                Scored::start(&model, prompt, completion, top)
                    .map_err(|error| about(error, at, is_one))
            });
            pairs.collect::<Result<Vec<_>, Error>>()
        };
        let pending = py.detach(start).map_err(|error| exception(py, error))?;
        let scored = wait_for_all(py, cancel, pending, |one| one.finish(&model))?;
        Ok(OneOrMany::new(scored, is_one))
    }

    /// Returns the token ids of a text, without begin and end tokens.
    #[pyo3(signature = (text, *, specials=false))]
    fn tokenize(&self, py: Python<'_>, text: &str, specials: bool) -> PyResult<Vec<TokenId>> {
        let model = self.model(py)?;
        Ok(py.detach(|| model.frontend().text().text_ids(text, false, specials)))
    }

    /// Returns the text of token ids, special tokens included.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a list of Python cannot be borrowed as a slice"
    )]
    fn detokenize(&self, py: Python<'_>, ids: Vec<TokenId>) -> PyResult<String> {
        let model = self.model(py)?;
        Ok(py.detach(|| model.frontend().tokenizer().decode(&ids, false)))
    }

    /// Frees the model. Streams that are running finish.
    fn close(&self) {
        self.model.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("LLM({:?})", self.name(py)?))
    }

    /// Name of the model.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.model(py)?.name().unwrap_or_else(|| "model".to_owned()))
    }

    /// Maximum number of tokens of prompt and completion together.
    #[getter]
    fn context_len(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.model(py)?.frontend().context_len())
    }

    /// Number of dimensions of an embedding.
    #[getter]
    fn embedding_len(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.model(py)?.frontend().embedding_len())
    }

    /// Number of tokens of the vocabulary.
    #[getter]
    fn vocab_len(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.model(py)?.frontend().engine().vocab_len())
    }
}

impl Llm {
    fn model(&self, py: Python<'_>) -> PyResult<Arc<LocalModel>> {
        // A child process has a copy of the memory, but not of the threads of the engine.
        if process::id() != self.process {
            let reason = "the model was opened in another process: open it in this one, or start processes \
                          with the method spawn";
            return Err(unusable(py, reason));
        }
        let model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        model.clone().ok_or_else(|| unusable(py, "the model is closed"))
    }

    /// Submits all inputs before it waits for the first, so that they run together.
    fn complete(
        &self,
        py: Python<'_>,
        inputs: Inputs<PromptInput>,
        logprobs: Option<usize>,
        cancel: Option<&Bound<'_, Cancel>>,
        sampling: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<OneOrMany<Completion>> {
        let (inputs, is_one) = inputs.into_list();
        let (model, keywords) = (self.model(py)?, keywords::read(sampling)?);
        let start = || {
            let request = GenerationRequest { logprobs, ..model.completion(&keywords)? };
            let start = |(at, input)| {
                let stream =
                    model.frontend().generate(GenerationRequest { input, ..request.clone() });
                stream.map_err(|error| about(error.into(), at, is_one))
            };
            inputs.into_iter().enumerate().map(start).collect::<Result<Vec<_>, Error>>()
        };
        let streams = py.detach(start).map_err(|error| exception(py, error))?;
        let text = model.frontend().text();
        let finish = |stream| collect(stream, text, logprobs.is_some());
        Ok(OneOrMany::new(wait_for_all(py, cancel, streams, finish)?, is_one))
    }
}

/// Names the prompt of a batch that an error is about.
fn about(error: Error, at: usize, is_one: bool) -> Error {
    if is_one { error } else { error.about(&format!("prompt {}", at + 1)) }
}

/// Waits for all results. If one fails or the wait is cancelled, the others are dropped, which cancels them.
fn wait_for_all<S, T: Send, E: Into<Error> + Send, F: Future<Output = Result<T, E>> + Send>(
    py: Python<'_>,
    cancel: Option<&Bound<'_, Cancel>>,
    pending: Vec<S>,
    finish: impl Fn(S) -> F,
) -> PyResult<Vec<T>> {
    let flag: Arc<AtomicBool> = Cancel::flag(cancel);
    let is_over = || flag.load(Ordering::Relaxed);
    let finish = |one| wait(py, is_over, finish(one))?.map_err(|error| exception(py, error));
    pending.into_iter().map(finish).collect()
}
