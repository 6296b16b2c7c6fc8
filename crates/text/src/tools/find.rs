//! Finds tool calls in a growing text.
//!
//! Text that may begin a call is held back until that is decided. Text that is not a call is emitted: nothing is lost
//! but white space and markers around calls.

use std::mem;

use super::ToolFormat;
use super::json::{Brackets, Call, call, calls, may_be_call};
use super::tagged::{self, Beginning, FUNCTION, FUNCTION_END, TextParameters};

/// Event of parsing a completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolCallEvent {
    /// Text outside of calls.
    Text(String),
    /// A call begins.
    Begin {
        /// Name of the tool.
        name: String,
    },
    /// Next part of the call's arguments, as JSON.
    Arguments(String),
    /// The call ends.
    End,
}

/// Parser of tool calls in a completion. The events do not depend on how the text is split into pieces.
#[derive(Debug)]
pub struct ToolCallParser {
    format: ToolFormat,
    names: Vec<String>,
    /// For each tool, its parameters that are text.
    text_parameters: Vec<TextParameters>,
    is_constrained: bool,
    state: State,
    /// Text that is not emitted yet.
    held: String,
    events: Vec<ToolCallEvent>,
}

/// State of the parser at the end of the text so far.
#[derive(Debug)]
enum State {
    Outside(Since),
    Inside(Inside),
    /// After the JSON of a call, where its end marker may follow.
    Ending,
}

/// Last element before the current text, ignoring white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Start,
    Call,
    Text,
}

/// A possible call or list of calls.
#[derive(Debug)]
struct Inside {
    /// Number of held bytes that are text if this is not a call.
    text_len: usize,
    /// Offset of its JSON, possibly after white space.
    from: usize,
    /// Name of the tool, if it precedes the JSON.
    name: Option<String>,
    /// Offset up to which it was scanned.
    read: usize,
    brackets: Brackets,
    stage: Stage,
    has_calls: bool,
}

/// Stage of emitting a constrained call; offsets are in the held text.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Before,
    /// The call begins at this offset.
    Name(usize),
    /// The arguments were emitted up to this offset.
    Arguments(usize),
    Rest,
}

impl ToolCallParser {
    /// Creates a parser for calls of these tools.
    pub fn new(format: ToolFormat, names: Vec<String>) -> Self {
        let state = State::Outside(Since::Start);
        Self {
            format,
            names,
            text_parameters: Vec::new(),
            is_constrained: false,
            state,
            held: String::new(),
            events: Vec::new(),
        }
    }

    /// Sets the parameters of each tool that are text. In a format without quotes, others are JSON if they look like it.
    #[must_use]
    pub fn with_text_parameters(self, text_parameters: Vec<Vec<String>>) -> Self {
        Self { text_parameters, ..self }
    }

    /// Assumes that a grammar constrains the calls: arguments are emitted as they arrive, and calls without a
    /// marker occur only in formats without an end marker.
    #[must_use]
    pub fn constrained(self) -> Self {
        Self { is_constrained: true, ..self }
    }

    /// Appends a piece of text and returns the events it decides.
    pub fn push(&mut self, text: &str) -> Vec<ToolCallEvent> {
        self.held.push_str(text);
        while self.step() {}
        mem::take(&mut self.events)
    }

    /// Ends the text. An incomplete call ends too.
    pub fn finish(&mut self) -> Vec<ToolCallEvent> {
        match &self.state {
            State::Inside(inside) => match inside.stage {
                Stage::Arguments(_) | Stage::Rest => self.events.push(ToolCallEvent::End),
                Stage::Before if inside.has_calls => {}
                Stage::Name(from) if inside.has_calls => {
                    self.held.drain(..from);
                    self.emit_text(self.held.len());
                }
                Stage::Before | Stage::Name(_) => self.emit_text(self.held.len()),
            },
            // At most the beginning of a marker.
            State::Ending => {}
            State::Outside(Since::Call) if self.held.trim().is_empty() => {}
            State::Outside(_) => self.emit_text(self.held.len()),
        }
        self.held.clear();
        mem::take(&mut self.events)
    }

    /// Advances the state. Returns `true` if it may advance further.
    fn step(&mut self) -> bool {
        match &self.state {
            State::Outside(since) => self.outside(*since),
            State::Inside(_) => self.inside(),
            State::Ending => self.ending(),
        }
    }

