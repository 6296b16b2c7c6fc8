//! The loop of a chat.

use std::future::pending;
use std::ops::ControlFlow::{self, Break, Continue};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use tokio::signal::ctrl_c;

use super::args::ChatArgs;
use super::backend::Backend;
use super::commands::{self, Command};
use super::conversation::{Conversation, Saved};
use super::input::{Input, Line};
use super::response::{About, Chunk, Counts, window_hint};
use super::screen::Screen;
use super::settings::Settings;
use super::tools::{ToolCall, Tools};
use crate::args::SamplingArgs;
use crate::output;

/// Rounds of tool calls of one response: a small model may not find an end by itself.
const MAX_ROUNDS: usize = 10;

pub(crate) struct Session {
    backend: Backend,
    screen: Screen,
    conversation: Conversation,
    settings: Settings,
    tools: Tools,
    /// Counts of the last response.
    last: Option<Counts>,
    total_tokens: usize,
    /// File that the conversation was last saved to or loaded from.
    file: Option<PathBuf>,
    /// True once the user knows that earlier messages are out of sight.
    has_told_of_window: bool,
}

impl Session {
    pub(crate) fn new(args: &ChatArgs, backend: Backend, screen: Screen, tools: Tools) -> Self {
        let params = args.sampling.params.clone().or(&backend.recommended_sampling());
        let sampling = SamplingArgs { params, ..args.sampling.clone() };
        let mut conversation = Conversation::default();
        conversation.system.clone_from(&args.system);
        Self {
            backend,
            screen,
            conversation,
            settings: Settings::new(&sampling, &args.given),
            tools,
            last: None,
            total_tokens: 0,
            file: None,
            has_told_of_window: false,
        }
    }

    /// Ends the model, once the pages that are to be kept are on disk.
    pub(crate) fn close(self) {
        self.backend.close();
    }

