//! The flags of `wf bench`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::dead_gates::Gates;
use super::shapes::Shape;
use crate::args::{ComputeArgs, FileArgs, HeadArgs};

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    after_help = "\
With neither MODEL, --synthetic nor --demo, random weights in the shape of BitNet b1.58 2B4T are
measured: nothing is downloaded, and the speed is that of the real model, because no kernel looks at
what it multiplies. With less than 4 GB of memory available it is the demo model instead.

--threads sets the most threads; one thread is measured too. Close other programs first.

Examples:
  wf bench                             what this machine can do, in a few minutes
  wf bench --quick                     the same in under a minute
  wf bench --synthetic llama3-8b       another shape
  wf bench bitnet-2b.gguf              a model of your own
  wf bench --decode                    what diffusion, drafts and lookup gain
  wf bench --compare                   beside llama-cpp-python, where it is installed
  wf bench --price 0.17 --json         with what a million tokens cost, for a program to read"
)]
pub(crate) struct BenchArgs {
    /// A model to measure [default: random weights in the shape of bitnet-2b]
    #[arg(env = "WF_MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// Random weights in the shape of a known model; nothing is read or downloaded
    #[arg(long, value_name = "SHAPE", conflicts_with = "demo")]
    pub(crate) synthetic: Option<Shape>,

    /// How many gates of random weights are shut: random (half of them), or demo (as many as in the
    /// trained demo model)
    #[arg(long, value_name = "GATES", default_value = "random", conflicts_with = "demo")]
    pub(crate) synthetic_sparsity: Gates,

    /// The demo model inside this program
    #[arg(long)]
    pub(crate) demo: bool,

    /// What each way to decode gains (on the demo model, or MODEL), and what a pass of several rows costs
    #[arg(long = "decode", conflicts_with_all = ["compare", "plot", "price"])]
    pub(crate) ways_to_decode: bool,

    /// With --decode: a smaller model with the same tokenizer, which guesses what the first will say
    #[arg(long, env = "WF_DRAFT", value_name = "MODEL", requires = "ways_to_decode")]
    pub(crate) draft: Option<PathBuf>,

    /// Fewer lengths and fewer repeats: under a minute
    #[arg(long, env = "WF_QUICK")]
    pub(crate) quick: bool,

    /// Decode after these numbers of tokens, for example 0,512
    #[arg(long, env = "WF_CONTEXTS", value_name = "TOKENS", value_delimiter = ',')]
    pub(crate) contexts: Option<Vec<usize>>,

    /// Read prompts of these lengths
    #[arg(
        long,
        env = "WF_PROMPTS",
        value_name = "TOKENS",
        value_delimiter = ',',
        value_parser = parse_count
    )]
    pub(crate) prompts: Option<Vec<usize>>,

    /// Decode these numbers of sequences together
    #[arg(
        long,
        env = "WF_SEQUENCES",
        value_name = "COUNTS",
        value_delimiter = ',',
        value_parser = parse_count
    )]
    pub(crate) sequences: Option<Vec<usize>>,

    /// One repeat of the shortest cases: whether everything runs, not how fast
    #[arg(long, hide = true, conflicts_with = "quick")]
    pub(crate) smoke: bool,

    /// What an hour of this machine costs: adds the price of a million tokens
    #[arg(long, env = "WF_PRICE", value_name = "USD_PER_HOUR", value_parser = parse_price)]
    pub(crate) price: Option<f64>,

    /// Print one JSON object: stream_gb_s, isa, decode, prefill, batch, kernels, parts, cost and more
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,

    /// Also run llama-cpp-python on the same shape, in turn with us, if this Python has it
    #[arg(
        long,
        env = "WF_COMPARE",
        value_name = "PYTHON",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "python3"
    )]
    pub(crate) compare: Option<PathBuf>,

    /// Draw decode, prefill and batches into an SVG file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    #[command(flatten)]
    pub(crate) head: HeadArgs,
    #[command(flatten)]
    pub(crate) file: FileArgs,
}

fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("use whole numbers above 0, for example 32,512".to_owned()),
    }
}

fn parse_price(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(price) if f64::is_finite(price) && price > 0.0 => Ok(price),
        _ => Err("use a price above 0, for example 0.17".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_above_zero() {
        assert_eq!(parse_count("512"), Ok(512));
        for wrong in ["0", "-1", "many"] {
            assert!(parse_count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_price_is_a_positive_number() {
        assert_eq!(parse_price("0.17"), Ok(0.17));
        for wrong in ["0", "-1", "inf", "NaN", "cheap"] {
            assert!(parse_price(wrong).is_err(), "{wrong}");
        }
    }
}
