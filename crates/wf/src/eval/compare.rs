//! `wf eval compare`: two settings of a model on the same text.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args as ClapArgs;
use wf_lab::eval::{self, Settings};

use super::{WindowArgs, file_and_text};
use crate::args::{HELP, ModelAndInput, ScoringArgs};
use crate::output;

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    help_template = HELP,
    override_usage = "wf eval compare [OPTIONS] --b <SETTINGS> [MODEL] <FILE>",
    before_help = "\
MODEL defaults to WF_MODEL, or the built-in demo. FILE is a UTF-8 text; - reads standard input.
SETTINGS are names and values, separated by commas: kv, attention, activations, head, sparse, isa,
layout and threads, with the values of the options. Options apply to both, unless SETTINGS say otherwise.",
    after_help = "\
Examples:
  wf eval compare --a kv=f32 --b kv=int8 bitnet-2b.gguf wiki.txt
  wf eval compare --b attention=topk=64 wiki.txt       dense attention against 64 pages
  wf eval compare --b head=int8 wiki.txt               the options against another head
  wf eval compare --b activations=int16,kv=f32 wiki.txt --json --svg compare.svg"
)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    input: ModelAndInput,

    /// Settings of the reference [default: those of the options]
    #[arg(long, value_name = "SETTINGS", default_value = "", hide_default_value = true)]
    a: Settings,

    /// Settings to compare with it
    #[arg(long, value_name = "SETTINGS", required = true)]
    b: Settings,

    #[command(flatten)]
    windows: WindowArgs,

    /// Print a JSON object: a, b, perplexity_change, kl_mean, kl_max, agreement, identical
    #[arg(long)]
    json: bool,

    /// Draw perplexity, speed, memory and divergence by position to FILE, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    #[command(flatten)]
    scoring: ScoringArgs,
}

pub(super) fn run(args: &CompareArgs) -> Result<()> {
    let options = args.scoring.options();
    let (file, text) = file_and_text(&args.input, &options)?;
    let report = eval::compare(&file, &options, (&args.a, &args.b), &text, args.windows.window)?;
    if let Some(path) = &args.svg {
        output::write_file(path, report.svg())?;
    }
    output::report(&report, args.json)
}
