//! Options by name: `min_p` with the value `0.1` is the flag `--min-p=0.1`.

use clap::builder::ArgAction;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command};

use super::error::{Error, ErrorKind};
use crate::{output, suggest};

/// An option and its values. Flags without a value have `true` or `false`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyword {
    /// Name of the flag, with underscores.
    pub name: String,
    /// Values; several for flags that can be repeated.
    pub values: Vec<String>,
}

/// Arguments, and a function that tells whether an option is among the keywords.
pub(super) struct Parsed<T, F> {
    pub(super) args: T,
    pub(super) given: F,
}

/// Parses options as the command line does.
pub(super) fn parse<T: Args>(
    keywords: &[Keyword],
) -> Result<Parsed<T, impl Fn(&str) -> bool>, Error> {
    let command = command::<T>();
    let flags: Vec<String> = keywords
        .iter()
        .map(|keyword| flags(&command, keyword))
        .collect::<Result<Vec<_>, Error>>()?
        .concat();
    let invalid =
        |error: clap::Error| Error::from_message(ErrorKind::Request, output::first_line(&error));
    let matches: ArgMatches = command.try_get_matches_from(flags).map_err(invalid)?;
    let args = T::from_arg_matches(&matches).map_err(invalid)?;
    let given = move |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    Ok(Parsed { args, given })
}

/// Returns the names of all options, aliases included.
pub(super) fn names<T: Args>() -> Vec<String> {
    command::<T>().get_arguments().flat_map(names_of).collect()
}

/// Returns a command with the flags of `T`, which reads no variables.
pub(super) fn command<T: Args>() -> Command {
    let command = Command::new("wf").no_binary_name(true).disable_help_flag(true);
    T::augment_args(command).mut_args(|arg| arg.env(None))
}

pub(super) fn names_of(arg: &Arg) -> Vec<String> {
    let all = arg.get_long().into_iter().chain(arg.get_visible_aliases().into_iter().flatten());
    all.map(|name| name.replace('-', "_")).collect()
}

fn flags(command: &Command, keyword: &Keyword) -> Result<Vec<String>, Error> {
    let Keyword { name, values } = keyword;
    let arg = command.get_arguments().find(|arg| names_of(arg).contains(name));
    let arg = arg.ok_or_else(|| {
        let known: Vec<String> = command.get_arguments().flat_map(names_of).collect();
        let meant = suggest::did_you_mean(name, known.iter().map(String::as_str));
        Error::from_message(ErrorKind::UnknownOption, format!("no option is called {name}{meant}"))
    })?;
    let flag = format!("--{}", name.replace('_', "-"));
    if !matches!(arg.get_action(), ArgAction::SetTrue) {
        return Ok(values.iter().map(|value| format!("{flag}={value}")).collect());
    }
    match values.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["true"] => Ok(vec![flag]),
        ["false"] => Ok(Vec::new()),
        _ => {
            let message = format!("{name} is {}: must be true or false", values.join(", "));
            Err(Error::from_message(ErrorKind::Request, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Args, Debug, PartialEq)]
    struct Example {
        #[arg(long, default_value = "3")]
        max_things: usize,
        #[arg(long, visible_alias = "word")]
        text: Vec<String>,
        #[arg(long, env = "PATH")]
        raw: bool,
    }

    fn parsed(keywords: &[(&str, &[&str])]) -> Result<Example, String> {
        let keyword = |(name, values): &(&str, &[&str])| Keyword {
            name: (*name).to_owned(),
            values: values.iter().map(ToString::to_string).collect(),
        };
        let keywords: Vec<Keyword> = keywords.iter().map(keyword).collect();
        match parse::<Example>(&keywords) {
            Ok(Parsed { args, .. }) => Ok(args),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn keywords_are_flags() {
        let default = Example { max_things: 3, text: Vec::new(), raw: false };
        assert_eq!(parsed(&[]), Ok(default), "variables are not read");
        let all = Example { max_things: 7, text: vec!["-a".into(), "".into()], raw: true };
        let given: &[(&str, &[&str])] =
            &[("max_things", &["7"]), ("word", &["-a", ""]), ("raw", &["true"])];
        assert_eq!(parsed(given), Ok(all));
        assert_eq!(names::<Example>(), ["max_things", "text", "word", "raw"]);
    }

    #[test]
    fn errors_name_the_option() {
        let error = parsed(&[("max_thing", &["7"])]).unwrap_err();
        assert_eq!(error, "no option is called max_thing; did you mean max_things?");
        let error = parsed(&[("max_things", &["x"])]).unwrap_err();
        assert!(error.starts_with("invalid value 'x' for '--max-things"), "{error}");
        let error = parsed(&[("raw", &["maybe"])]).unwrap_err();
        assert_eq!(error, "raw is maybe: must be true or false");
    }
}
