//! The compiled part of the Python package `wrinklefree`: models in the process of the caller.
//!
//! Everything about models, options and messages is that of the command line, through [`wf::local`]. This crate
//! converts values, releases the interpreter while the engine computes, and lets signals and other threads cancel.

#![forbid(unsafe_code)]

mod completion;
mod errors;
mod input;
mod keywords;
mod llm;
mod scored;
mod stream;
mod wait;

use pyo3::pymodule;

/// The compiled part of `wrinklefree`.
#[pymodule(gil_used = false)]
mod _wrinklefree {
    use pyo3::prelude::*;
    use wf::local::LocalModel;

    #[pymodule_export]
    use crate::completion::{Completion, TokenLogprob};
    #[pymodule_export]
    use crate::llm::Llm;
    #[pymodule_export]
    use crate::stream::Stream;
    #[pymodule_export]
    use crate::wait::Cancel;

    /// Returns the names of the settings of `LLM`, and of the options of a completion and of an embedding.
    #[pyfunction]
    fn option_names() -> [Vec<String>; 3] {
        [
            LocalModel::option_names(),
            LocalModel::completion_option_names(),
            LocalModel::embedding_option_names(),
        ]
    }
}
