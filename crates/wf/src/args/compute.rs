//! What a model is read as and computed on: flags that every command with a model shares.

use clap::Args as ClapArgs;
use wf_formats::Activation;
use wf_formats::encoding::I2sOrder;
use wf_model::{CpuList, HeadMode, Isa, KvDtype, Layout, SparseMode};

use super::numbers::{parse_count, parse_threads, parse_whole};

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

    /// Block diffusion: the number of the mask token; normally taken from the file
    #[arg(long, env = "WF_MASK_TOKEN", value_name = "ID", value_parser = parse_whole::<u32>)]
    pub(crate) mask_token: Option<u32>,

    /// Block diffusion: which token the scores of a row are of, next (row p tells of p + 1) or own;
    /// normally taken from the file
    #[arg(long, env = "WF_ROWS_SCORE", value_name = "TOKEN", value_parser = ["next", "own"])]
    pub(crate) rows_score: Option<String>,

    /// Block diffusion: what finished text sees, causal (what is before it) or block (its whole block);
    /// normally taken from the file
    #[arg(long, env = "WF_BLOCK_CONTEXT", value_name = "KIND", value_parser = ["causal", "block"])]
    pub(crate) block_context: Option<String>,
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
