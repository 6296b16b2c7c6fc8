//! The flags of `wf convert`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use wf_formats::{FloatEncoding, I2sOrder, TernaryEncoding};

use crate::args::FileArgs;

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    after_help = "\
The kind of file follows from the name of DST: .gguf is GGUF, .bin is SGLBITNT, .wf is our own file,
which loads fastest, and a directory is packed safetensors. It is written beside its place, read back
and compared with SRC, and only then gets its name: whatever happens, DST is whole or not there.

Examples:
  wf convert bitnet-2b-bf16/ bitnet-2b.gguf                      for wf and bitnet.cpp
  wf convert bitnet-2b.gguf small.gguf --encoding tq1_0          for llama.cpp
  wf convert bitnet-2b.gguf packed/                              for transformers
  wf convert bitnet-2b.gguf bitnet-2b.wf                         our own file: loads faster
  wf convert my-checkpoint/ my.gguf --head q6_k --dry-run        what it would take"
)]
pub(crate) struct ConvertArgs {
    /// The model: a GGUF file, an SGLBITNT .bin, a .wf, a .safetensors file or a Hugging Face directory
    #[arg(value_name = "SRC")]
    pub(crate) source: PathBuf,

    /// Where to write
    #[arg(value_name = "DST")]
    pub(crate) destination: PathBuf,

    /// Kind of file [default: by the name of DST]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<Format>,

    /// How a GGUF file holds trits: i2_s, tq1_0, tq2_0, q2_0, q2_0_g128, iq2_bn, iq1_bn or iq2_bn_r4
    /// [default: the first that fits of i2_s, iq2_bn, tq2_0]
    #[arg(long, value_name = "NAME", value_parser = parse_encoding)]
    pub(crate) encoding: Option<TernaryEncoding>,

    /// How embedding and output head are held: f32, f16, bf16, q8_0, q6_k or q4_0 [default: as in
    /// SRC, or f32 where DST has no such type]
    #[arg(long = "head", value_name = "TYPE", value_parser = parse_head)]
    pub(crate) head_type: Option<FloatEncoding>,

    /// The head that is recommended where memory is short: q6_k, or q8_0 where rows do not fit it
    #[arg(long, conflicts_with = "head_type")]
    pub(crate) pack_lm_head: bool,

    /// For master weights: one scale for every N columns, and not one a tensor
    #[arg(long, value_name = "N", value_parser = parse_group)]
    pub(crate) group: Option<usize>,

    /// Round the weights of a model that was not trained for it. It writes nonsense: for speed tests
    #[arg(long)]
    pub(crate) naive: bool,

    /// Say what would be written, and how large; write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Do not read back and compare what was written
    #[arg(long)]
    pub(crate) no_verify: bool,

    /// Replace DST if it is there
    #[arg(long)]
    pub(crate) force: bool,

    /// Threads that read trits [default: all cores]; the file is the same for any number
    #[arg(long, short, env = "WF_THREADS", value_name = "N",
          value_parser = crate::args::parse_threads)]
    pub(crate) threads: Option<usize>,

    /// Print one JSON object
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) file: FileArgs,
}

/// Kinds of files to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// One .gguf file
    Gguf,
    /// A directory for transformers, packed
    Safetensors,
    /// One .bin, with the tokenizer's files beside it
    Sglbitnt,
    /// One .wf, our own: trits as they are computed with, checksums, tokenizer and all
    Wf,
}

/// Encodings of trits by the names that flags have for them.
const ENCODINGS: [(&str, TernaryEncoding); 8] = [
    ("i2_s", TernaryEncoding::I2s(I2sOrder::Groups128)),
    ("tq1_0", TernaryEncoding::Tq1_0),
    ("tq2_0", TernaryEncoding::Tq2_0),
    ("q2_0", TernaryEncoding::Q2_0 { group_len: 64 }),
    ("q2_0_g128", TernaryEncoding::Q2_0 { group_len: 128 }),
    ("iq2_bn", TernaryEncoding::Iq2Bn),
    ("iq1_bn", TernaryEncoding::Iq1Bn),
    ("iq2_bn_r4", TernaryEncoding::Iq2BnR4),
];

/// Encodings of the head by the names that flags have for them.
const HEADS: [(&str, FloatEncoding); 6] = [
    ("f32", FloatEncoding::F32),
    ("f16", FloatEncoding::F16),
    ("bf16", FloatEncoding::Bf16),
    ("q8_0", FloatEncoding::Q8_0),
    ("q6_k", FloatEncoding::Q6K),
    ("q4_0", FloatEncoding::Q4_0),
];

fn parse_encoding(name: &str) -> Result<TernaryEncoding, String> {
    by_name(&ENCODINGS, name)
}

fn parse_head(name: &str) -> Result<FloatEncoding, String> {
    by_name(&HEADS, name)
}

fn by_name<T: Copy>(table: &[(&str, T)], name: &str) -> Result<T, String> {
    let found = table.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|(known, _)| *known).collect();
        format!("use one of {}", names.join(", "))
    })
}

fn parse_group(text: &str) -> Result<usize, String> {
    let len = text.parse().ok().filter(|&len: &usize| len >= 16 && len.is_multiple_of(16));
    len.ok_or_else(|| "a multiple of 16 is needed, for example 64, 128 or 256".to_owned())
}
