//! `wf chat`: on a terminal as someone who types meets it, and as part of a script.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

#[cfg(target_os = "linux")]
mod pty;
mod script;
mod scripted;
#[cfg(target_os = "linux")]
mod typed;

use std::path::Path;
use std::process::{Command, Stdio};

/// `wf chat`, with nothing of the developer's settings, and a home in `folder`.
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
