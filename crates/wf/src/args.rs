//! Every flag and environment variable.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args as ClapArgs, Parser, Subcommand};
use clap_complete::Shell;
use wf_engine::TokenId;
use wf_formats::Activation;
use wf_formats::encoding::I2sOrder;
use wf_model::{CpuList, HeadMode, Isa, KvDtype, Layout, SparseMode};

use crate::bench::args::BenchArgs;
use crate::cache::CacheArgs;
use crate::convert::args::ConvertArgs;
use crate::load::args::LoadArgs;
use crate::report::UsageError;
use crate::serve::args::ServeArgs;
use crate::validate::ValidateArgs;
use crate::verify::args::VerifyArgs;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold());

const EXAMPLES: &str = "\
Examples:
  wf serve                                  an OpenAI API with the built-in demo model
  wf run \"Once upon a time\"                 a story by the built-in demo model
  wf run bitnet-2b.gguf \"Why is it blue?\"   a model of your own
  wf inspect bitnet-2b.gguf                 what a file is, and whether it is sound
  wf convert checkpoint/ bitnet-2b.gguf     another format, checked
  wf doctor                                 whether this machine computes right

MODEL is a GGUF file, an SGLBITNT .bin, a .safetensors file, a Hugging Face directory, or a model on
the Hugging Face Hub: hf:owner/repo[@revision][:file]. Left out, it is the demo model inside this program.
Every setting can also be given as WF_<FLAG>, for example WF_THREADS=4; a flag beats its variable.";

/// What a command does comes first, then how it is called, then what its words mean.
const HELP: &str = "\
{about-with-newline}
{usage-heading} {usage}

{before-help}{all-args}{after-help}";

/// The most threads that make sense; each takes memory and time to start.
const MAX_THREADS: usize = 1024;

/// Run 1.58-bit (ternary, BitNet) language models on the CPU you have.
#[derive(Parser)]
#[command(name = "wf", version, styles = STYLES, after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Serve the OpenAI API
    Serve(Box<ServeArgs>),
    /// Write a reply to a prompt
    Run(RunArgs),
    /// Say what a model file is, and whether it is sound
    Inspect(InspectArgs),
    /// Turn a model into another format
    Convert(ConvertArgs),
    /// Say whether two files are the same model
    Verify(VerifyArgs),
    /// Show or remove what is kept of models from the hub
    Cache(CacheArgs),
    /// Show the tokens of a text
    Tokenize(TokenizeArgs),
    /// Measure a model: scores and perplexity
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
    Completions {
        /// The shell to complete in
        shell: Shell,
    },
}

/// A model that may be left out, and a last word that may not: a prompt, or a file.
///
/// One list and not two arguments: clap would take the model for the last word when a flag stands
/// between them. Not text yet, because the name of a file can be any bytes.
#[derive(ClapArgs)]
pub(crate) struct ModelAndWord {
    // Shown by the usage line and the text before the help instead.
    #[arg(hide = true)]
    words: Vec<OsString>,

    /// Another way to name the model
    #[arg(long = "model", env = "WF_MODEL", value_name = "MODEL", hide = true)]
    named: Option<PathBuf>,
}

impl ModelAndWord {
    /// The model, if one was named, and the last word, which is called `what` in messages.
    pub(crate) fn split(&self, what: &str) -> Result<(Option<&Path>, &OsStr), UsageError> {
        match &self.words[..] {
            [] => Err(UsageError::new(format!(
                "no {what}: give one as the last word, or - for standard input"
            ))),
            [word] => Ok((self.named.as_deref(), word)),
            [model, word] => Ok((Some(Path::new(model)), word)),
            words => Err(UsageError::new(format!(
                "{} words are more than a model and a {what}: put a {what} with spaces in quotes",
                words.len()
            ))),
        }
    }
}

/// What a model file cannot say for itself.
#[derive(ClapArgs)]
#[command(next_help_heading = "Reading the file")]
pub(crate) struct FileArgs {
    /// Byte order of I2_S tensors: 128 (all published files), 64 (made on Arm) or 4row
    #[arg(long, env = "WF_I2S_ORDER", value_name = "ORDER")]
    pub(crate) i2s_order: Option<I2sOrder>,

    /// Activation of the feed-forward part: relu2 or silu; normally taken from the file
    #[arg(long, env = "WF_ACTIVATION", value_name = "NAME", value_parser = parse_activation)]
    pub(crate) activation: Option<Activation>,
}

