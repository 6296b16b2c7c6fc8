//! One chat from its first line to its last.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use super::args::ChatArgs;
use super::backend::{Backend, Counts, Part, Reply};
use super::commands::{self, Command};
use super::conversation::{Conversation, Saved, need_a_question};
use super::input::{Input, Line};
use super::interrupt::Interrupts;
use super::screen::Screen;
use super::settings::Settings;
use crate::report;

/// A chat.
pub(crate) struct Session {
    backend: Backend,
    screen: Screen,
    /// Nothing where Ctrl-C is to end the program.
    interrupts: Option<Interrupts>,
    conversation: Conversation,
    settings: Settings,
    /// Of the last answer.
    last: Option<Counts>,
    /// Tokens of all answers.
    written: usize,
    /// Where the conversation was saved or loaded.
    file: Option<PathBuf>,
}

/// What to do after a line.
#[derive(PartialEq, Eq)]
enum Next {
    GoOn,
    Leave,
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
            written: 0,
            file: None,
        }
    }

    /// Reads and answers until there is no more.
    pub(crate) fn run(&mut self, mut input: Input, runtime: &Runtime) -> Result<()> {
        let (name, about) = (self.backend.name(), self.backend.about());
        self.screen.note(&format!("{name} · {about} · /help lists commands, Ctrl-D leaves"))?;
        let mut was_interrupted = false;
        loop {
            let line = match input.next()? {
                line @ (Line::Text(_) | Line::Fenced(_)) => line,
                Line::End => return Ok(()),
                Line::Interrupted if was_interrupted => return Ok(()),
                Line::Interrupted => {
                    was_interrupted = true;
                    self.screen.note("Ctrl-C once more leaves, and so does Ctrl-D")?;
                    continue;
                }
            };
            was_interrupted = false;
            match self.take(&line, runtime) {
                Ok(Next::GoOn) => {}
                Ok(Next::Leave) => return Ok(()),
                // Someone who watches can try again; a script cannot.
                Err(error) if self.screen.is_watched() && !report::is_broken_pipe(&error) => {
                    self.screen.error(&report::explain(&error))?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&mut self, line: &Line, runtime: &Runtime) -> Result<Next> {
        let (message, command) = match line {
            Line::Text(text) => (text, Command::parse(text)),
            Line::Fenced(text) => (text, None),
            Line::Interrupted | Line::End => return Ok(Next::GoOn),
        };
        let Some(command) = command else {
            if !message.trim().is_empty() {
                self.conversation.ask(message.trim());
                runtime.block_on(self.answer())?;
            }
            return Ok(Next::GoOn);
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
            Command::Load(path) => self.go_on_with(&path, &Saved::read(&path)?)?,
            Command::Regen => self.regenerate(runtime)?,
            Command::Undo => {
                need_a_question(&self.conversation)?;
                let question = self.conversation.undo().unwrap_or_default();
                self.screen.note(&format!("taken back: {question}"))?;
            }
            Command::New => self.conversation.clear(),
            Command::Stats => self.screen.show(&self.stats())?,
            Command::Quit => return Ok(Next::Leave),
        }
        Ok(Next::GoOn)
    }

    /// Answers the last question. An answer that is stopped stays as far as it came.
    async fn answer(&mut self) -> Result<()> {
        if let Some(interrupts) = &mut self.interrupts {
            interrupts.forget().await;
        }
        let mut text = String::new();
        let ended = self.write_answer(&mut text).await;
        if text.is_empty() && !matches!(ended, Ok(Some(_))) {
            // A question without an answer would be in the way of the next one.
            self.conversation.undo();
        } else {
            self.conversation.answer(text);
        }
        self.screen.end_answer()?;
        match ended?.as_deref() {
            None => self.screen.note("stopped; what was written stays, /undo takes it back"),
            Some("length") => self.screen.note(&self.why_cut()),
            Some(_) => Ok(()),
        }
    }

    /// Writes an answer into `text`, and says why it ended; nothing if it was stopped.
    async fn write_answer(&mut self, text: &mut String) -> Result<Option<String>> {
        let messages = self.conversation.messages();
        let asked = self.backend.ask(&messages, &self.settings);
        let Some(reply) = or_interrupt(&mut self.interrupts, asked).await else { return Ok(None) };
        let mut reply = reply?;
        let ended = loop {
            match or_interrupt(&mut self.interrupts, reply.next()).await {
                None => break Ok(None),
                Some(Err(error)) => break Err(error),
                Some(Ok(Part::Done(reason))) => break Ok(Some(reason)),
                Some(Ok(Part::Text(piece))) => {
                    self.screen.answer(&piece)?;
                    text.push_str(&piece);
                }
            }
        };
        self.count(&reply);
        ended
    }

    fn count(&mut self, reply: &Reply) {
        let counts = reply.counts();
        self.written += counts.reply_tokens;
        self.last = Some(counts);
    }

    /// Why an answer ended before its end, and how to go on.
    fn why_cut(&self) -> String {
        let used = self.last.unwrap_or_default().used();
        match self.backend.context_len() {
            Some(len) if used >= len => format!(
                "the context is full ({used} of {len} tokens): /undo takes the last turn back, /new \
                 starts over"
            ),
            _ => "cut at the limit: /set max-tokens N allows longer answers".to_owned(),
        }
    }

    fn regenerate(&mut self, runtime: &Runtime) -> Result<()> {
        need_a_question(&self.conversation)?;
        let sampling = self.settings.sampling();
        if !self.backend.has_own_settings() {
            if sampling.temperature == 0.0 {
                self.screen.note("the same answer again: /set temperature 0.8 gives others")?;
            } else if sampling.seed.is_some() {
                self.screen.note("the same answer again: /set seed default gives others")?;
            }
        }
        self.conversation.forget_answer();
        runtime.block_on(self.answer())
    }

    fn save(&mut self, path: Option<PathBuf>) -> Result<()> {
        let path = path.or_else(|| self.file.clone()).context("/save needs the name of a file")?;
        let settings = self.settings.chosen();
        Saved::new(&self.conversation, self.backend.name(), settings).write(&path)?;
        self.screen.note(&format!("saved to {}", path.display()))?;
        self.file = Some(path);
        Ok(())
    }

    /// Begins with a conversation that was saved. What the command line says beats what it says.
    pub(crate) fn begin_with(&mut self, path: &Path) -> Result<()> {
        let mut saved = Saved::read(path)?;
        saved.settings.retain(|field, _| !self.settings.is_given(field));
        let system = self.conversation.system.take();
        self.go_on_with(path, &saved)?;
        if system.is_some() {
            self.conversation.system = system;
        }
        Ok(())
    }

    /// Goes on with a conversation that was saved.
    fn go_on_with(&mut self, path: &Path, saved: &Saved) -> Result<()> {
        let conversation = saved.conversation()?;
        self.settings.restore(&saved.settings).with_context(|| format!("{}", path.display()))?;
        self.conversation = conversation;
        let turns = report::count(self.conversation.turns(), "turn");
        self.screen.note(&format!("{turns} of {} loaded", path.display()))?;
        self.file = Some(path.to_owned());
        Ok(())
    }

    fn settings_table(&self) -> String {
        let chosen = self.settings.chosen();
        let mut text = String::new();
        for (field, value) in self.settings.all() {
            let name = field.replace('_', "-");
            let is_theirs = self.backend.has_own_settings() && !chosen.contains_key(&field);
            let value = if is_theirs { "the server's".to_owned() } else { value.to_string() };
            text += &format!("  {name:20}{value}\n");
        }
        text
    }

    fn stats(&self) -> String {
        let Some(last) = self.last else { return "  nothing has been answered yet\n".to_owned() };
        let cached = match last.cached_tokens {
            Some(cached) => format!(", {cached} of them cached"),
            None => String::new(),
        };
        let context = match self.backend.context_len() {
            Some(len) => format!(" of {len} tokens ({} %)", last.used() * 100 / len.max(1)),
            None => " tokens".to_owned(),
        };
        let seed = last.seed.map_or_else(|| "not told".to_owned(), |seed| seed.to_string());
        let prompt = match last.prompt_tokens {
            0 => "not told".to_owned(),
            tokens => {
                format!(
                    "{}{cached}, {:.1} tok/s",
                    report::count(tokens, "token"),
                    last.prompt_rate()
                )
            }
        };
        format!(
            "  prompt    {prompt}\n  answer    {}, {:.1} tok/s\n  context   {}{context}\n  \
             seed      {seed}\n  so far    {}, {} written\n",
            report::count(last.reply_tokens, "token"),
            last.reply_rate(),
            last.used(),
            report::count(self.conversation.turns(), "turn"),
            report::count(self.written, "token"),
        )
    }
}

/// What `work` gives, or nothing if it was interrupted before.
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
