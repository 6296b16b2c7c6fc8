//! The command line and the environment, read together: every setting is also `WF_<FLAG>`.
//!
//! A flag beats its variable, also where the two exclude each other. An empty variable counts as
//! one that is not set. What is wrong with a variable is said of the variable, not of a flag that
//! nobody gave.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, Error, FromArgMatches, Id};

use crate::args::{Args, Command as Chosen};
use crate::bench::args::BenchArgs;
use crate::chat::args::ChatArgs;
use crate::report::UsageError;
use crate::run::RunArgs;
use crate::serve::config;
use crate::tokenize::TokenizeArgs;
use crate::version;

/// The arguments of this process. A call for help, or a mistake of form, ends it here.
pub(crate) fn parse() -> Result<Args, UsageError> {
    let mut matches = match command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            is_no_model(&error)?;
            blame(error).exit()
        }
    };
    if let Some(("serve", serve)) = matches.subcommand()
        && let Some(path) = serve.get_one::<PathBuf>("config")
    {
        let built = command();
        let serve_command = built.find_subcommand("serve").expect("the command was just found");
        let more = config::flags(path, serve_command, serve)?;
        let words = std::env::args_os().chain(more);
        let of_file = |error: Error| {
            let message = error.to_string();
            let first = message.lines().next().unwrap_or_default();
            let what = first.strip_prefix("error: ").unwrap_or(first);
            UsageError::new(format!("{}: {what}", path.display()))
        };
        // What the line and the variables say was fine a moment ago.
        matches = command().try_get_matches_from(words).map_err(of_file)?;
    }
    let mut args = Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let given = |id: &str| is_flag(&matches, id);
    match &mut args.command {
        Chosen::Run(run) => settle_run(run, given)?,
        Chosen::Chat(chat) => settle_chat(chat, &matches, given)?,
        Chosen::Tokenize(tokenize) => settle_tokenize(tokenize, given),
        Chosen::Bench(bench) => settle_bench(bench, given)?,
        _ => {}
    }
    Ok(args)
}

/// The command line, with what its derivation cannot say.
pub(crate) fn command() -> Command {
    each_argument(Args::command().version(version::version()), &|arg| {
        let arg = match arg.get_action() {
            ArgAction::SetTrue => arg.value_parser(BoolishValueParser::new()),
            // A wrong number is to be called wrong, not an unknown flag.
            _ => arg.allow_negative_numbers(true),
        };
        let is_empty = variable_of(&arg).is_some_and(|value| value.is_empty());
        if is_empty { arg.env(None) } else { arg }
    })
}

/// Every argument of a command and of those below it, changed.
fn each_argument(command: Command, change: &dyn Fn(Arg) -> Arg) -> Command {
    command.mut_args(change).mut_subcommands(|below| each_argument(below, change))
}

#[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
fn variable_of(arg: &Arg) -> Option<OsString> {
    std::env::var_os(arg.get_env()?)
}

/// A variable that is none of ours, if it is set and not empty.
#[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Whoever names a model and no command is told the commands that take one.
fn is_no_model(error: &Error) -> Result<(), UsageError> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return Ok(());
    };
    if word.starts_with("hf:") || Path::new(word).exists() {
        return Err(UsageError::new(format!(
            "{word} is no command: to use it as a model, say wf chat {word}, wf serve {word}, or wf \
             run {word} PROMPT"
        )));
    }
    Ok(())
}

/// Names the variable in an error that comes from one.
fn blame(mut error: Error) -> Error {
    let without_variables = each_argument(command(), &|arg| arg.env(None)).try_get_matches();
    let of_the_line = |other: &Error| {
        (other.kind(), other.get(ContextKind::InvalidArg))
            == (error.kind(), error.get(ContextKind::InvalidArg))
    };
    if without_variables.err().as_ref().is_some_and(of_the_line) {
        return error;
    }
    let mut built = command();
    built.build();
    let Some(name) = culprit(&built, &error) else { return error };
    if error.kind() == ErrorKind::InvalidUtf8 {
        return command().error(error.kind(), format!("the value of {name} is not UTF-8"));
    }
    error.insert(ContextKind::InvalidArg, ContextValue::String(name));
    error
}

