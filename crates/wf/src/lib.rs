//! `wf`: runs 1.58-bit language models on the CPU you have.
//!
//! This crate is the command line: it parses arguments, calls the libraries and prints. The
//! environment is read here and nowhere else. It is a library so that programs in other languages
//! open and run models exactly as the commands do: see [`local`].

#![deny(unsafe_code)]

#[expect(unsafe_code, reason = "an allocator is unsafe")]
mod allocator;
mod args;
mod batch;
mod bench;
mod cache;
mod chat;
mod conversions;
mod convert;
mod cpu;
mod demo;
mod doctor;
mod embed;
mod env;
mod environment;
mod eval;
mod foreign;
mod health;
mod hub;
mod input;
mod inspect;
mod layer_kinds;
mod load;
pub mod local;
mod man;
mod memory;
mod missing;
mod models;
mod open;
mod output;
mod progress;
mod recipe;
mod run;
mod scales;
mod serve;
mod suggest;
mod tokenize;
mod verify;
mod version;

use std::process::ExitCode;

use anyhow::Result;

use crate::args::Command;
use crate::output::UsageError;

/// The text of `wf` without arguments.
const QUICKSTART: &str = "\
wf runs 1.58-bit language models on the CPU you have. A small one is built in, so try:

  wf chat                                       chat with it
  wf run \"Tell me a story about a dragon.\"      generate one response
  wf serve                                      start a chat page and an OpenAI-compatible API
                                                on http://127.0.0.1:30000

To use another model, name it first: wf chat bitnet-2b.gguf, or one from the Hugging Face Hub:
wf chat hf:microsoft/bitnet-b1.58-2B-4T. For all commands, see wf --help; for one, wf run --help.
";

/// Runs the command line of this process.
pub fn main() -> ExitCode {
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
        return output::stream(QUICKSTART);
    }
    match environment::parse()?.command {
        Command::Serve(args) => serve::serve(*args),
        Command::Chat(args) => chat::chat(&args),
        Command::Run(args) => run::run(&args),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Convert(args) => convert::convert(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Models(args) => models::models(&args),
        Command::Cache(command) => cache::cache(&command),
        Command::Batch(args) => batch::batch(&args),
        Command::Embed(args) => embed::embed(&args),
        Command::Tokenize(args) => tokenize::tokenize(&args),
        Command::Eval(command) => eval::run(&command),
        Command::Bench(args) => bench::run(&args),
        Command::Load(args) => load::load(&args),
        Command::Validate(args) => load::validate(&args),
        Command::Health(args) => health::health(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut environment::command(), "wf", &mut script);
            output::bytes(&script)
        }
        Command::Man(args) => man::man(&args, environment::command()),
    }
}