    fn outside(&mut self, since: Since) -> bool {
        if since != Since::Text && self.allows_bare_calls() {
            let mut rest = self.held.trim_start();
            if since == Since::Call {
                rest = rest.strip_prefix([';', ',']).map_or(rest, str::trim_start);
            }
            if rest.is_empty() {
                return false;
            }
            let from = self.held.len() - rest.len();
            let is_mark = |mark: &str| rest.starts_with(mark) || mark.starts_with(rest);
            if rest.starts_with(['{', '[']) && !self.format.call_start().is_some_and(is_mark) {
                self.enter(from, from + 1);
                return true;
            }
        }
        let marks = self.marks();
        if let Some((at, mark)) = first_of(&self.held, &marks) {
            let text_end = self.held[..at].trim_end().len();
            self.emit_text(text_end);
            // The call itself begins with this mark.
            let mark_len = if mark == FUNCTION { 0 } else { mark.len() };
            let begin = at - text_end + mark_len;
            self.enter(begin, at - text_end + mark.len());
            return true;
        }
        if marks.is_empty() {
            self.emit_text(self.held.len());
            return false;
        }
        let is_beginning =
            |at: &usize| marks.iter().any(|mark| mark.starts_with(&self.held[*at..]));
        let begins = self.held.char_indices().map(|(at, _)| at);
        let longest = marks.iter().map(|mark| mark.len()).max().unwrap_or(0);
        let first_open = self.held.len().saturating_sub(longest);
        let undecided = begins.filter(|at| *at >= first_open).find(is_beginning);
        let decided = &self.held[..undecided.unwrap_or(self.held.len())];
        self.emit_text(decided.trim_end().len());
        false
    }

    /// Returns the marks that begin calls.
    fn marks(&self) -> Vec<&'static str> {
        let function =
            (self.format == ToolFormat::Hermes && !self.is_constrained).then_some(FUNCTION);
        self.format.call_start().into_iter().chain(function).collect()
    }

    /// Returns `true` if calls may occur without a marker.
    fn allows_bare_calls(&self) -> bool {
        let has_mark = matches!(self.format, ToolFormat::Hermes | ToolFormat::Mistral);
        !(self.is_constrained && has_mark)
    }

    fn enter(&mut self, from: usize, text_len: usize) {
        self.state = State::Inside(Inside {
            text_len,
            from,
            name: None,
            read: from,
            brackets: Brackets::default(),
            stage: Stage::Before,
            has_calls: false,
        });
    }

    fn inside(&mut self) -> bool {
        let State::Inside(inside) = &mut self.state else { return false };
        let json = self.held[inside.from..].trim_start();
        if json.is_empty() {
            return false;
        }
        let start = self.held.len() - json.len();
        if !self.is_constrained && inside.name.is_none() {
            match tagged::beginning(json, self.format, &self.names) {
                Beginning::Undecided => return false,
                Beginning::Named { name, len } => {
                    inside.from = start + len;
                    inside.name = Some(name);
                    return true;
                }
                Beginning::Function => return self.inside_function(start),
                Beginning::Other => {}
            }
        }
        let may_be_call = match inside.name {
            Some(_) => json.starts_with('{'),
            None => may_be_call(json),
        };
        if !may_be_call {
            let text_len = inside.text_len;
            self.emit_text(text_len);
            self.state = State::Outside(Since::Text);
            return true;
        }
        let is_list = json.starts_with('[');
        let end = inside.read(&self.held, start, |inside, at| {
            if self.is_constrained {
                inside.advance(&self.held, at, usize::from(is_list), &self.names, &mut self.events);
            }
        });
        let Some(end) = end else {
            if let Stage::Arguments(from) = inside.stage {
                self.events.push(ToolCallEvent::Arguments(self.held[from..].to_owned()));
                inside.stage = Stage::Arguments(self.held.len());
            }
            return false;
        };
        let json = &self.held[start..end];
        let found = match inside.name.take() {
            Some(name) => object(json).map(|arguments| vec![Call { name, arguments }]),
            None if self.is_constrained => inside.has_calls.then(Vec::new),
            None => calls(json, &self.names),
        };
        self.end_calls(found, end);
        true
    }

    /// Reads a call of Qwen-Coder's format, which begins at `start`.
    fn inside_function(&mut self, start: usize) -> bool {
        let State::Inside(inside) = &mut self.state else { return false };
        // A part of the mark may have been read before.
        let from = inside.read.saturating_sub(FUNCTION_END.len()).max(start);
        let from = (from..=self.held.len()).find(|at| self.held.is_char_boundary(*at));
        let from = from.unwrap_or(start);
        let Some(at) = self.held[from..].find(FUNCTION_END) else {
            inside.read = self.held.len();
            return false;
        };
        let end = from + at + FUNCTION_END.len();
        let call = tagged::function(&self.held[start..end], &self.names, &self.text_parameters);
        self.end_calls(call.map(|call| vec![call]), end);
        true
    }

    /// Emits the calls in the held text up to `end`, or that text if there are none.
    fn end_calls(&mut self, found: Option<Vec<Call>>, end: usize) {
        let Some(found) = found else {
            self.emit_text(end);
            self.state = State::Outside(Since::Text);
            return;
        };
        for call in found {
            self.events.push(ToolCallEvent::Begin { name: call.name });
            self.events.push(ToolCallEvent::Arguments(call.arguments));
            self.events.push(ToolCallEvent::End);
        }
        self.held.drain(..end);
        self.state = State::Ending;
    }

    fn ending(&mut self) -> bool {
        if let Some(mark) = self.format.call_end() {
            let rest = self.held.trim_start();
            if let Some(after) = rest.strip_prefix(mark) {
                self.held = after.to_owned();
            } else if mark.starts_with(rest) {
                return false;
            }
        }
        self.state = State::Outside(Since::Call);
        true
    }

    /// Emits the first bytes of the held text.
    fn emit_text(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let emitted: String = self.held.drain(..bytes).collect();
        match self.events.last_mut() {
            Some(ToolCallEvent::Text(text)) => text.push_str(&emitted),
            _ => self.events.push(ToolCallEvent::Text(emitted)),
        }
        if let State::Outside(since) = &mut self.state {
            *since = Since::Text;
        }
    }
}

