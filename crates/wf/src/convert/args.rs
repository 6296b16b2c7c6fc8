//! The flags of `wf convert`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use wf_formats::{FloatEncoding, TernaryEncoding};

use crate::args::FileArgs;

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    after_help = "\
The format follows from the name of DST: .gguf is GGUF, .bin is SGLBITNT, .wf is the native format,
which loads fastest, and a directory is packed safetensors. The result is written to a temporary
file, read back and compared with SRC before it is renamed: DST is complete or does not exist.

Examples:
  wf convert bitnet-2b-bf16/ bitnet-2b.gguf                      for wf and bitnet.cpp
  wf convert bitnet-2b.gguf small.gguf --encoding tq1_0          for llama.cpp
  wf convert bitnet-2b.gguf packed/                              for transformers
  wf convert bitnet-2b.gguf bitnet-2b.wf                         native format: loads faster
  wf convert my-checkpoint/ my.gguf --head q6_k --dry-run        show size and encodings only"
)]
pub(crate) struct ConvertArgs {
    /// Model: a GGUF file, an SGLBITNT .bin, a .wf, a .safetensors file or a Hugging Face directory
    #[arg(value_name = "SRC")]
    pub(crate) source: PathBuf,

    /// Destination
    #[arg(value_name = "DST")]
    pub(crate) destination: PathBuf,

    /// Format [default: by the name of DST]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<Format>,

    /// Encoding of trits in a GGUF file [default: the first in this list that fits]
    #[arg(long, value_name = "NAME", ignore_case = true, value_parser = encodings())]
    pub(crate) encoding: Option<TernaryEncoding>,

    /// Type of the embedding and the output head [default: that of SRC, or f32 where DST has no such
    /// type]
    #[arg(long = "head", value_name = "TYPE", ignore_case = true, value_parser = head_types())]
    pub(crate) head_type: Option<FloatEncoding>,

    /// Use the type of head recommended if memory is short: q6_k, or q8_0 if rows do not fit
    #[arg(long, conflicts_with = "head_type")]
    pub(crate) pack_lm_head: bool,

    /// For master weights: one scale per N columns instead of one per tensor
    #[arg(long, value_name = "N", value_parser = parse_group)]
    pub(crate) group: Option<usize>,

    /// Round the weights of a model not trained for it. Its output is nonsense: for speed tests only
    #[arg(long)]
    pub(crate) naive: bool,

    /// Show the result and its size without writing it
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Do not read the result back and compare it
    #[arg(long)]
    pub(crate) no_verify: bool,

    /// Replace DST if it exists
    #[arg(long)]
    pub(crate) force: bool,

    /// Number of threads [default: all cores, or OMP_NUM_THREADS if it is less]
    #[arg(long, short, value_name = "N", value_parser = crate::args::parse_threads)]
    pub(crate) threads: Option<usize>,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) file: FileArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// A .gguf file
    Gguf,
    /// A directory of packed weights, for transformers
    Safetensors,
    /// A .bin file, with the files of the tokenizer beside it
    Sglbitnt,
    /// A .wf file: trits in the layout of the kernels, with checksums and tokenizer
    Wf,
}

/// Accepts the encodings that GGUF files are written with.
fn encodings() -> impl TypedValueParser<Value = TernaryEncoding> {
    let flags = TernaryEncoding::ALL.iter().filter_map(|encoding| encoding.flag());
    PossibleValuesParser::new(flags).try_map(|name| name.parse())
}

/// Accepts every float encoding that is written.
fn head_types() -> impl TypedValueParser<Value = FloatEncoding> {
    let writable = FloatEncoding::ALL.iter().filter(|float| float.is_writable());
    PossibleValuesParser::new(writable.map(|float| float.flag())).try_map(|name| name.parse())
}

fn parse_group(text: &str) -> Result<usize, String> {
    let len = text.parse().ok().filter(|&len: &usize| len >= 16 && len.is_multiple_of(16));
    len.ok_or_else(|| "must be a multiple of 16, for example 64, 128 or 256".to_owned())
}
