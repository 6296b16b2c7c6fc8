//! `wf eval record` and `wf eval check`: a model compared with what it was.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use wf_lab::eval::{self, CheckLimits, Recording, Settings};

use super::{WindowArgs, file_and_text};
use crate::args::{FileArgs, HELP, MachineArgs, ModelAndInput, ScoringArgs};
use crate::{input, open, output};

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    help_template = HELP,
    override_usage = "wf eval record [OPTIONS] <OUT> [MODEL] <FILE>",
    before_help = "\
OUT gets the predictions. MODEL defaults to WF_MODEL, or the built-in demo. FILE is a UTF-8 text;
- reads standard input. An existing OUT is replaced only if it is a recording.",
    after_help = "\
Examples:
  wf eval record before.json bitnet-2b.gguf wiki.txt
  wf eval check before.json bitnet-2b.gguf             after the upgrade"
)]
pub(crate) struct RecordArgs {
    /// Recording to write
    #[arg(hide = true)]
    out: PathBuf,

    #[command(flatten)]
    input: ModelAndInput,

    #[command(flatten)]
    windows: WindowArgs,

    #[command(flatten)]
    scoring: ScoringArgs,
}

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    after_help = "\
The text, its windows and the settings are those of the recording. The exit status is 1 if a limit is
not kept, or if the tokenizer splits the text differently.

Examples:
  wf eval check before.json bitnet-2b.gguf             after an upgrade
  wf eval check before.json bitnet-2b.gguf --exact     the same bits
  wf eval check before.json --settings kv=int8         would this setting keep the limits?"
)]
pub(crate) struct CheckArgs {
    /// Recording of `wf eval record`
    recording: PathBuf,

    /// Model [default: the built-in demo]
    #[arg(env = "WF_MODEL")]
    model: Option<PathBuf>,

    /// Changes of the recorded settings, such as kv=int8 [default: none]
    #[arg(long, value_name = "SETTINGS", default_value = "", hide_default_value = true)]
    settings: Settings,

    /// Maximum mean KL divergence from the recording, in nats per token
    #[arg(long, value_name = "NATS", default_value = "0.01", value_parser = parse_limit)]
    max_kl: f64,

    /// Maximum increase of perplexity, as a fraction
    #[arg(long, value_name = "FRACTION", default_value = "0.01", value_parser = parse_limit)]
    max_perplexity_change: f64,

    /// Minimum fraction of tokens whose best token is the recorded one
    #[arg(long, value_name = "FRACTION", default_value = "0.99", value_parser = parse_fraction)]
    min_agreement: f64,

    /// Require the recorded bits of all logits
    #[arg(long)]
    exact: bool,

    /// Print a JSON object: recorded, now, perplexity_change, kl_mean, agreement, failures
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    file: FileArgs,
}

pub(super) fn record(args: &RecordArgs) -> Result<()> {
    if args.out.exists() {
        read_recording(&args.out).with_context(|| {
            format!("{} exists and is not replaced: choose another name", args.out.display())
        })?;
    }
    let options = args.scoring.options();
    let (file, text) = file_and_text(&args.input, &options)?;
    let recording = eval::record(&file, &options, &text, args.windows.window)?;
    output::write_atomically(&args.out, &recording.to_json()?)?;
    let tokens = output::count(recording.predicted(), "token");
    output::stream(&format!("{}: predictions of {tokens}\n", args.out.display()))
}

pub(super) fn check(args: &CheckArgs) -> Result<()> {
    let recording = read_recording(&args.recording)?;
    let options = args.machine.options(&args.file);
    let file = open::file(&open::source(args.model.as_deref())?, &options.open)?;
    let limits = CheckLimits {
        max_kl: args.max_kl,
        max_perplexity_change: args.max_perplexity_change,
        min_agreement: args.min_agreement,
        exact: args.exact,
    };
    let report = eval::check(&file, &options, &args.settings, &recording, limits)?;
    output::report(&report, args.json)?;
    report.verdict()
}

fn read_recording(path: &Path) -> Result<Recording> {
    let text = input::read_text_file(path)?;
    Recording::parse(&text).with_context(|| path.display().to_string())
}

/// Parses a limit. An infinite one limits nothing.
fn parse_limit(text: &str) -> Result<f64, String> {
    let limit = text.parse().ok().filter(|limit| *limit >= 0.0);
    limit.ok_or_else(|| "must be a number of at least 0, such as 0.01".to_owned())
}

fn parse_fraction(text: &str) -> Result<f64, String> {
    let fraction = text.parse().ok().filter(|fraction| (0.0..=1.0).contains(fraction));
    fraction.ok_or_else(|| "must be a fraction from 0 to 1, such as 0.99".to_owned())
}
