//! The program under test, without the developer's settings.

use std::process::{Command, Stdio};

/// Prefixes of the variables that `wf` reads.
const SETTINGS: [&str; 3] = ["WF_", "HF_", "OTEL_"];

/// Returns `wf` with `args` and no input.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = clean(env!("CARGO_BIN_EXE_wf"));
    command.args(args);
    command
}

/// Returns a command with no input and without the variables that `wf` reads.
pub(crate) fn clean(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    for (name, _) in std::env::vars() {
        if SETTINGS.iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}
