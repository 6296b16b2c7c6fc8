//! The loop of a chat.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use super::args::ChatArgs;
use super::backend::{Backend, Response};
use super::commands::{self, Command};
use super::conversation::{Conversation, Saved, require_message};
use super::input::{Input, Line};
use super::interrupt::Interrupts;
use super::response::{Chunk, Counts};
use super::screen::Screen;
use super::settings::Settings;
use crate::output;

pub(crate) struct Session {
    backend: Backend,
    screen: Screen,
    /// `None` if Ctrl-C ends the program.
    interrupts: Option<Interrupts>,
    conversation: Conversation,
    settings: Settings,
    /// Counts of the last response.
    last: Option<Counts>,
    total_tokens: usize,
    /// File that the conversation was last saved to or loaded from.
    file: Option<PathBuf>,
}

/// The next action after a line.
#[derive(PartialEq, Eq)]
enum Flow {
    Continue,
    Quit,
}

impl Session {
    pub(crate) fn new(
        args: &ChatArgs,
        backend: Backend,
        screen: Screen,
        interrupts: Option<Interrupts>,
    ) -> Self {
        let mut conversation = Conversation::default();
        conversation.system.clone_from(&args.system);
        let settings = Settings::new(&args.sampling, &args.given);
        Self {
            backend,
            screen,
            interrupts,
            conversation,
            settings,
            last: None,
            total_tokens: 0,
            file: None,
        }
    }