/// Returns the first of these marks in a text, and its offset.
fn first_of(text: &str, marks: &[&'static str]) -> Option<(usize, &'static str)> {
    marks.iter().filter_map(|mark| Some((text.find(mark)?, *mark))).min()
}

/// Returns a JSON object verbatim, or `None` if it is none.
fn object(json: &str) -> Option<String> {
    serde_json::from_str::<serde_json::Map<_, _>>(json).ok().map(|_| json.to_owned())
}

impl Inside {
    /// Scans the JSON at `start`, calling `on_bracket` for each bracket. Returns its end.
    fn read(
        &mut self,
        held: &str,
        start: usize,
        mut on_bracket: impl FnMut(&mut Self, usize),
    ) -> Option<usize> {
        self.read = self.read.max(start);
        while let Some(&byte) = held.as_bytes().get(self.read) {
            let at = self.read;
            self.read += 1;
            if self.brackets.step(byte) {
                on_bracket(self, at);
                if self.brackets.depth == 0 {
                    return Some(self.read);
                }
            }
        }
        None
    }

    /// Emits the events that the bracket at `at` decides. Calls are nested `base` brackets deep.
    fn advance(
        &mut self,
        held: &str,
        at: usize,
        base: usize,
        names: &[String],
        events: &mut Vec<ToolCallEvent>,
    ) {
        let is_open = matches!(held.as_bytes()[at], b'{');
        match (self.stage, self.brackets.depth - base.min(self.brackets.depth)) {
            (Stage::Before, 1) if is_open => self.stage = Stage::Name(at),
            (Stage::Name(from), 2) if is_open => {
                // With empty arguments, the text up to here would be a complete call.
                let head = call(&format!("{}{{}}}}", &held[from..at]));
                if let Some(head) = head.filter(|head| names.contains(&head.name)) {
                    events.push(ToolCallEvent::Begin { name: head.name });
                    self.stage = Stage::Arguments(at);
                    self.has_calls = true;
                }
            }
            (Stage::Arguments(from), 1) => {
                events.push(ToolCallEvent::Arguments(held[from..=at].to_owned()));
                self.stage = Stage::Rest;
            }
            (Stage::Rest, 0) => {
                events.push(ToolCallEvent::End);
                self.stage = Stage::Before;
            }
            (Stage::Name(_), 0) => self.stage = Stage::Before,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
