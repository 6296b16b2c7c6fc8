//! Environment variables that belong to no option.

use std::ffi::OsString;

use anyhow::{Result, anyhow};

/// Returns a variable, if it is set and not empty.
#[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns a variable as text, if it is set and not empty.
pub(crate) fn text(name: &str) -> Result<Option<String>> {
    let text = variable(name).map(OsString::into_string).transpose();
    text.map_err(|_| anyhow!("{name} is not valid UTF-8"))
}