/// For commands that pick tokens.
#[derive(ClapArgs)]
#[command(next_help_heading = "Output head (costs are those of a 16-bit head)")]
pub(crate) struct HeadArgs {
    /// How scores come about; see --help
    ///
    /// auto   scan if the head is larger than 32 MB, else full
    /// full   every row is read for every token: 1 byte for each byte of the head, no extra memory
    /// scan   for picks of the best tokens (greedy, or with --top-k up to 1024), an int8 copy is read
    ///        and the rows that could be among them: 0.5 bytes, 0.5 more memory, the same tokens as
    ///        full by proof; other picks read every row
    /// scan4  as scan, with four bits of the copy: 0.25 bytes, 0.5 more memory, the same tokens as
    ///        full but for a rule that fails once in 10^14 scores if rounding errors are random
    /// int8   every score from the int8 copy: 0.5 bytes for any kind of pick, 0.5 more memory. Not the
    ///        scores of full: 8-bit heads of this model were published as 0.06 % higher in perplexity
    /// check  full, scan and scan4 for every pick; ends with an error where they differ, and tells
    ///        how much they read. Slow, for finding out
    #[arg(
        long,
        env = "WF_HEAD",
        value_name = "MODE",
        default_value = "auto",
        verbatim_doc_comment
    )]
    pub(crate) head: HeadMode,

    /// Skip the weights that squared ReLU multiplies by zero: on, off, or auto (in layers where it
    /// pays). The same tokens, faster, for up to half of the layers' memory more
    #[arg(
        long,
        env = "WF_SPARSE",
        value_name = "MODE",
        default_value = "auto",
        help_heading = "Computing (none of these changes an answer, except --kv)"
    )]
    pub(crate) sparse: SparseMode,
}

/// For commands that look at every score: the ways that have one for every token.
#[derive(ClapArgs)]
#[command(next_help_heading = "Output head")]
pub(crate) struct EveryScoreArgs {
    /// How scores come about: full (those of the model) or int8 (from 8-bit codes of the head: half
    /// the bytes of a 16-bit head, not the same scores)
    #[arg(long, env = "WF_HEAD", value_name = "MODE", default_value = "full",
          value_parser = parse_every_score)]
    pub(crate) head: HeadMode,
}

/// What a model computes on.
#[derive(ClapArgs)]
#[command(next_help_heading = "Computing (none of these changes an answer, except --kv)")]
pub(crate) struct ComputeArgs {
    /// Threads to compute on [default: all cores]
    #[arg(long, short, env = "WF_THREADS", value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,

    /// CPUs to compute on, one thread each, for example 0-3,8 [default: the system chooses]
    #[arg(long, env = "WF_CPUS", value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,

    /// Instruction set: scalar, neon, dotprod, i8mm, avx2, avx512, avxvnni, avx512vnni or amx
    /// [default: the best this CPU has]
    #[arg(long, env = "WF_ISA", value_name = "NAME")]
    pub(crate) isa: Option<Isa>,

    /// How trits lie in memory: quad-lines (2 bits each) or five-trits (1.6 bits) [default: what this
    /// machine reads faster]
    #[arg(long, env = "WF_LAYOUT", value_name = "NAME", value_parser = parse_layout)]
    pub(crate) layout: Option<Layout>,

    /// How keys and values are kept: f32, bf16, f16, fp8-e4m3, fp8-e5m2 or int8
    #[arg(long, env = "WF_KV", value_name = "TYPE", default_value = "f32")]
    pub(crate) kv: KvDtype,

    /// Most tokens of prompt and reply together [default: what the model was made for]
    #[arg(long, alias = "context-len", env = "WF_CONTEXT", value_name = "TOKENS", value_parser = parse_count)]
    pub(crate) context: Option<usize>,

    /// Prompt tokens computed together
    #[arg(long, env = "WF_CHUNK", value_name = "TOKENS", default_value = "256",
          value_parser = parse_count)]
    pub(crate) chunk: usize,
}

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    help_template = HELP,
    override_usage = "wf run [OPTIONS] [MODEL] <PROMPT>",
    before_help = "\
MODEL is a GGUF file, an SGLBITNT .bin, a .safetensors file or a Hugging Face directory
[default: WF_MODEL, or the built-in demo]. PROMPT is a text; - reads it from standard input."
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) words: ModelAndWord,

    /// Continue the prompt as it is, without the chat template
    #[arg(long, env = "WF_RAW")]
    pub(crate) raw: bool,

    /// With --raw: let names such as <|eot_id|> in the prompt stand for those tokens
    #[arg(long, env = "WF_SPECIALS")]
    pub(crate) specials: bool,

    /// A system message before the prompt
    #[arg(long, env = "WF_SYSTEM", value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Print one JSON object: prompt_ids, ids, text, finish_reason, seed, timings
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    #[command(flatten)]
    pub(crate) head: HeadArgs,
    #[command(flatten)]
    pub(crate) file: FileArgs,
}

