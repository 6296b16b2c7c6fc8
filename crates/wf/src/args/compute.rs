//! Flags about reading and running a model.

use clap::Args as ClapArgs;
use wf_core::{Activation, ActivationCodes, AttentionMode};
use wf_engine::{ActivationSparsity, BlockOverrides, RunOptions};
use wf_formats::OpenOptions;
use wf_formats::encoding::I2sOrder;
use wf_model::{CpuList, HeadMode, Isa, KvDtype, Layout, SparseMode};

use super::numbers::{parse_count, parse_threads, parse_whole};
use crate::cpu;

/// Heading of the flags that choose kernels, threads and arithmetic.
const COMPUTE: &str =
    "Compute (only --kv, --attention, --activations and --activation-sparsity change results)";

/// Properties that a model file may lack.
#[derive(ClapArgs)]
#[command(next_help_heading = "Model file")]
pub(crate) struct FileArgs {
    /// Byte order of I2_S tensors: 128 (all published files), 64 (made on Arm) or 4row
    #[arg(long, value_name = "ORDER")]
    pub(crate) i2s_order: Option<I2sOrder>,

    /// Activation of the feed-forward network: relu2 or silu [default: that of the file]
    #[arg(long, value_name = "NAME", value_parser = parse_activation)]
    pub(crate) activation: Option<Activation>,

    /// Block diffusion: id of the mask token [default: that of the file]
    #[arg(long, value_name = "ID", value_parser = parse_whole::<u32>)]
    pub(crate) mask_token: Option<u32>,

    /// Block diffusion: token that the logits of a row predict, next (position p + 1) or own (p)
    /// [default: that of the file]
    #[arg(long, value_name = "TOKEN", value_parser = ["next", "own"])]
    pub(crate) rows_score: Option<String>,

    /// Block diffusion: attention within finished text, causal or block [default: that of the file]
    #[arg(long, value_name = "KIND", value_parser = ["causal", "block"])]
    pub(crate) block_context: Option<String>,
}

#[derive(ClapArgs)]
#[command(next_help_heading = "Output head (costs are those of a 16-bit head)")]
pub(crate) struct HeadArgs {
    /// Computation of logits; see --help
    ///
    /// auto   scan4 if the head is larger than 32 MB, else full
    /// full   reads every row for every token: 1 byte per byte of the head, no extra memory
    /// scan   reads an int8 copy and the rows of tokens that could be sampled: 0.5 bytes, 0.5
    ///        more memory, provably the same tokens as full. Logprobs, and --top-k above 1024,
    ///        read every row
    /// scan4  like scan, with another copy of four bits, which is read first: 0.25 bytes
    ///        (with top-p 0.5), 0.75 more memory. The same tokens as full but for a chance of
    ///        10^-16 per token
    /// int8   takes all logits from the int8 copy: 0.5 bytes for any sampling, 0.5 more
    ///        memory. Not the logits of full: perplexity rises by 0.06 %, as published for
    ///        BitNet b1.58 2B4T
    /// check  runs full, scan and scan4 for every token, fails if they differ, and reports
    ///        how much they read. Slow, for debugging
    #[arg(long, value_name = "MODE", default_value = "auto", verbatim_doc_comment)]
    pub(crate) head: HeadMode,

    /// Skip weights that squared ReLU multiplies by zero: on, off, or auto (in layers where it is
    /// faster). The same tokens, for up to half of the layers' memory more
    #[arg(
        long,
        value_name = "MODE",
        default_value = "auto",
        help_heading = COMPUTE
    )]
    pub(crate) sparse: SparseMode,
}

#[derive(ClapArgs)]
#[command(next_help_heading = "Output head")]
struct FullHeadArgs {
    /// Computation of logits: full, or int8 (from an 8-bit copy of the head: half the bytes of a
    /// 16-bit head, not the same logits)
    #[arg(long, value_name = "MODE", default_value = "full", value_parser = parse_full_head)]
    head: HeadMode,
}

/// The kernels and threads to run on, which change no result.
#[derive(ClapArgs)]
#[command(next_help_heading = COMPUTE)]
pub(crate) struct MachineArgs {
    /// Number of threads [default: all cores, or OMP_NUM_THREADS if it is less]
    #[arg(long, short, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,

    /// CPUs to run on, one thread each, for example 0-3,8 [default: chosen by the
    /// system; on machines with several NUMA nodes, threads are divided over the nodes]
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,

    #[arg(long, value_name = "NAME", help = isa_help())]
    pub(crate) isa: Option<Isa>,

    /// Layout of trits in memory: quad-lines (2 bits each) or five-trits (1.6 bits) [default: the
    /// faster one on this machine]
    #[arg(long, value_name = "NAME", value_parser = parse_layout)]
    pub(crate) layout: Option<Layout>,
}

#[derive(ClapArgs)]
#[command(next_help_heading = COMPUTE)]
pub(crate) struct ComputeArgs {
    #[command(flatten)]
    pub(crate) machine: MachineArgs,

    /// Type of the K/V cache: f32, bf16, f16, fp8-e4m3, fp8-e5m2 or int8
    #[arg(long, value_name = "TYPE", default_value_t)]
    pub(crate) kv: KvDtype,

    /// Positions that attention reads: dense, topk=K, threshold=E, dynamic=P or window=N,sinks=M; see --help
    ///
    /// dense        all of them
    /// topk=K       K pages of 32 positions: the newest, and those whose keys could match best
    /// threshold=E  all pages but some that together hold at most the share E of the softmax
    ///              mass, by proof
    /// dynamic=P    the newest pages, and for each head as many as hold the share P of the mass
    ///              that their bounds allow
    /// window=N,sinks=M
    ///              the newest N positions and the first M (4 if not given): older ones leave the
    ///              K/V cache, and a text may be longer than the context (up to 1,048,576 tokens)
    #[arg(long, value_name = "MODE", default_value_t, verbatim_doc_comment)]
    pub(crate) attention: AttentionMode,

