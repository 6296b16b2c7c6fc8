//! The commands of a chat.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::suggest;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    /// Show the system message, or change it; an empty one removes it.
    System(Option<String>),
    /// Show the settings, or change one; without a value, reset it.
    Set(Option<(String, Option<String>)>),
    Save(Option<PathBuf>),
    Load(PathBuf),
    Regen,
    Undo,
    New,
    Stats,
    Quit,
}

/// Names, arguments and descriptions of all commands.
const ALL: [(&str, &str, &str); 11] = [
    ("help", "", "show this list"),
    ("system", "[TEXT]", "show or change the system message; /system off removes it"),
    ("set", "[NAME VALUE]", "show the settings, or change one; /set NAME default resets it"),
    ("think", "MODE", "turn thinking on or off, or limit its tokens; /think default resets it"),
    ("save", "[FILE]", "save the conversation and the settings to a JSON file"),
    ("load", "FILE", "continue a saved conversation"),
    ("regen", "", "generate another response to the last message"),
    ("undo", "", "remove the last message and its response"),
    ("new", "", "start over; keeps the system message and the settings"),
    ("stats", "", "show tokens, speed and context usage"),
    ("quit", "", "quit, like Ctrl-D"),
];

/// Returns the names of all commands, with the slash.
pub(crate) fn names() -> impl Iterator<Item = String> {
    ALL.into_iter().map(|(name, ..)| format!("/{name}"))
}

pub(crate) fn help() -> String {
    let mut text = String::new();
    for (name, arguments, description) in ALL {
        text += &format!("  {:22}{description}\n", format!("/{name} {arguments}"));
    }
    text + "\
  A line that ends with \\ continues on the next; so does text between two lines of \"\"\".
  Alt-Enter inserts a line break. A space before the slash makes the line a message.
  Ctrl-C stops a response, Ctrl-D quits.
"
}

impl Command {
    /// Parses a line; `None` if it is a message.
    pub(crate) fn parse(line: &str) -> Option<Result<Self>> {
        let line = line.strip_prefix('/')?;
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        Some(Self::of(name, argument.trim()))
    }

    fn of(name: &str, argument: &str) -> Result<Self> {
        let text = (!argument.is_empty()).then(|| argument.to_owned());
        let command = match name {
            "help" | "?" => Self::Help,
            "system" => {
                return Ok(Self::System(
                    text.map(|text| if text == "off" { String::new() } else { text }),
                ));
            }
            "set" => return Self::set(argument),
            "think" => return Self::set(&format!("thinking {argument}")),
            "save" => return Ok(Self::Save(text.map(PathBuf::from))),
            "load" => {
                let file = text.context("/load requires a file name")?;
                return Ok(Self::Load(file.into()));
            }
            "regen" => Self::Regen,
            "undo" => Self::Undo,
            "new" => Self::New,
            "stats" => Self::Stats,
            "quit" | "exit" => Self::Quit,
            _ => {
                let names: Vec<String> = names().collect();
                let hint =
                    suggest::did_you_mean(&format!("/{name}"), names.iter().map(String::as_str));
                bail!("unknown command /{name}{hint} (/help lists all commands)");
            }
        };
        ensure!(argument.is_empty(), "/{name} takes no argument, found {argument:?}");
        Ok(command)
    }

    fn set(argument: &str) -> Result<Self> {
        // Both /set top-k 5 and /set top-k=5, as flags can be written.
        let (name, value) =
            argument.split_once(|c: char| c.is_whitespace() || c == '=').unwrap_or((argument, ""));
        let value = value.trim();
        match (name, value) {
            ("", _) => Ok(Self::Set(None)),
            (name, "") => bail!("/set {name} requires a value, or default"),
            (name, "default") => Ok(Self::Set(Some((name.to_owned(), None)))),
            (name, value) => Ok(Self::Set(Some((name.to_owned(), Some(value.to_owned()))))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_start_with_a_slash() {
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
        let thinking = Command::Set(Some(("thinking".into(), Some("off".into()))));
        assert_eq!(parse("/think off"), Some(thinking));
        for (name, arguments, _) in ALL {
            let line = if arguments.starts_with('[') || arguments.is_empty() { "" } else { " x" };
            assert!(Command::parse(&format!("/{name}{line}")).unwrap().is_ok(), "{name}");
        }
    }

    #[test]
    fn errors_of_commands() {
        for (line, words) in [
            ("/hlep", "did you mean /help?"),
            ("/frobnicate", "/help lists all commands"),
            ("/", "unknown command /"),
            ("/undo 2", "takes no argument"),
            ("/load", "requires a file name"),
            ("/set temperature", "requires a value"),
            ("/think", "requires a value"),
        ] {
            let message = Command::parse(line).unwrap().unwrap_err().to_string();
            assert!(message.contains(words), "{line}: {message}");
        }
    }
}