/// How scores become tokens.
#[derive(ClapArgs)]
#[command(next_help_heading = "Sampling (greedy unless a temperature is given)")]
pub(crate) struct SamplingArgs {
    /// Most tokens to write
    #[arg(long, short = 'n', env = "WF_MAX_TOKENS", value_name = "N", default_value = "256",
          value_parser = parse_count)]
    pub(crate) max_tokens: usize,

    /// No end before this many tokens
    #[arg(long, env = "WF_MIN_TOKENS", value_name = "N", default_value = "0",
          value_parser = parse_whole::<usize>)]
    pub(crate) min_tokens: usize,

    /// 0 takes the best token each time; around 0.7 is lively, above 1 is wild
    #[arg(long, env = "WF_TEMPERATURE", value_name = "T", default_value = "0",
          value_parser = parse_number)]
    pub(crate) temperature: f32,

    /// Choose among the K best tokens only; 0 is all
    #[arg(long, env = "WF_TOP_K", value_name = "K", default_value = "0",
          value_parser = parse_whole::<usize>)]
    pub(crate) top_k: usize,

    /// Choose among the best tokens that together have this probability
    #[arg(long, env = "WF_TOP_P", value_name = "P", default_value = "1",
          value_parser = parse_number)]
    pub(crate) top_p: f32,

    /// Leave out tokens less likely than this share of the best one's probability
    #[arg(long, env = "WF_MIN_P", value_name = "P", default_value = "0",
          value_parser = parse_number)]
    pub(crate) min_p: f32,

    /// Divide the scores of tokens already seen by this; 1 is off
    #[arg(
        long,
        visible_alias = "repeat-penalty",
        env = "WF_REPETITION_PENALTY",
        value_name = "X",
        default_value = "1",
        value_parser = parse_number
    )]
    pub(crate) repetition_penalty: f32,

    /// Subtract this from the score of tokens already written
    #[arg(
        long,
        env = "WF_PRESENCE_PENALTY",
        value_name = "X",
        default_value = "0",
        value_parser = parse_number
    )]
    pub(crate) presence_penalty: f32,

    /// Subtract this for each time a token was written
    #[arg(
        long,
        env = "WF_FREQUENCY_PENALTY",
        value_name = "X",
        default_value = "0",
        value_parser = parse_number
    )]
    pub(crate) frequency_penalty: f32,

    /// Add BIAS to the score of token ID; may be given several times
    #[arg(long, env = "WF_LOGIT_BIAS", value_name = "ID=BIAS", value_parser = parse_bias,
          value_delimiter = ',', allow_hyphen_values = true)]
    pub(crate) logit_bias: Vec<(TokenId, f32)>,

    /// The same seed draws the same tokens [default: drawn, and told]
    #[arg(long, env = "WF_SEED", value_name = "N", value_parser = parse_whole::<u64>)]
    pub(crate) seed: Option<u64>,

    /// End the reply at this text; may be given several times
    #[arg(long, env = "WF_STOP", value_name = "TEXT",
          value_parser = NonEmptyStringValueParser::new())]
    pub(crate) stop: Vec<String>,

    /// Write on after the model's own end token
    #[arg(long, env = "WF_IGNORE_EOS")]
    pub(crate) ignore_eos: bool,
}

#[derive(ClapArgs)]
pub(crate) struct InspectArgs {
    /// The model [default: the built-in demo]
    #[arg(env = "WF_MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// List every tensor
    #[arg(long, env = "WF_TENSORS")]
    pub(crate) tensors: bool,

    /// Look at the structure only, not at every weight
    #[arg(long, env = "WF_QUICK")]
    pub(crate) quick: bool,

    /// Print one JSON object
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) file: FileArgs,
}

#[derive(ClapArgs)]
#[command(override_usage = "wf tokenize [OPTIONS] [MODEL] <TEXT>\n       \
                            wf tokenize [OPTIONS] [MODEL] --file <FILE>\n       \
                            wf tokenize [OPTIONS] --tokenizer <FILE> <TEXT>")]
