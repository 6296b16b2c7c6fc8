//! `wf eval`: measures a model.

mod compare;
mod record;
mod sparsity;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args as ClapArgs, Subcommand};
use wf_engine::{RunOptions, TokenId};
use wf_formats::ModelFile;
use wf_lab::eval;
use wf_lab::eval::tasks::{Scores, Tasks};

use crate::args::{
    ComputeArgs, EngineArgs, FileArgs, HELP, ModelAndInput, ScoringArgs, parse_count, parse_whole,
};
use crate::{input, memory, open, output};

#[derive(Subcommand)]
pub(crate) enum EvalCommand {
    /// Print the logits after given tokens
    Logits(LogitsArgs),
    /// Measure the perplexity of a text; lower is better
    Perplexity(PerplexityArgs),
    /// Compare K/V cache types with f32: memory, cosine and perplexity
    Kv(KvArgs),
    /// Compare two settings of a model on a text: perplexity, KL divergence, speed and memory
    Compare(compare::CompareArgs),
    /// Record the predictions of a model for a text, to check a later version with
    Record(record::RecordArgs),
    /// Compare a model with a recording; fails if it differs by more than the limits
    Check(record::CheckArgs),
    /// Calibrate activation sparsity on a text, and measure its perplexity and speed
    Sparsity(sparsity::SparsityArgs),
    /// Measure accuracy on the tasks of a file: choices by likelihood, and exact completions
    Tasks(TasksArgs),
}

/// Windows of a text, each scored on its own.
#[derive(ClapArgs)]
struct WindowArgs {
    /// Length of the windows the text is split into [default: the context length]
    #[arg(long, value_name = "TOKENS", value_parser = parse_count)]
    window: Option<usize>,
}

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  wf eval logits --ids 0,596,656,262        the likeliest tokens after these four
  wf eval logits bitnet-2b.gguf --ids 0,596 --all --json")]
pub(crate) struct LogitsArgs {
    /// Model [default: the built-in demo]
    #[arg(env = "WF_MODEL")]
    model: Option<PathBuf>,

    /// Token ids, separated by commas
    #[arg(long, value_name = "IDS", value_delimiter = ',', required = true,
          value_parser = parse_whole::<TokenId>)]
    ids: Vec<TokenId>,

    /// Print all logits of the last position
    #[arg(long)]
    all: bool,

    /// Print a JSON object: mean_nll, top, logits
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    file: FileArgs,
}

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    help_template = HELP,
    override_usage = "wf eval perplexity [OPTIONS] [MODEL] <FILE>",
    before_help = "\
MODEL defaults to WF_MODEL, or the built-in demo. FILE is a UTF-8 text; - reads standard input.",
    after_help = "\
Examples:
  wf eval perplexity bitnet-2b.gguf wiki.txt
  wf eval perplexity wiki.txt --window 512 --json"
)]
pub(crate) struct PerplexityArgs {
    #[command(flatten)]
    input: ModelAndInput,

    /// Length of the windows the text is split into [default: the context length; with --attention window=N,
    /// the whole text]
    #[arg(long, value_name = "TOKENS", value_parser = parse_count)]
    window: Option<usize>,

    /// Print a JSON object: perplexity, mean_nll, tokens
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    scoring: ScoringArgs,
}

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    help_template = HELP,
    override_usage = "wf eval kv [OPTIONS] [MODEL] <FILE>",
    before_help = "\
MODEL defaults to WF_MODEL, or the built-in demo. FILE is a UTF-8 text; - reads standard input.
All types are measured; --kv has no effect.",
    after_help = "\
Examples:
  wf eval kv bitnet-2b.gguf wiki.txt        which type is good enough for this model"
)]
pub(crate) struct KvArgs {
    #[command(flatten)]
    input: ModelAndInput,

    #[command(flatten)]
    windows: WindowArgs,

