//! Errors as exceptions, whose classes are in `wrinklefree/_errors.py`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use wf::local::{Error, ErrorKind};

/// Returns the exception of an error of the engine.
pub(crate) fn exception(py: Python<'_>, error: impl Into<Error>) -> PyErr {
    let error = error.into();
    let message = error.to_string();
    match error.kind() {
        // As for any function that has no such argument.
        ErrorKind::UnknownOption => PyTypeError::new_err(message),
        ErrorKind::Request => of_class(py, "RequestError", message),
        ErrorKind::Model => of_class(py, "ModelError", message),
        ErrorKind::Engine => of_class(py, "EngineError", message),
    }
}

/// Returns the exception of a request that another thread cancelled.
pub(crate) fn cancelled(py: Python<'_>) -> PyErr {
    of_class(py, "Cancelled", "the request was cancelled".to_owned())
}

/// Returns the exception of a model that cannot be used any more.
pub(crate) fn unusable(py: Python<'_>, reason: &str) -> PyErr {
    of_class(py, "EngineError", reason.to_owned())
}

fn of_class(py: Python<'_>, name: &str, message: String) -> PyErr {
    let class = py.import("wrinklefree._errors").and_then(|module| module.getattr(name));
    match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
        Ok(class) => PyErr::from_type(class, message),
        Err(error) => error,
    }
}
