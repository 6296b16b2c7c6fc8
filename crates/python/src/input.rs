//! Prompts, token ids and messages as inputs of the engine; one, or a batch.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyString, PyTuple};
use wf::local::read_messages;
use wf_engine::{PromptInput, TokenId};

use crate::errors::exception;
use crate::keywords::json;

/// One input, or a batch of them, which has a list of results.
pub(crate) enum Inputs<T> {
    /// One input.
    One(T),
    /// A batch.
    Batch(Vec<T>),
}

impl<T> Inputs<T> {
    /// Reads `value`: a list is a batch unless its items are of the types that one input consists of.
    fn read<'py>(
        value: &Bound<'py, PyAny>,
        is_one: fn(&Bound<'py, PyAny>) -> bool,
        read: impl Fn(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> PyResult<Self> {
        match items(value) {
            Some(items) if !items.first().is_some_and(is_one) => {
                Ok(Self::Batch(items.iter().map(read).collect::<PyResult<_>>()?))
            }
            _ => Ok(Self::One(read(value)?)),
        }
    }

    /// Returns all inputs, and whether there is one only.
    pub(crate) fn into_list(self) -> (Vec<T>, bool) {
        match self {
            Self::One(one) => (vec![one], true),
            Self::Batch(batch) => (batch, false),
        }
    }
}

/// Reads the prompts of `LLM.generate`.
pub(crate) fn prompts(value: &Bound<'_, PyAny>, specials: bool) -> PyResult<Inputs<PromptInput>> {
    Inputs::read(value, is_token, |item| prompt(item, specials))
}

/// Reads the conversations of `LLM.chat`.
pub(crate) fn conversations(value: &Bound<'_, PyAny>) -> PyResult<Inputs<PromptInput>> {
    Inputs::read(value, is_message, conversation)
}

/// Reads the input of `LLM.stream`: a prompt or a conversation.
pub(crate) fn prompt_or_conversation(
    value: &Bound<'_, PyAny>,
    specials: bool,
) -> PyResult<PromptInput> {
    match items(value) {
        Some(items) if items.first().is_some_and(is_message) => conversation(value),
        _ => prompt(value, specials),
    }
}

/// Reads one prompt or conversation, or a batch of them.
pub(crate) fn all_inputs(value: &Bound<'_, PyAny>) -> PyResult<Inputs<PromptInput>> {
    let is_part = |item: &Bound<'_, PyAny>| is_token(item) || is_message(item);
    Inputs::read(value, is_part, |item| prompt_or_conversation(item, false))
}

/// Reads the texts of `LLM.embed`.
pub(crate) fn texts(value: &Bound<'_, PyAny>) -> PyResult<Inputs<String>> {
    Inputs::read(value, |_| false, |item| item.extract())
}

/// Reads one prompt: a text or token ids.
pub(crate) fn prompt(value: &Bound<'_, PyAny>, specials: bool) -> PyResult<PromptInput> {
    if let Ok(text) = value.cast::<PyString>() {
        let text = text.extract()?;
        return Ok(if specials {
            PromptInput::TextWithSpecials(text)
        } else {
            PromptInput::Text(text)
        });
    }
    match value.extract::<Vec<TokenId>>() {
        Ok(ids) => Ok(PromptInput::Tokens(ids)),
        Err(_) => Err(wrong_type(value, "a prompt", "a string or a list of token ids")),
    }
}

fn conversation(value: &Bound<'_, PyAny>) -> PyResult<PromptInput> {
    if !items(value).is_some_and(|items| items.iter().all(is_message)) {
        return Err(wrong_type(value, "a conversation", "a list of messages"));
    }
    let messages = read_messages(&json(value)?).map_err(|error| exception(value.py(), error))?;
    Ok(PromptInput::Chat(messages))
}

fn wrong_type(value: &Bound<'_, PyAny>, what: &str, expected: &str) -> PyErr {
    match value.get_type().name() {
        Ok(kind) => PyTypeError::new_err(format!("{what} must be {expected}, not {kind}")),
        Err(error) => error,
    }
}

fn items<'py>(value: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return value.try_iter().ok()?.collect::<PyResult<_>>().ok();
    }
    None
}

fn is_token(item: &Bound<'_, PyAny>) -> bool {
    item.is_instance_of::<PyInt>()
}

fn is_message(item: &Bound<'_, PyAny>) -> bool {
    item.is_instance_of::<PyDict>()
}
