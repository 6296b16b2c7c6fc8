//! `wf chat`: a chat in the terminal, with a local model or a server.
//!
//! `input` reads a line, `commands` parses commands, `backend` generates a response and `screen` shows
//! it. `conversation` has the messages, `settings` the sampling parameters, `tools` the tools of MCP servers.

pub(crate) mod args;
mod backend;
mod commands;
mod conversation;
mod input;
mod local;
mod mcp;
mod remote;
mod response;
mod screen;
mod session;
mod settings;
mod tools;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tokio::runtime::{Builder, Runtime};

use args::ChatArgs;
use backend::Backend;
use input::{Input, LineEditor};
use local::Local;
use remote::Remote;
use screen::Screen;
use session::Session;
use tools::Tools;

use crate::env::variable;

pub(crate) fn chat(args: &ChatArgs) -> Result<()> {
    let runtime =
        Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    let backend = backend(args, &runtime)?;
    let is_dumb = variable("TERM").is_some_and(|term| term == "dumb");
    let screen = Screen::new(is_dumb || variable("NO_COLOR").is_some());
    let input = match screen.is_interactive() {
        true => Input::Interactive(Box::new(LineEditor::new(history(args), screen.has_colours())?)),
        false => Input::Script,
    };
    let tools = runtime.block_on(Tools::start(args, screen.is_interactive()))?;
    let mut session = Session::new(args, backend, screen, tools);
    if let Some(path) = &args.load {
        session.start_with(path)?;
    }
    let ended = session.run(input, &runtime);
    session.close();
    ended
}

fn backend(args: &ChatArgs, runtime: &Runtime) -> Result<Backend> {
    let Some(url) = &args.server.url else {
        return Ok(Backend::Local(Box::new(Local::open(args)?)));
    };
    ensure!(
        args.decoding.is_default(),
        "--decode and other decoding options cannot be used with --url: set them on the server"
    );
    ensure!(
        args.disk_cache.cache_dir.is_none(),
        "--cache-dir cannot be used with --url: set it on the server"
    );
    let remote = Remote::open(url, args.server.client(url)?, args.model.as_deref());
    Ok(Backend::Remote(Box::new(runtime.block_on(remote)?)))
}

/// Returns the file of the input history, unless there is none.
fn history(args: &ChatArgs) -> Option<PathBuf> {
    if args.no_history {
        return None;
    }
    let default = || {
        let state = match variable("XDG_STATE_HOME") {
            Some(state) => PathBuf::from(state),
            None if cfg!(windows) => variable("LOCALAPPDATA")?.into(),
            None => Path::new(&variable("HOME")?).join(".local/state"),
        };
        Some(state.join("wrinklefree/chat-history"))
    };
    args.history.clone().or_else(default)
}
