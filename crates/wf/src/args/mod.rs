//! The commands, and the flags that several of them share. Flags of a single command are next to it.

mod compute;
mod constraint;
mod decoding;
mod disk_cache;
mod numbers;
mod positional;
mod remote;
mod sampling;
mod thinking;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Parser, Subcommand};
use clap_complete::Shell;
use wf_lab::{load, validate};

pub(crate) use self::compute::{ComputeArgs, EngineArgs, FileArgs, MachineArgs, ScoringArgs};
pub(crate) use self::constraint::ConstraintArgs;
pub(crate) use self::decoding::DecodingArgs;
pub(crate) use self::disk_cache::DiskCacheArgs;
pub(crate) use self::numbers::{
    parse_count, parse_seconds, parse_size, parse_threads, parse_whole,
};
pub(crate) use self::positional::{HELP, ModelAndInput};
pub(crate) use self::remote::RemoteArgs;
pub(crate) use self::sampling::SamplingArgs;
pub(crate) use self::thinking::ThinkingArg;
use crate::{
    batch, bench, cache, chat, convert, doctor, embed, eval, health, inspect, man, models, run,
    serve, tokenize, verify,
};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold());

const EXAMPLES: &str = "\
Examples:
  wf chat                                   chat with the built-in demo model
  wf serve                                  serve it with an OpenAI-compatible API
  wf run \"Once upon a time\"                 generate a story with it
  wf run bitnet-2b.gguf \"Why is it blue?\"   use another model
  wf inspect bitnet-2b.gguf                 describe and check a model file
  wf convert checkpoint/ bitnet-2b.gguf     convert to another format, verified
  wf doctor                                 check that this machine computes correctly

MODEL is a GGUF file, an SGLBITNT .bin, a .safetensors file, a Hugging Face directory, or a model on
the Hugging Face Hub: hf:owner/repo[@revision][:file], or a short name of wf models. The default is
the built-in demo model.
Every option can also be set as WF_<OPTION>, for example WF_THREADS=4; flags override variables.";

const COMPLETIONS: &str = "\
Examples:
  wf completions bash                       print the script for bash, to be saved as
                                            ~/.local/share/bash-completion/completions/wf";

/// Run 1.58-bit (ternary, BitNet) language models on the CPU you have.
#[derive(Parser)]
#[command(name = "wf", version, styles = STYLES, after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Chat in the terminal, with a local model or a server
    Chat(Box<chat::args::ChatArgs>),
    /// Serve an OpenAI-compatible API
    Serve(Box<serve::args::ServeArgs>),
    /// Generate a response to a prompt
    Run(Box<run::RunArgs>),
    /// Describe and check a model file
    Inspect(inspect::InspectArgs),
    /// Convert a model to another format
    Convert(convert::args::ConvertArgs),
    /// Check that two files are the same model
    Verify(verify::VerifyArgs),
    /// List published models and their short names
    Models(models::ModelsArgs),
    /// List or remove cached conversions of models
    #[command(subcommand)]
    Cache(cache::CacheCommand),
    /// Run a file of requests in OpenAI's batch format
    Batch(Box<batch::BatchArgs>),
    /// Compute embeddings of texts
    Embed(embed::EmbedArgs),
    /// Print the tokens of a text
    Tokenize(tokenize::TokenizeArgs),
    /// Evaluate a model: logits, perplexity, tasks
    #[command(subcommand)]
    Eval(eval::EvalCommand),
    /// Measure the speed of this machine, and compare it with the machine's limits
    Bench(bench::BenchCommand),
    /// Load-test a running server, and verify its responses
    Load(load::LoadArgs),
    /// Check a running server: cache, limits, concurrency, cancellation
    Validate(validate::ValidateArgs),
    /// Ask whether a running server is healthy
    Health(health::HealthArgs),
    /// Check that this machine computes correctly
    Doctor(doctor::DoctorArgs),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// Shell
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands
    Man(man::ManArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn clap_accepts_the_definitions() {
        Args::command().debug_assert();
    }
}