/// The variable behind `error`, if an argument with a variable is.
fn culprit(command: &Command, error: &Error) -> Option<String> {
    let own = command.get_arguments().find(|arg| match error.kind() {
        ErrorKind::InvalidUtf8 => variable_of(arg).is_some_and(|value| value.to_str().is_none()),
        _ => error.get(ContextKind::InvalidArg) == Some(&ContextValue::String(arg.to_string())),
    });
    let own = own.and_then(|arg| Some(arg.get_env()?.to_string_lossy().into_owned()));
    own.or_else(|| command.get_subcommands().find_map(|below| culprit(below, error)))
}

/// Whether an argument was given as a flag, in the command that was chosen.
fn is_flag(matches: &ArgMatches, id: &str) -> bool {
    matches
        .subcommand()
        .is_some_and(|(_, chosen)| chosen.value_source(id) == Some(ValueSource::CommandLine))
}

fn settle_run(run: &mut RunArgs, given: impl Fn(&str) -> bool) -> Result<(), UsageError> {
    if run.raw && run.system.is_some() {
        match (given("raw"), given("system")) {
            (true, false) => run.system = None,
            (false, true) => run.raw = false,
            _ => return Err(UsageError::new("--raw has no place for --system: give one of them")),
        }
    }
    if run.specials && !run.raw {
        if given("specials") {
            return Err(UsageError::new(
                "--specials needs --raw: a chat is never searched for names",
            ));
        }
        run.specials = false;
    }
    run.form.settle(given)?;
    run.sampling.check()
}

/// With a server's address on the line, a model that only the environment names is not meant; and
/// the other way round.
fn settle_chat(
    chat: &mut ChatArgs,
    matches: &ArgMatches,
    given: impl Fn(&str) -> bool,
) -> Result<(), UsageError> {
    if chat.server.url.is_some() && chat.model.is_some() {
        match (given("url"), given("model")) {
            (false, true) => chat.server.url = None,
            (_, false) => chat.model = None,
            // The name of one of the server's models.
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

fn settle_tokenize(tokenize: &mut TokenizeArgs, given: impl Fn(&str) -> bool) {
    if tokenize.names_a_model() && !given("tokenizer") {
        tokenize.tokenizer = None;
    }
}

fn settle_bench(bench: &mut BenchArgs, given: impl Fn(&str) -> bool) -> Result<(), UsageError> {
    if bench.model.is_some() && (bench.synthetic.is_some() || bench.demo) {
        if given("model") {
            return Err(UsageError::new("give either a model, --synthetic or --demo"));
        }
        bench.model = None;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_its_variable() {
        fn check(command: &Command) {
            for arg in command.get_arguments() {
                // These are what a command works on, like the text itself, or where it writes.
                let input = [
                    "file",
                    "ids",
                    "synthetic",
                    "synthetic_sparsity",
                    "demo",
                    "smoke",
                    "plot",
                    "ways_to_decode",
                ];
                // What one conversion is to do; none of it is right for the next one.
                let conversion = [
                    "to",
                    "encoding",
                    "head_type",
                    "pack_lm_head",
                    "group",
                    "naive",
                    "dry_run",
                    "no_verify",
                    "all_kept",
                    "force",
                ];
                let id = arg.get_id().as_str();
                // The variable of `serve --model` is that of the word it stands for.
                let input = input.contains(&id) || conversion.contains(&id) || id == "model_flag";
                if let (Some(long), false) = (arg.get_long(), input) {
                    let name = format!("WF_{}", long.to_uppercase().replace('-', "_"));
                    assert_eq!(arg.get_env(), Some(name.as_ref()), "{}", command.get_name());
                }
            }
            command.get_subcommands().for_each(check);
        }
        check(&Args::command());
    }
}
