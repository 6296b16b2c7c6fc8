//! `wf`: run 1.58-bit language models on the CPU you have.
//!
//! This crate is the command line: it parses, calls the libraries and prints. The environment is
//! read here and nowhere else.

#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "printing is what a command line is for")]

mod args;
mod demo;
mod doctor;
mod eval;
mod inspect;
mod open;
mod report;
mod run;
mod tokenize;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::{Args, Command, EvalCommand};

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Tokenize(args) => tokenize::tokenize(&args),
        Command::Eval(args) => match args.command {
            EvalCommand::Logits(args) => eval::logits::logits(&args),
            EvalCommand::Perplexity(args) => eval::perplexity::perplexity(&args),
        },
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Args::command(), "wf", &mut std::io::stdout());
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has gone: nothing went wrong on our side.
        Err(error) if report::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