    /// Processes the input to its end.
    pub(crate) fn run(&mut self, mut input: Input, runtime: &Runtime) -> Result<()> {
        let (name, about) = (self.backend.name(), self.backend.about());
        self.screen.note(&format!("{name} · {about} · /help lists commands, Ctrl-D quits"))?;
        let mut was_interrupted = false;
        loop {
            let line = match input.next()? {
                line @ (Line::Text(_) | Line::Fenced(_)) => line,
                Line::End => return Ok(()),
                Line::Interrupted if was_interrupted => return Ok(()),
                Line::Interrupted => {
                    was_interrupted = true;
                    self.screen.note("press Ctrl-C again to quit, or Ctrl-D")?;
                    continue;
                }
            };
            was_interrupted = false;
            match self.handle(&line, runtime) {
                Ok(Flow::Continue) => {}
                Ok(Flow::Quit) => return Ok(()),
                // A user can try again; a script cannot.
                Err(error) if self.screen.is_interactive() && !output::is_broken_pipe(&error) => {
                    self.screen.error(&output::explain(&error))?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn handle(&mut self, line: &Line, runtime: &Runtime) -> Result<Flow> {
        let (message, command) = match line {
            Line::Text(text) => (text, Command::parse(text)),
            Line::Fenced(text) => (text, None),
            Line::Interrupted | Line::End => return Ok(Flow::Continue),
        };
        let Some(command) = command else {
            if !message.trim().is_empty() {
                self.conversation.push(message.trim());
                runtime.block_on(self.respond())?;
            }
            return Ok(Flow::Continue);
        };
        match command? {
            Command::Help => self.screen.show(&commands::help())?,
            Command::System(None) => {
                let system = self.conversation.system.as_deref();
                let none = "no system message; /system TEXT sets one";
                self.screen.show(&format!("{}\n", system.unwrap_or(none)))?;
            }
            Command::System(Some(text)) => {
                self.conversation.system = (!text.is_empty()).then_some(text);
            }
            Command::Set(None) => self.screen.show(&self.settings_table())?,
            Command::Set(Some((name, None))) => self.settings.reset(&name)?,
            Command::Set(Some((name, Some(value)))) => self.settings.set(&name, &[value])?,
            Command::Save(path) => self.save(path)?,
            Command::Load(path) => self.continue_with(&path, &Saved::read(&path)?)?,
            Command::Regen => self.regenerate(runtime)?,
            Command::Undo => {
                require_message(&self.conversation)?;
                let message = self.conversation.undo().unwrap_or_default();
                self.screen.note(&format!("removed: {message}"))?;
            }
            Command::New => self.conversation.clear(),
            Command::Stats => self.screen.show(&self.stats())?,
            Command::Quit => return Ok(Flow::Quit),
        }
        Ok(Flow::Continue)
    }

    /// Generates a response to the last message. A stopped response is kept as far as it came.
    async fn respond(&mut self) -> Result<()> {
        if let Some(interrupts) = &mut self.interrupts {
            interrupts.discard().await;
        }
        let mut text = String::new();
        let finish_reason = self.generate(&mut text).await;
        if text.is_empty() && !matches!(finish_reason, Ok(Some(_))) {
            // Messages must alternate, so one without a response is removed.
            self.conversation.undo();
        } else {
            self.conversation.set_response(text);
        }
        self.screen.end_response()?;
        match finish_reason?.as_deref() {
            None => self.screen.note("stopped; /undo removes the partial response"),
            Some("length") => self.screen.note(&self.truncation_note()),
            Some(_) => Ok(()),
        }
    }

    /// Appends the response to `text`. Returns the finish reason, or `None` if it was stopped.
    async fn generate(&mut self, text: &mut String) -> Result<Option<String>> {
        let messages = self.conversation.messages();
        let started = self.backend.respond(&messages, &self.settings);
        let started = or_interrupt(&mut self.interrupts, started).await;
        let Some(response) = started else { return Ok(None) };
        let mut response = response?;
        let finish_reason = loop {
            match or_interrupt(&mut self.interrupts, response.next()).await {
                None => break Ok(None),
                Some(Err(error)) => break Err(error),
                Some(Ok(Chunk::Done(reason))) => break Ok(Some(reason)),
                Some(Ok(Chunk::Text(chunk))) => {
                    self.screen.response(&chunk)?;
                    text.push_str(&chunk);
                }
            }
        };
        self.count(&response);
        finish_reason
    }

    fn count(&mut self, response: &Response) {
        let counts = response.counts();
        self.total_tokens += counts.response_tokens;
        self.last = Some(counts);
    }

    /// Explains why a response was truncated, and what to do.
    fn truncation_note(&self) -> String {
        let used = self.last.unwrap_or_default().used();
        match self.backend.context_len() {
            Some(len) if used >= len => format!(
                "the context is full ({used} of {len} tokens): /undo removes the last turn, /new starts \
                 over"
            ),
            _ => "stopped at the token limit: /set max-tokens N allows longer responses".to_owned(),
        }
    }

    fn regenerate(&mut self, runtime: &Runtime) -> Result<()> {
        require_message(&self.conversation)?;
        let sampling = self.settings.sampling();
        if !self.backend.has_own_defaults() {
            if sampling.params().temperature == 0.0 {
                self.screen.note(
                    "greedy sampling gives the same response: /set temperature 0.8 varies it",
                )?;
            } else if sampling.seed.is_some() {
                self.screen
                    .note("the seed gives the same response: /set seed default varies it")?;
            }
        }
        self.conversation.remove_response();
        runtime.block_on(self.respond())
    }

    fn save(&mut self, path: Option<PathBuf>) -> Result<()> {
        let path = path.or_else(|| self.file.clone()).context("/save requires a file name")?;
        let settings = self.settings.chosen();
        Saved::new(&self.conversation, self.backend.name(), settings).write(&path)?;
        self.screen.note(&format!("saved to {}", path.display()))?;
        self.file = Some(path);
        Ok(())
    }

    /// Starts with a saved conversation. Options of the command line override its settings.
    pub(crate) fn start_with(&mut self, path: &Path) -> Result<()> {
        let mut saved = Saved::read(path)?;
        saved.settings.retain(|field, _| !self.settings.is_given(field));
        let system = self.conversation.system.take();
        self.continue_with(path, &saved)?;
        if system.is_some() {
            self.conversation.system = system;
        }
        Ok(())
    }

    /// Continues a saved conversation.
    fn continue_with(&mut self, path: &Path, saved: &Saved) -> Result<()> {
        let conversation = saved.conversation()?;
        self.settings.restore(&saved.settings).with_context(|| format!("{}", path.display()))?;
        self.conversation = conversation;
        let turns = output::count(self.conversation.turns(), "turn");
        self.screen.note(&format!("loaded {turns} from {}", path.display()))?;
        self.file = Some(path.to_owned());
        Ok(())
    }

    fn settings_table(&self) -> String {
        let chosen = self.settings.chosen();
        let mut text = String::new();
        for (field, value) in self.settings.all() {
            let name = field.replace('_', "-");
            let is_theirs = self.backend.has_own_defaults() && !chosen.contains_key(&field);
            let value = if is_theirs { "the server's".to_owned() } else { value.to_string() };
            text += &format!("  {name:20}{value}\n");
        }
        text
    }

    fn stats(&self) -> String {
        let Some(last) = self.last else { return "  there are no responses yet\n".to_owned() };
        let cached = match last.cached_tokens {
            Some(cached) => format!(", {cached} cached"),
            None => String::new(),
        };
        let context = match self.backend.context_len() {
            Some(len) => format!(" of {len} tokens ({} %)", last.used() * 100 / len.max(1)),
            None => " tokens".to_owned(),
        };
        let seed = last.seed.map_or_else(|| "unknown".to_owned(), |seed| seed.to_string());
        let prompt = match last.prompt_tokens {
            0 => "unknown".to_owned(),
            tokens => {
                format!(
                    "{}{cached}, {:.1} tok/s",
                    output::count(tokens, "token"),
                    last.prompt_rate()
                )
            }
        };
        format!(
            "  prompt    {prompt}\n  response  {}, {:.1} tok/s\n  context   {}{context}\n  \
             seed      {seed}\n  total     {}, {} generated\n",
            output::count(last.response_tokens, "token"),
            last.response_rate(),
            last.used(),
            output::count(self.conversation.turns(), "turn"),
            output::count(self.total_tokens, "token"),
        )
    }
}

/// Returns the output of `work`, or `None` if Ctrl-C came first.
async fn or_interrupt<T>(
    interrupts: &mut Option<Interrupts>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let Some(interrupts) = interrupts else { return Some(work.await) };
    tokio::select! {
        biased;
        () = interrupts.next() => None,
        done = work => Some(done),
    }
}
