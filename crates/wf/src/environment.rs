//! Parses the command line and the environment: every option is also `WF_<OPTION>`.
//!
//! A flag overrides its variable, and also the variables it conflicts with. An empty variable counts
//! as not set. Errors about the value of a variable name the variable, not the flag.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, Error, FromArgMatches, Id};

use crate::args::{Args, Command as Chosen};
use crate::bench::BenchCommand;
use crate::chat::args::ChatArgs;
use crate::foreign;
use crate::output::{self, UsageError};
use crate::run::RunArgs;
use crate::serve::config;
use crate::tokenize::TokenizeArgs;
use crate::version;

/// Parses the arguments of this process. Prints help or a syntax error and exits where needed.
pub(crate) fn parse() -> Result<Args, UsageError> {
    let mut matches = match command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            check_for_model(&error)?;
            foreign::check(&error)?;
            name_variable(error).exit()
        }
    };
    if let Some(("serve", serve)) = matches.subcommand()
        && let Some(path) = serve.get_one::<PathBuf>("config")
    {
        let built = command();
        let serve_command = built.find_subcommand("serve").expect("the command was just found");
        let from_file = config::flags(path, serve_command, serve)?;
        let args = std::env::args_os().chain(from_file);
        let in_file = |error: Error| {
            UsageError::new(format!("{}: {}", path.display(), output::first_line(&error)))
        };
        // Arguments and variables are valid by now, so an error is about the file.
        matches = command().try_get_matches_from(args).map_err(in_file)?;
    }
    let mut args = Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let given = |id: &str| is_flag(&matches, id);
    if has_two_models(&matches) {
        return Err(UsageError::new(
            "two models: -m and --model are the same as the argument MODEL",
        ));
    }
    match &mut args.command {
        Chosen::Run(run) => resolve_run(run, given)?,
        Chosen::Chat(chat) => resolve_chat(chat, &matches, given)?,
        Chosen::Tokenize(tokenize) => resolve_tokenize(tokenize, given),
        Chosen::Bench(bench) => resolve_bench(bench, given)?,
        _ => {}
    }
    Ok(args)
}

/// Ids of options without a variable: inputs and outputs of a command, and options of a conversion.
const WITHOUT_VARIABLE: &str = "all_kept decoding_modes demo dry_run encoding file force group \
    head_type ids mcp_command naive no_verify pack_lm_head plot smoke synthetic synthetic_sparsity to";

/// Returns the command line, with settings that cannot be derived.
pub(crate) fn command() -> Command {
    map_arguments(Args::command().version(version::version()), &|arg| {
        let arg = match arg.get_action() {
            ArgAction::SetTrue => arg.value_parser(BoolishValueParser::new()),
            // A negative number is a wrong value, not an unknown flag.
            _ => arg.allow_negative_numbers(true),
        };
        let has_variable = WITHOUT_VARIABLE.split(' ').all(|id| arg.get_id() != id);
        let arg = match arg.get_long().filter(|_| has_variable) {
            Some(long) => {
                let variable = format!("WF_{}", long.to_uppercase().replace('-', "_"));
                arg.env(variable)
            }
            None => arg,
        };
        let is_empty = variable_of(&arg).is_some_and(|value| value.is_empty());
        if is_empty { arg.env(None) } else { arg }
    })
}

/// Applies `change` to every argument of a command and its subcommands.
fn map_arguments(command: Command, change: &dyn Fn(Arg) -> Arg) -> Command {
    command.mut_args(change).mut_subcommands(|command| map_arguments(command, change))
}

#[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
fn variable_of(arg: &Arg) -> Option<OsString> {
    std::env::var_os(arg.get_env()?)
}

/// Returns a helpful error if a model is given in place of a command.
fn check_for_model(error: &Error) -> Result<(), UsageError> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return Ok(());
    };
    if word.starts_with("hf:") || Path::new(word).exists() {
        return Err(UsageError::new(format!(
            "{word} is a model, not a command: use wf chat {word}, wf serve {word}, or wf run {word} \
             PROMPT"
        )));
    }
    Ok(())
}

/// Names the variable in an error that comes from one.
fn name_variable(mut error: Error) -> Error {
    let without_variables = map_arguments(command(), &|arg| arg.env(None)).try_get_matches();
    let is_same = |other: &Error| {
        (other.kind(), other.get(ContextKind::InvalidArg))
            == (error.kind(), error.get(ContextKind::InvalidArg))
    };
    if without_variables.err().as_ref().is_some_and(is_same) {
        return error;
    }
    let mut built = command();
    built.build();
    let Some(name) = variable_at_fault(&built, &error) else { return error };
    if error.kind() == ErrorKind::InvalidUtf8 {
        return command().error(error.kind(), format!("{name} is not valid UTF-8"));
    }
    error.insert(ContextKind::InvalidArg, ContextValue::String(name));
    error
}

