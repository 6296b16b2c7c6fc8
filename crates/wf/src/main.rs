//! `wf`: runs 1.58-bit language models on the CPU you have.
//!
//! This crate is the command line: it parses arguments, calls the libraries and prints. The
//! environment is read here and nowhere else.

#![forbid(unsafe_code)]

mod args;
mod bench;
mod cache;
mod chat;
mod convert;
mod cpu;
mod demo;
mod doctor;
mod embed;
mod env;
mod environment;
mod eval;
mod hub;
mod input;
mod inspect;
mod load;
mod man;
mod memory;
mod missing;
mod open;
mod output;
mod progress;
mod quickstart;
mod run;
mod serve;
mod suggest;
mod terminal;
mod tokenize;
mod verify;
mod version;

use std::process::ExitCode;

use anyhow::Result;

use crate::args::Command;
use crate::output::UsageError;

fn main() -> ExitCode {
    match run_command() {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output closed it, which is no error.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if error.is::<UsageError>() => {
            output::note(&format!("error: {error}\n\nFor more information, try '--help'."));
            ExitCode::from(2)
        }
        Err(error) => {
            output::note(&format!("error: {}", output::explain(&error)));
            ExitCode::FAILURE
        }
    }
}

fn run_command() -> Result<()> {
    if std::env::args_os().len() == 1 {
        return output::stream(quickstart::TEXT);
    }
    match environment::parse()?.command {
        Command::Serve(args) => serve::serve(&args),
        Command::Chat(args) => chat::chat(&args),
        Command::Run(args) => run::run(&args),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Convert(args) => convert::convert(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Cache(args) => cache::cache(&args),
        Command::Embed(args) => embed::embed(&args),
        Command::Tokenize(args) => tokenize::tokenize(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Load(args) => load::load(&args),
        Command::Validate(args) => load::validate(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut environment::command(), "wf", &mut script);
            output::bytes(&script)
        }
        Command::Man(args) => man::man(&args, environment::command()),
    }
}
