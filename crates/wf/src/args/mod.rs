//! The command line: its commands, and the flags that several of them share.
//!
//! What one command alone understands stands beside that command.

mod compute;
mod decoding;
mod form;
mod numbers;
mod sampling;
mod words;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use self::compute::{ComputeArgs, EveryScoreArgs, FileArgs, HeadArgs};
pub(crate) use self::decoding::DecodingArgs;
pub(crate) use self::form::FormArgs;
pub(crate) use self::numbers::{parse_count, parse_number, parse_threads, parse_whole};
pub(crate) use self::sampling::SamplingArgs;
pub(crate) use self::words::ModelAndWord;
use crate::bench::args::BenchArgs;
use crate::cache::CacheArgs;
use crate::chat::args::ChatArgs;
use crate::convert::args::ConvertArgs;
use crate::doctor::DoctorArgs;
use crate::embed::EmbedArgs;
use crate::eval::args::EvalArgs;
use crate::inspect::InspectArgs;
use crate::load::args::LoadArgs;
use crate::man::ManArgs;
use crate::run::RunArgs;
use crate::serve::args::ServeArgs;
use crate::tokenize::TokenizeArgs;
use crate::validate::ValidateArgs;
use crate::verify::args::VerifyArgs;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold());

const EXAMPLES: &str = "\
Examples:
  wf chat                                   talk to the built-in demo model
  wf serve                                  an OpenAI API with it
  wf run \"Once upon a time\"                 a story by it
  wf run bitnet-2b.gguf \"Why is it blue?\"   a model of your own
  wf inspect bitnet-2b.gguf                 what a file is, and whether it is sound
  wf convert checkpoint/ bitnet-2b.gguf     another format, checked
  wf doctor                                 whether this machine computes right

MODEL is a GGUF file, an SGLBITNT .bin, a .safetensors file, a Hugging Face directory, or a model on
the Hugging Face Hub: hf:owner/repo[@revision][:file]. Left out, it is the demo model inside.
Every setting can also be given as WF_<FLAG>, for example WF_THREADS=4; a flag beats its variable.";

const COMPLETIONS: &str = "\
Examples:
  wf completions bash                       print it; ~/.local/share/bash-completion/completions/wf
                                            is where bash looks for it";

/// What a command does comes first, then how it is called, then what its words mean.
pub(crate) const HELP: &str = "\
{about-with-newline}
{usage-heading} {usage}

{before-help}{all-args}{after-help}";

/// Run 1.58-bit (ternary, BitNet) language models on the CPU you have.
#[derive(Parser)]
#[command(name = "wf", version, styles = STYLES, after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Chat in the terminal, with a model of this machine or of a server
    Chat(Box<ChatArgs>),
    /// Serve the OpenAI API
    Serve(Box<ServeArgs>),
    /// Write a reply to a prompt
    Run(Box<RunArgs>),
    /// Say what a model file is, and whether it is sound
    Inspect(InspectArgs),
    /// Turn a model into another format
    Convert(ConvertArgs),
    /// Say whether two files are the same model
    Verify(VerifyArgs),
    /// Show or remove what is kept of models from the hub
    Cache(CacheArgs),
    /// Turn texts into vectors
    Embed(EmbedArgs),
    /// Show the tokens of a text
    Tokenize(TokenizeArgs),
    /// Measure a model: scores, perplexity, tasks
    Eval(EvalArgs),
    /// Measure how fast this machine is, and how far that is from what it could be
    Bench(BenchArgs),
    /// Put a running server under load, and compare its replies with those it gives alone
    Load(LoadArgs),
    /// Check a running server: cache, limits, many requests at once, cancelling
    Validate(ValidateArgs),
    /// Check that this machine and this program compute right
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// The shell to complete in
        shell: Shell,
    },
    /// Print the manual page, or write those of all commands
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }
}
