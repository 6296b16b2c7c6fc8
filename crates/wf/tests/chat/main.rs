//! Tests of `wf chat`, on a terminal and in scripts.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

#[cfg(unix)]
mod mcp;
#[cfg(target_os = "linux")]
mod pty;
mod script;
mod scripted;
#[cfg(target_os = "linux")]
mod typed;

use std::path::Path;
use std::process::{Command, Stdio};

/// Returns `wf chat` without the developer's settings, with a home in `folder`.
fn chat(folder: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wf"));
    command.arg("chat").args(flags).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WF_")) {
        command.env_remove(name);
    }
    let home = folder.to_str().unwrap();
    command.envs([("XDG_STATE_HOME", home), ("HOME", home), ("TERM", "xterm-256color")]);
    command.env_remove("NO_COLOR").env_remove("OPENAI_API_KEY");
    command
}