    /// Codes of activations: int8 (one scale per token), int8-group (one per 128 columns), int16 (close to
    /// floats, prompts take twice as long) or f32 (no codes: the reference, very slow) [default: int8 for
    /// models trained with it, int16 for those trained with ternary weights only]
    #[arg(long, value_name = "CODES", value_parser = parse_activation_codes)]
    pub(crate) activations: Option<ActivationCodes>,

    /// Activations that are set to zero and not multiplied: off, topk=F, threshold=FILE or
    /// adaptive=FILE; see --help
    ///
    /// off             none
    /// topk=F          all but the largest share F of each row, 0.05 to 1
    /// threshold=FILE  those of magnitudes up to a limit, for each layer and projection
    /// adaptive=FILE   all but a share of each row, for each layer and projection
    ///
    /// FILE is a calibration of the model, which `wf eval sparsity --calibrate TEXT` writes
    /// together with speed and perplexity. Takes up to as much memory again as the layers
    #[arg(long, value_name = "MODE", default_value_t, verbatim_doc_comment)]
    pub(crate) activation_sparsity: ActivationSparsity,

    /// Maximum number of tokens of prompt and response together [default: that of the model]
    #[arg(long, alias = "context-len", value_name = "TOKENS", value_parser = parse_count)]
    pub(crate) context: Option<usize>,

    /// Number of prompt tokens computed together
    #[arg(long, value_name = "TOKENS", default_value = "256", value_parser = parse_count)]
    pub(crate) chunk: usize,
}

impl FileArgs {
    pub(crate) fn options(&self) -> OpenOptions {
        OpenOptions {
            i2s_order: self.i2s_order,
            activation: self.activation,
            ..OpenOptions::default()
        }
    }
}

impl MachineArgs {
    /// Returns options that compute all logits.
    pub(crate) fn options(&self, file: &FileArgs) -> RunOptions {
        RunOptions {
            open: file.options(),
            blocks: BlockOverrides {
                mask_token: file.mask_token,
                token_shift: file.rows_score.as_deref().map(|token| token == "next"),
                causal_context: file.block_context.as_deref().map(|kind| kind == "causal"),
            },
            isa: self.isa,
            threads: self.threads.unwrap_or_else(|| match &self.cpus {
                Some(cpus) => cpus.cpus().len(),
                None => cpu::default_threads(),
            }),
            cpus: self.cpus.clone(),
            layout: self.layout,
            head: HeadMode::Full,
            sparse: SparseMode::Off,
            ..RunOptions::default()
        }
    }
}

impl ComputeArgs {
    pub(crate) fn options(&self, file: &FileArgs) -> RunOptions {
        RunOptions {
            kv: self.kv,
            attention: self.attention,
            activations: self.activations,
            activation_sparsity: self.activation_sparsity.clone(),
            context_len: self.context,
            max_batch_tokens: self.chunk,
            ..self.machine.options(file)
        }
    }
}

/// Everything about running a model that generates tokens.
#[derive(ClapArgs)]
pub(crate) struct EngineArgs {
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    #[command(flatten)]
    pub(crate) head: HeadArgs,
    #[command(flatten)]
    file: FileArgs,
}

impl EngineArgs {
    pub(crate) fn options(&self) -> RunOptions {
        let HeadArgs { head, sparse } = self.head;
        RunOptions { head, sparse, ..self.compute.options(&self.file) }
    }
}

/// Everything about running a model that computes the logits of all tokens.
#[derive(ClapArgs)]
pub(crate) struct ScoringArgs {
    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    head: FullHeadArgs,
    #[command(flatten)]
    file: FileArgs,
}

impl ScoringArgs {
    pub(crate) fn options(&self) -> RunOptions {
        RunOptions { head: self.head.head, ..self.compute.options(&self.file) }
    }
}

fn parse_activation(name: &str) -> Result<Activation, String> {
    [Activation::Relu2, Activation::Silu]
        .into_iter()
        .find(|activation| activation.key() == name)
        .ok_or_else(|| "must be relu2 or silu".to_owned())
}

fn parse_activation_codes(name: &str) -> Result<ActivationCodes, String> {
    let [others @ .., last] = ActivationCodes::ALL.map(ActivationCodes::key);
    ActivationCodes::from_key(name)
        .ok_or_else(|| format!("must be {} or {last}", others.join(", ")))
}

fn parse_full_head(name: &str) -> Result<HeadMode, String> {
    match name.parse() {
        Ok(mode @ (HeadMode::Full | HeadMode::Int8)) => Ok(mode),
        // WF_HEAD may be set to this for other commands, where it reads every row for all logits.
        Ok(HeadMode::Auto) => Ok(HeadMode::Full),
        _ => Err("must be full or int8, because this command needs all logits".to_owned()),
    }
}

fn isa_help() -> String {
    let names = Isa::ALL.map(Isa::name);
    let (last, others) = names.split_last().expect("there are instruction sets");
    let others = others.join(", ");
    format!("Instruction set: {others} or {last} [default: the best this CPU supports]")
}

fn parse_layout(name: &str) -> Result<Layout, String> {
    let found = Layout::ALL.into_iter().find(|layout| layout.name() == name);
    found.ok_or_else(|| format!("must be {}", Layout::ALL.map(Layout::name).join(" or ")))
}
