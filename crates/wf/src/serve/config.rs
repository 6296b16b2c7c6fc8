//! Options from a TOML file, for those set by neither a flag nor a variable.

use std::ffi::OsString;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::{Table, Value};

use crate::output::UsageError;
use crate::{input, suggest};

/// Returns the options of a file as flags, without those that are set already.
pub(crate) fn flags(
    path: &Path,
    command: &Command,
    given: &ArgMatches,
) -> Result<Vec<OsString>, UsageError> {
    let file = path.display();
    let invalid = |what: String| UsageError::new(format!("{file}: {what}"));
    let text =
        input::read_text_file(path).map_err(|error| UsageError::new(format!("{error:#}")))?;
    let settings: Table = text.parse().map_err(|error| invalid(format!("{error}")))?;
    let mut flags = Vec::new();
    for (name, value) in &settings {
        let long = name.replace('_', "-");
        let arg = command.get_arguments().find(|arg| is_named(arg, &long));
        let Some(arg) = arg.filter(|arg| arg.get_id() != "config") else {
            let names = command.get_arguments().filter_map(Arg::get_long);
            let hint = suggest::did_you_mean(&long, names);
            return Err(invalid(format!("unknown option {name:?}{hint}")));
        };
        let words =
            to_flags(arg, &long, value).map_err(|what| invalid(format!("{name}: {what}")))?;
        // The model can also be a positional argument.
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

fn to_flags(arg: &Arg, long: &str, value: &Value) -> Result<Vec<OsString>, String> {
    let flag = || OsString::from(format!("--{long}"));
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            Err("must be a string, a number or an array of them".to_owned())
        }
    };
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Boolean(true)) => Ok(vec![flag()]),
        (ArgAction::SetTrue, Value::Boolean(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => Err("must be true or false".to_owned()),
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
