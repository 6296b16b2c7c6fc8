//! Keyword arguments as options of the command line.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use wf::local::Keyword;

/// Returns the options of keyword arguments. `None` stands for the default.
pub(crate) fn read(arguments: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<Keyword>> {
    let Some(arguments) = arguments else { return Ok(Vec::new()) };
    let mut keywords = Vec::new();
    for (name, value) in arguments {
        if !value.is_none() {
            let name: String = name.extract()?;
            let values = values(&name, &value)?;
            keywords.push(Keyword { name, values });
        }
    }
    Ok(keywords)
}

fn values(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return value.try_iter()?.map(|item| text(name, &item?)).collect();
    }
    match value.cast::<PyDict>() {
        Ok(biases) if name == "logit_bias" => {
            biases.iter().map(|(id, bias)| bias_text(name, &id, &bias)).collect()
        }
        // A JSON schema.
        Ok(object) => Ok(vec![json(object)?]),
        Err(_) => Ok(vec![text(name, value)?]),
    }
}

/// Returns a bias as on the command line: `42=-5`.
fn bias_text(name: &str, id: &Bound<'_, PyAny>, bias: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(format!("{}={}", text(name, id)?, text(name, bias)?))
}

/// Returns a value as on the command line.
fn text(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_instance_of::<PyBool>() {
        return Ok(value.extract::<bool>()?.to_string());
    }
    let is_plain = value.is_instance_of::<PyString>() || value.is_instance_of::<PyInt>();
    // Numbers of other libraries, such as NumPy, are floats or have __index__ or __float__.
    if is_plain || value.is_instance_of::<PyFloat>() {
        return value.str()?.extract();
    }
    if value.hasattr("__fspath__")? {
        return value.call_method0("__fspath__")?.extract();
    }
    if value.hasattr("__index__")? {
        return value.call_method0("__index__")?.str()?.extract();
    }
    if value.hasattr("__float__")? {
        return value.call_method0("__float__")?.str()?.extract();
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "{name} is a {kind}: must be a string, a number, a path or a list of them"
    )))
}

/// Returns an object as JSON.
pub(crate) fn json(value: &Bound<'_, PyAny>) -> PyResult<String> {
    value.py().import("json")?.call_method1("dumps", (value,))?.extract()
}
