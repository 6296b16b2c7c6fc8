//! What can be typed instead of a message.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::near;

/// Something to do instead of asking.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    /// Show the system message, or change it; an empty one is none.
    System(Option<String>),
    /// Show the settings, or change one; without a value back to what it was at first.
    Set(Option<(String, Option<String>)>),
    Save(Option<PathBuf>),
    Load(PathBuf),
    Regen,
    Undo,
    New,
    Stats,
    Quit,
}

/// Each command with what comes after it, and what it does.
const ALL: [(&str, &str, &str); 10] = [
    ("help", "", "this list"),
    ("system", "[TEXT]", "show or change the system message; /system off has none"),
    ("set", "[NAME VALUE]", "show the settings or change one; /set NAME default takes it back"),
    ("save", "[FILE]", "write the conversation and the settings to a JSON file"),
    ("load", "FILE", "go on with a conversation that was saved"),
    ("regen", "", "another answer to the last question"),
    ("undo", "", "take the last question and its answer back"),
    ("new", "", "start over; the system message and the settings stay"),
    ("stats", "", "tokens, speed and how full the context is"),
    ("quit", "", "leave, as Ctrl-D does"),
];

/// The names of all commands, with the slash.
pub(crate) fn names() -> impl Iterator<Item = String> {
    ALL.into_iter().map(|(name, ..)| format!("/{name}"))
}

/// What /help says.
pub(crate) fn help() -> String {
    let mut text = String::new();
    for (name, more, what) in ALL {
        text += &format!("  {:22}{what}\n", format!("/{name} {more}"));
    }
    text + "\
  A line that ends with \\ goes on in the next; so does what stands between two lines of \"\"\".
  Alt-Enter starts a new line too. A space before a slash makes the line a message.
  Ctrl-C stops an answer, Ctrl-D leaves.
"
}

impl Command {
    /// The command in a line, if it is one.
    pub(crate) fn parse(line: &str) -> Option<Result<Self>> {
        let line = line.strip_prefix('/')?;
        let (name, more) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        Some(Self::of(name, more.trim()))
    }

    fn of(name: &str, more: &str) -> Result<Self> {
        let text = (!more.is_empty()).then(|| more.to_owned());
        let command = match name {
            "help" | "?" => Self::Help,
            "system" => {
                return Ok(Self::System(
                    text.map(|text| if text == "off" { String::new() } else { text }),
                ));
            }
            "set" => return Self::set(more),
            "save" => return Ok(Self::Save(text.map(PathBuf::from))),
            "load" => {
                let file = text.context("/load needs the name of a file")?;
                return Ok(Self::Load(file.into()));
            }
            "regen" => Self::Regen,
            "undo" => Self::Undo,
            "new" => Self::New,
            "stats" => Self::Stats,
            "quit" | "exit" => Self::Quit,
            _ => {
                let meant = near::closest(name, ALL.map(|(name, ..)| name));
                let meant =
                    meant.map_or_else(String::new, |name| format!(" (did you mean /{name}?)"));
                bail!("no command is called /{name}{meant}: /help lists them");
            }
        };
        ensure!(more.is_empty(), "/{name} takes nothing after it, found {more:?}");
        Ok(command)
    }

    fn set(more: &str) -> Result<Self> {
        // Both /set top-k 5 and /set top-k=5, as flags can be written.
        let (name, value) =
            more.split_once(|c: char| c.is_whitespace() || c == '=').unwrap_or((more, ""));
        let value = value.trim();
        match (name, value) {
            ("", _) => Ok(Self::Set(None)),
            (name, "") => bail!("/set {name} needs a value, or the word default"),
            (name, "default") => Ok(Self::Set(Some((name.to_owned(), None)))),
            (name, value) => Ok(Self::Set(Some((name.to_owned(), Some(value.to_owned()))))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_with_a_slash_and_messages_do_not() {
        let parse = |line: &str| Command::parse(line).map(|command| command.unwrap());
        assert_eq!(parse("hello"), None);
        assert_eq!(parse(" /help"), None);
        assert_eq!(parse("/system"), Some(Command::System(None)));
        assert_eq!(parse("/system  Be kind. "), Some(Command::System(Some("Be kind.".into()))));
        assert_eq!(parse("/system off"), Some(Command::System(Some(String::new()))));
        assert_eq!(parse("/save my chat.json"), Some(Command::Save(Some("my chat.json".into()))));
        let set = |value: Option<&str>| {
            Some(Command::Set(Some(("top-k".into(), value.map(str::to_owned)))))
        };
        assert_eq!(parse("/set top-k 5"), set(Some("5")));
        assert_eq!(parse("/set top-k=5"), set(Some("5")));
        assert_eq!(parse("/set top-k default"), set(None));
        assert_eq!(parse("/set"), Some(Command::Set(None)));
        for (name, more, _) in ALL {
            let line = if more.starts_with('[') || more.is_empty() { "" } else { " x" };
            assert!(Command::parse(&format!("/{name}{line}")).unwrap().is_ok(), "{name}");
        }
    }

    #[test]
    fn what_is_no_command_is_told() {
        for (line, words) in [
            ("/hlep", "did you mean /help?"),
            ("/frobnicate", "/help lists them"),
            ("/", "no command is called /"),
            ("/undo 2", "takes nothing after it"),
            ("/load", "name of a file"),
            ("/set temperature", "needs a value"),
        ] {
            let message = Command::parse(line).unwrap().unwrap_err().to_string();
            assert!(message.contains(words), "{line}: {message}");
        }
    }
}
