//! `wf eval sparsity`: calibrates `--activation-sparsity`.

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args as ClapArgs;
use wf_engine::{ActivationSparsity, RunOptions};
use wf_lab::eval::{self, SparsityGoals};

use super::WindowArgs;
use crate::args::{ComputeArgs, FileArgs, HELP};
use crate::{input, open, output};

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    help_template = HELP,
    after_help = "\
Examples:
  wf eval sparsity bitnet-2b.gguf --calibrate wiki.txt --output 2b.json --plot 2b.svg
  wf run bitnet-2b.gguf --activation-sparsity adaptive=2b.json \"Once upon a time\""
)]
pub(crate) struct SparsityArgs {
    /// Model [default: the built-in demo]
    #[arg(env = "WF_MODEL")]
    model: Option<PathBuf>,

    /// Text to calibrate and to measure on; - reads standard input
    #[arg(long, value_name = "TEXT")]
    calibrate: PathBuf,

    /// Calibration file to write, for --activation-sparsity threshold=FILE and adaptive=FILE
    #[arg(long, value_name = "FILE", default_value = "sparsity.json")]
    output: PathBuf,

    /// Write a bar chart of perplexity and speed to FILE, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Share of zeros of threshold, 0.05 to 0.95
    #[arg(long, value_name = "SHARE", default_value_t = 0.4)]
    zeros: f32,

    /// Maximum loss of adaptive in nats per token, 0.0001 to 1: 0.01 is 1 % of perplexity
    #[arg(long, value_name = "NATS", default_value_t = 0.02)]
    max_loss: f64,

    #[command(flatten)]
    windows: WindowArgs,

    /// Print a JSON object: model, tokens, window, settings
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    file: FileArgs,
}

pub(super) fn run(args: &SparsityArgs) -> Result<()> {
    let options: RunOptions = args.compute.options(&args.file);
    ensure!(
        matches!(options.activation_sparsity, ActivationSparsity::Off),
        "wf eval sparsity measures all modes: remove --activation-sparsity"
    );
    let text = input::read_text_file(&args.calibrate)?;
    let file = open::file(&open::source(args.model.as_deref())?, &options.open)?;
    let goals = SparsityGoals { zeros: args.zeros, max_loss: args.max_loss };
    let (calibration, report) =
        eval::sparsity(&file, &options, &text, args.windows.window, goals, &mut |step| {
            if std::io::stderr().is_terminal() {
                output::note(&format!("measuring: {step}"));
            }
        })?;
    output::write_file(&args.output, calibration.text())?;
    if let Some(path) = &args.plot {
        output::write_file(path, report.svg())?;
    }
    output::report(&report, args.json)
}