    /// Print a JSON object: tokens, window, types
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    file: FileArgs,
}

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    help_template = HELP,
    before_help = "\
FILE has one JSON object per line; - reads standard input. A task with choices:
  {\"prompt\": \"The cat sat on the\", \"choices\": [\"mat\", \"sun\"], \"answer\": 0}
is correct if the right choice is the likeliest. A task without:
  {\"prompt\": \"2 + 2 =\", \"answer\": \"4\", \"max_tokens\": 2, \"stop\": [\"\\n\"]}
is correct if the completion is the answer, or one of \"answers\". Both are scored as in lm-eval.",
    after_help = "\
Examples:
  wf eval tasks tasks.jsonl bitnet-2b.gguf  accuracy, with its standard error
  wf eval tasks tasks.jsonl --limit 100 --json --output results.jsonl"
)]
pub(crate) struct TasksArgs {
    /// File of tasks
    file: PathBuf,

    /// Model [default: the built-in demo]
    #[arg(env = "WF_MODEL")]
    model: Option<PathBuf>,

    /// Maximum number of tasks to run, from the first
    #[arg(long, value_name = "TASKS", value_parser = parse_count)]
    limit: Option<usize>,

    /// Write the result of each task to FILE, one JSON object per line
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print a JSON object: tasks, acc, acc_norm, acc_bytes, exact_match
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    engine: EngineArgs,
}

impl TasksArgs {
    /// Returns the file of tasks and the model. Other commands take the model first, so a name ending
    /// in `.jsonl` is the file in either position.
    fn paths(&self) -> (&Path, Option<&Path>) {
        let is_tasks = |path: &Path| path.extension().is_some_and(|end| end == "jsonl");
        match &self.model {
            Some(second) if is_tasks(second) && !is_tasks(&self.file) => (second, Some(&self.file)),
            model => (&self.file, model.as_deref()),
        }
    }
}

pub(crate) fn run(command: &EvalCommand) -> Result<()> {
    match command {
        EvalCommand::Logits(args) => logits(args),
        EvalCommand::Perplexity(args) => perplexity(args),
        EvalCommand::Kv(args) => kv(args),
        EvalCommand::Compare(args) => compare::run(args),
        EvalCommand::Record(args) => record::record(args),
        EvalCommand::Check(args) => record::check(args),
        EvalCommand::Sparsity(args) => sparsity::run(args),
        EvalCommand::Tasks(args) => tasks(args),
    }
}

fn logits(args: &LogitsArgs) -> Result<()> {
    let options = args.compute.options(&args.file);
    let file = open::file(&open::source(args.model.as_deref())?, &options.open)?;
    output::report(&eval::logits(&file, &options, &args.ids, args.all)?, args.json)
}

fn perplexity(args: &PerplexityArgs) -> Result<()> {
    let options = args.scoring.options();
    let (file, text) = file_and_text(&args.input, &options)?;
    output::report(&eval::perplexity(&file, &options, &text, args.window)?, args.json)
}

fn kv(args: &KvArgs) -> Result<()> {
    let options = args.compute.options(&args.file);
    let (file, text) = file_and_text(&args.input, &options)?;
    output::report(&eval::compare_kv(&file, &options, &text, args.windows.window)?, args.json)
}

fn file_and_text(input: &ModelAndInput, options: &RunOptions) -> Result<(ModelFile, String)> {
    let (model, path) = input.split("file")?;
    let text = input::read_text_file(Path::new(path))?;
    Ok((open::file(&open::source(model)?, &options.open)?, text))
}

fn tasks(args: &TasksArgs) -> Result<()> {
    let (path, model) = args.paths();
    let mut tasks = Tasks::parse(&path.display().to_string(), &input::read_text_file(path)?)?;
    tasks.truncate(args.limit.unwrap_or(usize::MAX));
    let options = RunOptions { kv_capacity: memory::kv_capacity(), ..args.engine.options() };
    let opened = open::model(model, None, &options)?;
    let results = tasks.run(&opened.frontend)?;
    if let Some(path) = &args.output {
        let lines: String = results.iter().map(|result| format!("{result}\n")).collect();
        output::write_file(path, lines)?;
    }
    output::report(&Scores::of(&results), args.json)
}
