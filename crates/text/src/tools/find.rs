//! Finds tool calls in a text that comes in pieces.
//!
//! What reads like the beginning of a call is held back until it is one or is not. What is not is handed
//! out as text: nothing is lost but white space and marks around calls.

use std::mem;

use super::ToolFormat;
use super::json::{Brackets, call, calls, may_be_call};

/// A part of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallPart {
    /// Text that belongs to no call.
    Text(String),
    /// A call begins.
    Begin {
        /// The tool's name.
        name: String,
    },
    /// More of the arguments of the call that began last, as JSON.
    Arguments(String),
    /// The call ends.
    End,
}

/// Takes a reply apart. However it is cut into pieces, all [`push`](Self::push)es and
/// [`finish`](Self::finish) together find the same.
#[derive(Debug)]
pub struct CallFinder {
    format: ToolFormat,
    names: Vec<String>,
    is_certain: bool,
    state: State,
    /// What has come and was not handed out.
    held: String,
    parts: Vec<CallPart>,
}

/// Where the text so far ends.
#[derive(Debug)]
enum State {
    /// In no call.
    Outside(Since),
    /// In what may be one.
    Inside(Inside),
    /// After the JSON of one, where its end mark may come.
    Ending,
}

/// What came last, white space aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Start,
    Call,
    Text,
}

/// What may be a call, or a list of them.
#[derive(Debug)]
struct Inside {
    /// As much of what is held is text if it is no call.
    given_back: usize,
    /// Where its JSON begins, perhaps after white space.
    from: usize,
    /// How far that was read.
    read: usize,
    brackets: Brackets,
    telling: Telling,
    has_told: bool,
}

/// What is being handed out of a call that is certain to be one; places are in what is held.
#[derive(Clone, Copy, Debug)]
enum Telling {
    Nothing,
    /// The call begins here.
    Name(usize),
    /// The arguments were told up to here.
    Arguments(usize),
    Rest,
}

impl CallFinder {
    /// Looks for calls of these tools.
    pub fn new(format: ToolFormat, names: Vec<String>) -> Self {
        let state = State::Outside(Since::Start);
        Self { format, names, is_certain: false, state, held: String::new(), parts: Vec::new() }
    }

    /// The same where a grammar makes sure of calls: then arguments are handed out as they come, and only
    /// formats without an end mark have calls without a mark.
    pub fn certain(self) -> Self {
        Self { is_certain: true, ..self }
    }

    /// Takes the next piece of the text, and gives what is decided with it.
    pub fn push(&mut self, text: &str) -> Vec<CallPart> {
        self.held.push_str(text);
        while self.step() {}
        mem::take(&mut self.parts)
    }

    /// Ends the text. A call that was cut ends too.
    pub fn finish(&mut self) -> Vec<CallPart> {
        match &self.state {
            State::Inside(inside) => match inside.telling {
                Telling::Arguments(_) | Telling::Rest => self.parts.push(CallPart::End),
                Telling::Nothing if inside.has_told => {}
                Telling::Name(from) if inside.has_told => {
                    self.held.drain(..from);
                    self.say(self.held.len());
                }
                Telling::Nothing | Telling::Name(_) => self.say(self.held.len()),
            },
            // At most the beginning of a mark.
            State::Ending => {}
            State::Outside(Since::Call) if self.held.trim().is_empty() => {}
            State::Outside(_) => self.say(self.held.len()),
        }
        self.held.clear();
        mem::take(&mut self.parts)
    }

    /// Decides what can be decided; whether there may be more.
    fn step(&mut self) -> bool {
        match &self.state {
            State::Outside(since) => self.outside(*since),
            State::Inside(_) => self.inside(),
            State::Ending => self.ending(),
        }
    }

    fn outside(&mut self, since: Since) -> bool {
        if since != Since::Text && self.comes_bare() {
            let mut rest = self.held.trim_start();
            if since == Since::Call {
                rest = rest.strip_prefix([';', ',']).map_or(rest, str::trim_start);
            }
            if rest.is_empty() {
                return false;
            }
            let from = self.held.len() - rest.len();
            let is_mark = |mark: &str| rest.starts_with(mark) || mark.starts_with(rest);
            if rest.starts_with(['{', '[']) && !self.format.mark().is_some_and(is_mark) {
                self.enter(from, from + 1);
                return true;
            }
        }
        let Some(mark) = self.format.mark() else {
            self.say(self.held.len());
            return false;
        };
        if let Some(at) = self.held.find(mark) {
            let said = self.held[..at].trim_end().len();
            self.say(said);
            let mark_end = at - said + mark.len();
            self.enter(mark_end, mark_end);
            return true;
        }
        let is_beginning = |at: &usize| mark.starts_with(&self.held[*at..]);
        let begins = self.held.char_indices().map(|(at, _)| at);
        let least = self.held.len().saturating_sub(mark.len());
        let undecided = begins.filter(|at| *at >= least).find(is_beginning);
        let decided = &self.held[..undecided.unwrap_or(self.held.len())];
        self.say(decided.trim_end().len());
        false
    }

