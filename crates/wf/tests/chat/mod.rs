//! Tests of `wf chat`, on a terminal and in scripts.

#[cfg(unix)]
mod mcp;
#[cfg(target_os = "linux")]
mod pty;
mod script;
mod scripted;
#[cfg(target_os = "linux")]
mod typed;

use std::path::Path;
use std::process::Command;

use crate::program::command;

/// Returns `wf chat` without the developer's settings, with a home in `folder`.
fn chat(folder: &Path, flags: &[&str]) -> Command {
    let mut command = command(&["chat"]);
    command.args(flags);
    let home = folder.to_str().unwrap();
    command.envs([("XDG_STATE_HOME", home), ("HOME", home), ("TERM", "xterm-256color")]);
    command.env_remove("NO_COLOR").env_remove("OPENAI_API_KEY");
    command
}
