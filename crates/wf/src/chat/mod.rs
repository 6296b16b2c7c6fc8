//! `wf chat`: a conversation in the terminal, with a model of this machine or of a server.
//!
//! The path: `input` reads a line, `commands` says whether it is one, `backend` answers it, `screen`
//! shows the answer. `conversation` keeps what was said, `settings` how to answer.

pub(crate) mod args;
mod backend;
mod commands;
mod conversation;
mod input;
mod interrupt;
mod local;
mod remote;
mod screen;
mod session;
mod settings;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tokio::runtime::{Builder, Runtime};

use args::{ChatArgs, RemoteArgs};
use backend::Backend;
use input::{Input, Typed};
use interrupt::Interrupts;
use local::Local;
use remote::Remote;
use screen::Screen;
use session::Session;

use crate::{environment, open};

/// Runs the command.
pub(crate) fn chat(args: &ChatArgs) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build().context("starting a chat")?;
    let backend = backend(args, &runtime)?;
    let is_dumb = environment::variable("TERM").is_some_and(|term| term == "dumb");
    let screen = Screen::new(is_dumb || environment::variable("NO_COLOR").is_some());
    let input = match screen.is_watched() {
        true => Input::Typed(Box::new(Typed::new(history(args), screen.has_colours())?)),
        false => Input::Script,
    };
    let interrupts = {
        let _inside = runtime.enter();
        // A script is ended by Ctrl-C as any other is.
        screen.is_watched().then(Interrupts::new).transpose()?
    };
    let mut session = Session::new(args, backend, screen, interrupts);
    if let Some(path) = &args.load {
        session.begin_with(path)?;
    }
    session.run(input, &runtime)
}

fn backend(args: &ChatArgs, runtime: &Runtime) -> Result<Backend> {
    let Some(url) = &args.server.url else {
        return Ok(Backend::Local(Box::new(Local::open(args)?)));
    };
    let key = key(&args.server)?;
    ensure!(
        args.decoding.is_silent(),
        "a server decides how it decodes: give --decode and its like to `wf serve`"
    );
    let remote = Remote::open(url, args.model.as_deref(), key.as_deref());
    Ok(Backend::Remote(Box::new(runtime.block_on(remote)?)))
}

/// The key to show to a server: of the flag or its variable, of the file, or that of OpenAI's tools.
fn key(args: &RemoteArgs) -> Result<Option<String>> {
    if args.api_key.is_some() {
        return Ok(args.api_key.clone());
    }
    if let Some(path) = &args.api_key_file {
        let text = open::read_text_file(path).context("--api-key-file")?;
        let mut lines = text.lines().map(str::trim);
        let key = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
        let key = key.with_context(|| format!("--api-key-file: no key in {}", path.display()))?;
        return Ok(Some(key.to_owned()));
    }
    let key = environment::variable("OPENAI_API_KEY").map(OsString::into_string).transpose();
    key.map_err(|_| anyhow::anyhow!("the value of OPENAI_API_KEY is not UTF-8"))
}

/// Where typed lines are kept.
fn history(args: &ChatArgs) -> Option<PathBuf> {
    if args.no_history {
        return None;
    }
    let usual = || {
        let state = match environment::variable("XDG_STATE_HOME") {
            Some(state) => PathBuf::from(state),
            None if cfg!(windows) => environment::variable("LOCALAPPDATA")?.into(),
            None => Path::new(&environment::variable("HOME")?).join(".local/state"),
        };
        Some(state.join("wrinklefree/chat-history"))
    };
    args.history.clone().or_else(usual)
}
