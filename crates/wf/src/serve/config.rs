//! Settings from a TOML file, for what neither a flag nor a variable says.

use std::ffi::OsString;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::{Table, Value};

use crate::open;
use crate::report::UsageError;

/// The file's settings as flags, those left out that were given otherwise.
pub(crate) fn flags(
    path: &Path,
    command: &Command,
    given: &ArgMatches,
) -> Result<Vec<OsString>, UsageError> {
    let file = path.display();
    let wrong = |what: String| UsageError::new(format!("{file}: {what}"));
    let text = open::read_text_file(path).map_err(|error| UsageError::new(format!("{error:#}")))?;
    let settings: Table = text.parse().map_err(|error| wrong(format!("{error}")))?;
    let mut flags = Vec::new();
    for (name, value) in &settings {
        let long = name.replace('_', "-");
        let arg = command.get_arguments().find(|arg| is_named(arg, &long));
        let Some(arg) = arg.filter(|arg| arg.get_id() != "config") else {
            return Err(wrong(format!("no setting is called {name:?}: `wf serve --help` has all")));
        };
        let words = words(arg, &long, value).map_err(|what| wrong(format!("{name}: {what}")))?;
        // The model can be given as a word, too.
        let ids =
            if long == "model" { &["model_flag", "model"][..] } else { &[arg.get_id().as_str()] };
        if !ids.iter().any(|id| was_given(given, id)) {
            flags.extend(words);
        }
    }
    Ok(flags)
}

fn is_named(arg: &Arg, long: &str) -> bool {
    let aliases = arg.get_all_aliases().unwrap_or_default();
    arg.get_long() == Some(long) || aliases.contains(&long)
}

fn was_given(given: &ArgMatches, id: &str) -> bool {
    matches!(given.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

/// A setting as one would type it.
fn words(arg: &Arg, long: &str, value: &Value) -> Result<Vec<OsString>, String> {
    let flag = || OsString::from(format!("--{long}"));
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            Err("a text, a number or a list of them is needed".to_owned())
        }
    };
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Boolean(true)) => Ok(vec![flag()]),
        (ArgAction::SetTrue, Value::Boolean(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => Err("true or false is needed".to_owned()),
        (ArgAction::Append, Value::Array(values)) => {
            let mut words = Vec::new();
            for value in values {
                words.extend([flag(), text(value)?.into()]);
            }
            Ok(words)
        }
        (_, value) => Ok(vec![flag(), text(value)?.into()]),
    }
}