/// Returns the variable that caused `error`.
fn variable_at_fault(command: &Command, error: &Error) -> Option<String> {
    let own = command.get_arguments().find(|arg| match error.kind() {
        ErrorKind::InvalidUtf8 => variable_of(arg).is_some_and(|value| value.to_str().is_none()),
        _ => error.get(ContextKind::InvalidArg) == Some(&ContextValue::String(arg.to_string())),
    });
    let own = own.and_then(|arg| Some(arg.get_env()?.to_string_lossy().into_owned()));
    own.or_else(|| command.get_subcommands().find_map(|command| variable_at_fault(command, error)))
}

/// Returns `true` if an argument of the subcommand was given as a flag.
fn is_flag(matches: &ArgMatches, id: &str) -> bool {
    matches
        .subcommand()
        .is_some_and(|(_, chosen)| chosen.value_source(id) == Some(ValueSource::CommandLine))
}

/// Returns `true` if a model is both an argument and a flag.
fn has_two_models(matches: &ArgMatches) -> bool {
    matches.subcommand().is_some_and(|(_, chosen)| {
        let is_given = |id: &str| {
            let is_known = chosen.ids().any(|known| known.as_str() == id);
            is_known && chosen.value_source(id) == Some(ValueSource::CommandLine)
        };
        is_given("model") && is_given("model_flag")
    })
}

fn resolve_run(run: &mut RunArgs, given: impl Fn(&str) -> bool) -> Result<(), UsageError> {
    if run.raw && run.system.is_some() {
        match (given("raw"), given("system")) {
            (true, false) => run.system = None,
            (false, true) => run.raw = false,
            _ => return Err(UsageError::new("--raw and --system cannot be used together")),
        }
    }
    if run.specials && !run.raw {
        if given("specials") {
            return Err(UsageError::new(
                "--specials requires --raw: chat messages are never parsed for special tokens",
            ));
        }
        run.specials = false;
    }
    run.constraint.resolve(given)?;
    run.sampling.check()
}

/// A `--url` flag overrides a model from the environment, and a model argument overrides WF_URL.
fn resolve_chat(
    chat: &mut ChatArgs,
    matches: &ArgMatches,
    given: impl Fn(&str) -> bool,
) -> Result<(), UsageError> {
    chat.model = chat.model.take().or(chat.model_flag.take());
    if chat.server.url.is_some() && chat.model.is_some() {
        match (given("url"), given("model") || given("model_flag")) {
            (false, true) => chat.server.url = None,
            (_, false) => chat.model = None,
            // The name of a model of the server.
            (true, true) => {}
        }
    }
    chat.given = matches.subcommand().map_or_else(Vec::new, |(_, chosen)| {
        let is_given = |id: &&Id| {
            let source = chosen.value_source(id.as_str());
            matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
        };
        chosen.ids().filter(is_given).map(|id| id.as_str().to_owned()).collect()
    });
    chat.sampling.check()
}

fn resolve_tokenize(tokenize: &mut TokenizeArgs, given: impl Fn(&str) -> bool) {
    if tokenize.has_model() && !given("tokenizer") {
        tokenize.tokenizer = None;
    }
}

fn resolve_bench(args: &mut BenchCommand, given: impl Fn(&str) -> bool) -> Result<(), UsageError> {
    let bench = &mut args.bench;
    bench.model = bench.model.take().or(bench.model_flag.take());
    if bench.model.is_some() && (bench.synthetic.is_some() || bench.demo) {
        if given("model") || given("model_flag") {
            return Err(UsageError::new("a model cannot be used with --synthetic or --demo"));
        }
        bench.model = None;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_a_variable() {
        fn check(command: &Command) {
            for arg in command.get_arguments() {
                let is_input = WITHOUT_VARIABLE.split(' ').any(|id| arg.get_id() == id);
                if let (Some(long), false) = (arg.get_long(), is_input) {
                    let name = format!("WF_{}", long.to_uppercase().replace('-', "_"));
                    assert_eq!(arg.get_env(), Some(name.as_ref()), "{}", command.get_name());
                }
            }
            command.get_subcommands().for_each(check);
        }
        check(&command());
    }

    #[test]
    fn every_id_without_a_variable_is_an_option() {
        fn ids(command: &Command) -> Vec<String> {
            let own = command.get_arguments().filter(|arg| arg.get_long().is_some());
            let own = own.map(|arg| arg.get_id().to_string());
            own.chain(command.get_subcommands().flat_map(ids)).collect()
        }
        let ids = ids(&command());
        for id in WITHOUT_VARIABLE.split(' ') {
            assert!(ids.iter().any(|known| known == id), "{id}");
        }
    }
}
