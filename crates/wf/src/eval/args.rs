//! The flags of `wf eval`.

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Subcommand};
use wf_engine::TokenId;

use crate::args::{
    ComputeArgs, EveryScoreArgs, FileArgs, HELP, HeadArgs, ModelAndWord, parse_count, parse_whole,
};

#[derive(ClapArgs)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    pub(crate) command: EvalCommand,
}

#[derive(Subcommand)]
pub(crate) enum EvalCommand {
    /// The scores a model gives after some tokens
    Logits(LogitsArgs),
    /// How well a model predicts a text: lower is better
    Perplexity(PerplexityArgs),
    /// What each type of keys and values costs: memory, cosine and perplexity against f32
    Kv(KvArgs),
    /// How many tasks of a file a model gets right: choices by their likelihood, and replies
    Tasks(TasksArgs),
}

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  wf eval logits --ids 0,596,656,262        the likeliest tokens after these four
  wf eval logits bitnet-2b.gguf --ids 0,596 --all --json")]
pub(crate) struct LogitsArgs {
    /// The model [default: the built-in demo]
    #[arg(env = "WF_MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// Token numbers, separated by commas
    #[arg(long, value_name = "IDS", value_delimiter = ',', required = true,
          value_parser = parse_whole::<TokenId>)]
    pub(crate) ids: Vec<TokenId>,

    /// Every score of the last position, in `logits`
    #[arg(long, env = "WF_ALL")]
    pub(crate) all: bool,

    /// Print one JSON object: mean_nll, top, logits
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    #[command(flatten)]
    pub(crate) file: FileArgs,
}

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    help_template = HELP,
    override_usage = "wf eval perplexity [OPTIONS] [MODEL] <FILE>",
    before_help = "\
MODEL is left out for WF_MODEL or the built-in demo. FILE is a UTF-8 text; - reads standard input.",
    after_help = "\
Examples:
  wf eval perplexity bitnet-2b.gguf wiki.txt
  wf eval perplexity wiki.txt --window 512 --json"
)]
pub(crate) struct PerplexityArgs {
    #[command(flatten)]
    pub(crate) words: ModelAndWord,

    /// Tokens of the windows the text is cut into [default: the context]
    #[arg(long, env = "WF_WINDOW", value_name = "TOKENS", value_parser = parse_count)]
    pub(crate) window: Option<usize>,

    /// Print one JSON object: perplexity, mean_nll, tokens
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    #[command(flatten)]
    pub(crate) head: EveryScoreArgs,
    #[command(flatten)]
    pub(crate) file: FileArgs,
}

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    help_template = HELP,
    override_usage = "wf eval kv [OPTIONS] [MODEL] <FILE>",
    before_help = "\
MODEL is left out for WF_MODEL or the built-in demo. FILE is a UTF-8 text; - reads standard input.
All types are measured, whatever --kv says.",
    after_help = "\
Examples:
  wf eval kv bitnet-2b.gguf wiki.txt        which type is good enough for this model"
)]
pub(crate) struct KvArgs {
    #[command(flatten)]
    pub(crate) words: ModelAndWord,

    /// Tokens of the windows the text is cut into [default: the context]
    #[arg(long, env = "WF_WINDOW", value_name = "TOKENS", value_parser = parse_count)]
    pub(crate) window: Option<usize>,

    /// Print one JSON object: tokens, window, types
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    #[command(flatten)]
    pub(crate) file: FileArgs,
}

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    help_template = HELP,
    before_help = "\
FILE has one JSON object a line; - reads standard input. A task with choices:
  {\"prompt\": \"The cat sat on the\", \"choices\": [\"mat\", \"sun\"], \"answer\": 0}
is right if the right choice is the likeliest. A task without:
  {\"prompt\": \"2 + 2 =\", \"answer\": \"4\", \"max_tokens\": 2, \"stop\": [\"\\n\"]}
is right if the reply is the answer, or one of \"answers\". Both are measured as lm-eval does it.",
    after_help = "\
Examples:
  wf eval tasks tasks.jsonl bitnet-2b.gguf  accuracy, with its standard error
  wf eval tasks tasks.jsonl --limit 100 --json --output results.jsonl"
)]
pub(crate) struct TasksArgs {
    /// The tasks
    file: PathBuf,

    /// The model [default: the built-in demo]
    #[arg(env = "WF_MODEL")]
    model: Option<PathBuf>,

    /// Only so many tasks, from the first one on
    #[arg(long, env = "WF_LIMIT", value_name = "TASKS", value_parser = parse_count)]
    pub(crate) limit: Option<usize>,

    /// Write what came of each task here, one JSON object a line
    #[arg(long, env = "WF_OUTPUT", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Print one JSON object: tasks, acc, acc_norm, acc_bytes, exact_match
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    #[command(flatten)]
    pub(crate) head: HeadArgs,
    #[command(flatten)]
    pub(crate) file_args: FileArgs,
}

impl TasksArgs {
    /// The file of tasks, and the model. Other commands take them in the other order: a name that
    /// ends as those of such files do is the file's wherever it stands.
    pub(crate) fn words(&self) -> (&Path, Option<&Path>) {
        let is_tasks = |path: &Path| path.extension().is_some_and(|end| end == "jsonl");
        match &self.model {
            Some(second) if is_tasks(second) && !is_tasks(&self.file) => (second, Some(&self.file)),
            model => (&self.file, model.as_deref()),
        }
    }
}