pub(crate) struct TokenizeArgs {
    /// The model (left out: the built-in demo), and the text; - reads standard input
    #[arg(value_name = "MODEL TEXT")]
    pub(crate) words: Vec<OsString>,

    /// Another way to name the model
    #[arg(long, env = "WF_MODEL", value_name = "MODEL", hide = true)]
    pub(crate) model: Option<PathBuf>,

    /// Use this tokenizer.json instead of a model's
    #[arg(long, env = "WF_TOKENIZER", value_name = "FILE")]
    pub(crate) tokenizer: Option<PathBuf>,

    /// Read the text from a file
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Let names such as <|eot_id|> in the text stand for those tokens
    #[arg(long, env = "WF_SPECIALS")]
    pub(crate) specials: bool,

    /// Print one JSON object: ids, pieces
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,
}

impl TokenizeArgs {
    /// Whether a word is left for the model once the text has its own.
    pub(crate) fn names_a_model(&self) -> bool {
        self.words.len() > usize::from(self.file.is_none())
    }
}

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
}

#[derive(ClapArgs)]
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
MODEL is left out for WF_MODEL or the built-in demo. FILE is a UTF-8 text; - reads standard input."
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
All types are measured, whatever --kv says."
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
pub(crate) struct DoctorArgs {
    /// Print one JSON object
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,
}

fn parse_activation(name: &str) -> Result<Activation, String> {
    [Activation::Relu2, Activation::Silu]
        .into_iter()
        .find(|activation| activation.key() == name)
        .ok_or_else(|| "use relu2 or silu".to_owned())
}

fn parse_every_score(name: &str) -> Result<HeadMode, String> {
    match name.parse() {
        Ok(mode @ (HeadMode::Full | HeadMode::Int8)) => Ok(mode),
        // What WF_HEAD is set to for other commands: where all scores are wanted, they read every row.
        Ok(HeadMode::Auto) => Ok(HeadMode::Full),
        _ => Err("every score is looked at here: use full or int8".to_owned()),
    }
}

fn parse_layout(name: &str) -> Result<Layout, String> {
    let found = Layout::ALL.into_iter().find(|layout| layout.name() == name);
    found.ok_or_else(|| format!("use {}", Layout::ALL.map(Layout::name).join(" or ")))
}

pub(crate) fn parse_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|&count| count > 0);
    count.ok_or_else(|| "a whole number of at least 1 is needed".to_owned())
}

pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|threads| (1..=MAX_THREADS).contains(threads));
    threads.ok_or_else(|| format!("a whole number from 1 to {MAX_THREADS} is needed"))
}

/// A number that may be 0; spaces around it do no harm.
pub(crate) fn parse_whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = text.trim().parse::<u64>().ok().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| {
        let largest = u64::MAX >> (64 - 8 * size_of::<T>());
        format!("a whole number from 0 to {largest} is needed")
    })
}

/// Any float: the engine knows the range of each setting.
pub(crate) fn parse_number(text: &str) -> Result<f32, String> {
    text.parse().map_err(|_| "a number is needed, for example 0.7".to_owned())
}

fn parse_bias(text: &str) -> Result<(TokenId, f32), String> {
    let form = || "use ID=BIAS, for example 42=-5".to_owned();
    let (id, bias) = text.split_once('=').ok_or_else(form)?;
    Ok((id.trim().parse().map_err(|_| form())?, bias.trim().parse().map_err(|_| form())?))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_lone_word_is_the_prompt() {
        let parse = |words: &[&str]| match Args::parse_from(words).command {
            Command::Run(run) => {
                let (model, prompt) = run.words.split("prompt").unwrap();
                (model.map(PathBuf::from), prompt.to_owned())
            }
            _ => panic!("not run"),
        };
        assert_eq!(parse(&["wf", "run", "hello"]), (None, "hello".into()));
        let both = (Some("m.gguf".into()), OsString::from("hello"));
        assert_eq!(parse(&["wf", "run", "m.gguf", "hello"]), both);
        assert_eq!(parse(&["wf", "run", "m.gguf", "--raw", "hello"]), both);
        assert_eq!(parse(&["wf", "run", "-n", "3", "m.gguf", "--top-k", "5", "hello"]), both);
        assert_eq!(parse(&["wf", "run", "hello", "--model", "m.gguf"]), both);
    }

    #[test]
    fn a_bias_is_an_id_and_a_number() {
        assert_eq!(parse_bias("42=-5"), Ok((42, -5.0)));
        assert!(parse_bias("42").is_err());
        assert!(parse_bias("x=1").is_err());
    }
}
