//! `wf`: run 1.58-bit language models on the CPU you have.
//!
//! This crate is the command line: it parses, calls the libraries and prints. The environment is
//! read here and nowhere else.

#![forbid(unsafe_code)]

mod absent;
mod args;
mod bench;
mod cache;
mod chat;
mod convert;
mod demo;
mod doctor;
mod embed;
mod environment;
mod eval;
mod hub;
mod inspect;
mod load;
mod loading;
mod man;
mod memory;
mod near;
mod open;
mod overview;
mod report;
mod run;
mod serve;
mod svg;
mod terminal;
mod tokenize;
mod validate;
mod verify;
mod version;

use std::process::ExitCode;

use anyhow::Result;

use crate::args::Command;
use crate::eval::args::EvalCommand;
use crate::report::UsageError;

fn main() -> ExitCode {
    match run_command() {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has gone: nothing went wrong on our side.
        Err(error) if report::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if error.is::<UsageError>() => {
            report::note(&format!("error: {error}\n\nFor more information, try '--help'."));
            ExitCode::from(2)
        }
        Err(error) => {
            report::note(&format!("error: {}", report::explain(&error)));
            ExitCode::FAILURE
        }
    }
}

fn run_command() -> Result<()> {
    if std::env::args_os().len() == 1 {
        return overview::overview();
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
        Command::Eval(args) => match args.command {
            EvalCommand::Logits(args) => eval::logits::logits(&args),
            EvalCommand::Perplexity(args) => eval::perplexity::perplexity(&args),
            EvalCommand::Kv(args) => eval::kv::kv(&args),
            EvalCommand::Tasks(args) => eval::tasks::tasks(&args),
        },
        Command::Bench(args) => bench::bench(&args),
        Command::Load(args) => load::load(&args),
        Command::Validate(args) => validate::validate(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut environment::command(), "wf", &mut script);
            report::bytes(&script)
        }
        Command::Man(args) => man::man(&args),
    }
}