    /// Whether calls may come without a mark where one could.
    fn comes_bare(&self) -> bool {
        let has_mark = matches!(self.format, ToolFormat::Hermes | ToolFormat::Mistral);
        !(self.is_certain && has_mark)
    }

    fn enter(&mut self, from: usize, given_back: usize) {
        self.state = State::Inside(Inside {
            given_back,
            from,
            read: from,
            brackets: Brackets::default(),
            telling: Telling::Nothing,
            has_told: false,
        });
    }

    fn inside(&mut self) -> bool {
        let State::Inside(inside) = &mut self.state else { return false };
        let json = self.held[inside.from..].trim_start();
        if json.is_empty() {
            return false;
        }
        if !may_be_call(json) {
            let given_back = inside.given_back;
            self.say(given_back);
            self.state = State::Outside(Since::Text);
            return true;
        }
        let start = self.held.len() - json.len();
        let is_list = json.starts_with('[');
        let end = inside.read(&self.held, start, |inside, at| {
            if self.is_certain {
                inside.tell(&self.held, at, usize::from(is_list), &self.names, &mut self.parts);
            }
        });
        let Some(end) = end else {
            if let Telling::Arguments(from) = inside.telling {
                self.parts.push(CallPart::Arguments(self.held[from..].to_owned()));
                inside.telling = Telling::Arguments(self.held.len());
            }
            return false;
        };
        let found = match self.is_certain {
            true => inside.has_told.then(Vec::new),
            false => calls(&self.held[start..end], &self.names),
        };
        let Some(found) = found else {
            self.say(end);
            self.state = State::Outside(Since::Text);
            return true;
        };
        for call in found {
            self.parts.push(CallPart::Begin { name: call.name });
            self.parts.push(CallPart::Arguments(call.arguments));
            self.parts.push(CallPart::End);
        }
        self.held.drain(..end);
        self.state = State::Ending;
        true
    }

    fn ending(&mut self) -> bool {
        if let Some(mark) = self.format.end_mark() {
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

    /// Hands out the first bytes of what is held, as text.
    fn say(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let said: String = self.held.drain(..bytes).collect();
        match self.parts.last_mut() {
            Some(CallPart::Text(text)) => text.push_str(&said),
            _ => self.parts.push(CallPart::Text(said)),
        }
        if let State::Outside(since) = &mut self.state {
            *since = Since::Text;
        }
    }
}

impl Inside {
    /// Reads on in the JSON that begins at `start`, showing each bracket to `see`; gives where it ends.
    fn read(
        &mut self,
        held: &str,
        start: usize,
        mut see: impl FnMut(&mut Self, usize),
    ) -> Option<usize> {
        self.read = self.read.max(start);
        while let Some(&byte) = held.as_bytes().get(self.read) {
            let at = self.read;
            self.read += 1;
            if self.brackets.step(byte) {
                see(self, at);
                if self.brackets.depth == 0 {
                    return Some(self.read);
                }
            }
        }
        None
    }

    /// Hands out what the bracket at a place decides. A call is `base` brackets deep.
    fn tell(
        &mut self,
        held: &str,
        at: usize,
        base: usize,
        names: &[String],
        parts: &mut Vec<CallPart>,
    ) {
        let is_open = matches!(held.as_bytes()[at], b'{');
        match (self.telling, self.brackets.depth - base.min(self.brackets.depth)) {
            (Telling::Nothing, 1) if is_open => self.telling = Telling::Name(at),
            (Telling::Name(from), 2) if is_open => {
                // With empty arguments it would be whole.
                let head = call(&format!("{}{{}}}}", &held[from..at]));
                if let Some(head) = head.filter(|head| names.contains(&head.name)) {
                    parts.push(CallPart::Begin { name: head.name });
                    self.telling = Telling::Arguments(at);
                    self.has_told = true;
                }
            }
            (Telling::Arguments(from), 1) => {
                parts.push(CallPart::Arguments(held[from..=at].to_owned()));
                self.telling = Telling::Rest;
            }
            (Telling::Rest, 0) => {
                parts.push(CallPart::End);
                self.telling = Telling::Nothing;
            }
            (Telling::Name(_), 0) => self.telling = Telling::Nothing,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