    /// Processes the input to its end.
    pub(crate) fn run(&mut self, mut input: Input, runtime: &Runtime) -> Result<()> {
        let About { name, details, .. } = self.backend.about();
        self.screen.note(&format!("{name} · {details} · /help lists commands, Ctrl-D quits"))?;
        let tools = self.tools.names();
        if !tools.is_empty() {
            self.screen.note(&format!("tools: {}", tools.join(", ")))?;
        }
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
                Ok(Continue(())) => {}
                Ok(Break(())) => return Ok(()),
                // A user can try again; a script cannot.
                Err(error) if self.screen.is_interactive() && !output::is_broken_pipe(&error) => {
                    self.screen.error(&output::explain(&error))?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn handle(&mut self, line: &Line, runtime: &Runtime) -> Result<ControlFlow<()>> {
        let (message, command) = match line {
            Line::Text(text) => (text, Command::parse(text)),
            Line::Fenced(text) => (text, None),
            Line::Interrupted | Line::End => return Ok(Continue(())),
        };
        let Some(command) = command else {
            if !message.trim().is_empty() {
                self.conversation.push(message.trim());
                runtime.block_on(self.respond())?;
            }
            return Ok(Continue(()));
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
            Command::Set(Some((name, value))) => self.settings.set(&name, value.as_slice())?,
            Command::Save(path) => self.save(path)?,
            Command::Load(path) => self.continue_with(&path, &Saved::read(&path)?)?,
            Command::Regen => self.regenerate(runtime)?,
            Command::Undo => {
                self.conversation.require_message()?;
                let message = self.conversation.undo().unwrap_or_default();
                self.screen.note(&format!("removed: {message}"))?;
            }
            Command::New => self.conversation.clear(),
            Command::Stats => self.screen.show(&self.stats())?,
            Command::Quit => return Ok(Break(())),
        }
        Ok(Continue(()))
    }

    /// Generates a response to the last message, with the tool calls that it needs. A stopped response is kept as far
    /// as it came.
    async fn respond(&mut self) -> Result<()> {
        let (mut text, mut calls) = (String::new(), Vec::new());
        let mut finish_reason = self.generate(&mut text, &mut calls).await;
        for _ in 0..MAX_ROUNDS {
            if calls.is_empty() || !matches!(finish_reason, Ok(Some(_))) {
                break;
            }
            self.screen.end_response()?;
            self.conversation.push_calls(&text, &calls);
            text.clear();
            match self.call_tools(std::mem::take(&mut calls)).await? {
                Break(()) => finish_reason = Ok(None),
                Continue(()) => finish_reason = self.generate(&mut text, &mut calls).await,
            }
        }
        if !calls.is_empty() && matches!(finish_reason, Ok(Some(_))) {
            self.screen.note(&format!("stopped after {MAX_ROUNDS} rounds of tool calls"))?;
        }
        self.end_turn(&text, finish_reason)
    }

    /// Keeps a response, or removes a turn without one, and says why it ended.
    fn end_turn(&mut self, text: &str, finish_reason: Result<Option<String>>) -> Result<()> {
        if text.is_empty() && !matches!(finish_reason, Ok(Some(_))) {
            // Messages must alternate, so one without a response is removed.
            self.conversation.undo();
        } else {
            self.conversation.set_response(text);
        }
        self.screen.end_response()?;
        self.tell_of_window()?;
        match finish_reason?.as_deref() {
            None => self.screen.note("stopped; /undo removes the partial response"),
            Some("length") => self.screen.note(&self.truncation_note()),
            Some(_) => Ok(()),
        }
    }

    /// Says once in a conversation that its beginning is out of sight.
    fn tell_of_window(&mut self) -> Result<()> {
        let out = self.last.map_or(0, |counts| counts.out_of_sight);
        let is_news = out > 0 && !self.has_told_of_window;
        self.has_told_of_window = out > 0;
        if is_news {
            let tokens = output::count(out, "token");
            self.screen.note(&format!(
                "earlier messages are out of sight of the model ({tokens}); /new starts over"
            ))?;
        }
        Ok(())
    }

    /// Calls tools, each after the user has allowed it. Ends early if the user stops it.
    async fn call_tools(&mut self, calls: Vec<ToolCall>) -> Result<ControlFlow<()>> {
        let mut interrupt = pin!(interrupt(self.screen.is_interactive()));
        for call in &calls {
            let ToolCall { name, arguments, .. } = call;
            self.screen.note(&format!("{name} {arguments}"))?;
            let result = if self.is_allowed(name)? {
                let called = unless(interrupt.as_mut(), self.tools.call(call)).await;
                let Some(result) = called else { return Ok(Break(())) };
                result
            } else {
                "the user did not allow this call".to_owned()
            };
            self.screen.note(&format!("= {result}"))?;
            self.conversation.push_result(call, &result);
        }
        Ok(Continue(()))
    }

    fn is_allowed(&mut self, name: &str) -> Result<bool> {
        if self.tools.is_allowed(name) {
            return Ok(true);
        }
        let answer = self.screen.ask(&format!("call {name}? yes, always or no [no]: "))?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "a" | "always" => {
                self.tools.allow(name);
                Ok(true)
            }
            answer => Ok(matches!(answer, "y" | "yes")),
        }
    }

    /// Appends the response to `text` and `calls`. Returns the finish reason, or `None` if it was stopped.
    async fn generate(
        &mut self,
        text: &mut String,
        calls: &mut Vec<ToolCall>,
    ) -> Result<Option<String>> {
        let mut interrupt = pin!(interrupt(self.screen.is_interactive()));
        let messages = self.conversation.messages();
        let started = self.backend.respond(&messages, &self.settings, &self.tools);
        let Some(response) = unless(interrupt.as_mut(), started).await else { return Ok(None) };
        let mut response = response?;
        let finish_reason = loop {
            match unless(interrupt.as_mut(), response.next()).await {
                None => break Ok(None),
                Some(Err(error)) => break Err(error),
                Some(Ok(Chunk::Done(reason))) => break Ok(Some(reason)),
                Some(Ok(Chunk::Call(call))) => calls.push(call),
                Some(Ok(Chunk::Reasoning(chunk))) => self.screen.reasoning(&chunk)?,
                Some(Ok(Chunk::Text(chunk))) => {
                    self.screen.response(&chunk)?;
                    text.push_str(&chunk);
                }
            }
        };
        let counts = response.counts();
        self.total_tokens += counts.response_tokens;
        self.last = Some(counts);
        finish_reason
    }

    /// Explains why a response was truncated, and what to do.
    fn truncation_note(&self) -> String {
        let used = self.last.unwrap_or_default().used();
        match self.backend.about().context_len {
            Some(len) if used >= len => format!(
                "the context is full ({used} of {len} tokens): /undo removes the last turn, /new starts \
                 over{}",
                window_hint(len)
            ),
            _ => "stopped at the token limit: /set max-tokens N allows longer responses".to_owned(),
        }
    }

    fn regenerate(&mut self, runtime: &Runtime) -> Result<()> {
        self.conversation.require_message()?;
        let sampling = self.settings.sampling();
        let is_greedy = sampling.params().temperature == 0.0;
        if !self.backend.has_own_defaults() && (is_greedy || sampling.seed.is_some()) {
            self.screen.note(match is_greedy {
                true => "greedy sampling gives the same response: /set temperature 0.8 varies it",
                false => "the seed gives the same response: /set seed default varies it",
            })?;
        }
        self.conversation.remove_response();
        runtime.block_on(self.respond())
    }

    fn save(&mut self, path: Option<PathBuf>) -> Result<()> {
        let path = path.or_else(|| self.file.clone()).context("/save requires a file name")?;
        let settings = self.settings.chosen();
        Saved::new(&self.conversation, &self.backend.about().name, settings).write(&path)?;
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
        let cached = last.cached_tokens.map_or(String::new(), |n| format!(", {n} cached"));
        let context = match self.backend.about().context_len {
            Some(len) => format!(" of {len} tokens ({} %)", last.used() * 100 / len.max(1)),
            None => " tokens".to_owned(),
        };
        let out = match last.out_of_sight {
            0 => String::new(),
            tokens => format!(", {tokens} out of sight"),
        };
        let seed = last.seed.map_or_else(|| "unknown".to_owned(), |seed| seed.to_string());
        let prompt = match last.prompt_tokens {
            0 => "unknown".to_owned(),
            tokens => {
                let tokens = output::count(tokens, "token");
                format!("{tokens}{cached}, {:.1} tok/s", last.prompt_rate())
            }
        };
        format!(
            "  prompt    {prompt}\n  response  {}, {:.1} tok/s\n  context   {}{context}{out}\n  \
             seed      {seed}\n  total     {}, {} generated\n",
            output::count(last.response_tokens, "token"),
            last.response_rate(),
            last.used(),
            output::count(self.conversation.turns(), "turn"),
            output::count(self.total_tokens, "token"),
        )
    }
}

/// Waits for Ctrl-C in an interactive chat; in a script, Ctrl-C ends the process. While a line is
/// edited, the terminal is in raw mode and Ctrl-C is an ordinary key.
async fn interrupt(is_interactive: bool) {
    if !is_interactive || ctrl_c().await.is_err() {
        pending().await
    }
}

/// Returns the output of `work`, or `None` if `interrupt` came first.
async fn unless<T>(
    interrupt: Pin<&mut impl Future<Output = ()>>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        () = interrupt => None,
        done = work => Some(done),
    }
}
