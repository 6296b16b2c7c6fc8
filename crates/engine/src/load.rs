//! Loads the network of a model file: options, instruction set, memory for the K/V cache.

use std::path::{Path, PathBuf};

use wf_core::{ActivationCodes, Network};
use wf_formats::{ModelFile, OpenOptions};
use wf_model::{
    Compute, CpuList, HeadMode, Isa, KvDtype, KvPool, Layout, LoadError, LoadProgress, Model,
    ModelOptions, PAGE_LEN, SparseMode, unavailable_reason,
};

use crate::block_overrides::BlockOverrides;
use crate::error::OpenError;
use crate::model_text::file_name;

/// Location of a model.
#[derive(Clone, Debug)]
pub enum ModelSource {
    /// A file or a Hugging Face directory.
    Path(PathBuf),
    /// A GGUF file inside the binary.
    Embedded {
        /// Name in messages.
        name: &'static str,
        /// Contents of the file.
        bytes: &'static [u8],
    },
}

impl ModelSource {
    /// Opens the file and checks its structure. No weight is read yet.
    pub fn open(&self, options: &OpenOptions) -> Result<ModelFile, wf_formats::Error> {
        match self {
            Self::Path(path) => ModelFile::open(path, options),
            Self::Embedded { name, bytes } => ModelFile::from_bytes(name, bytes, options),
        }
    }
}

impl From<&Path> for ModelSource {
    fn from(path: &Path) -> Self {
        Self::Path(path.to_owned())
    }
}

/// Options of running a model.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Overrides of the file's block layout.
    pub blocks: BlockOverrides,
    /// Facts that the file does not state.
    pub open: OpenOptions,
    /// Instruction set; the best available one if absent.
    pub isa: Option<Isa>,
    /// Number of threads, including the caller's.
    pub threads: usize,
    /// CPU of each thread; chosen by the system if absent.
    pub cpus: Option<CpuList>,
    /// Layout of trits in memory; the faster one on this machine if absent.
    pub layout: Option<Layout>,
    /// Type of K and V in the cache.
    pub kv: KvDtype,
    /// Codes of the inputs of ternary products; those the model was made for if absent.
    pub activations: Option<ActivationCodes>,
    /// Maximum number of tokens of prompt and completion; the model's own limit if absent.
    pub context_len: Option<usize>,
    /// Maximum number of tokens of a step: longer prompts are processed in chunks.
    pub max_batch_tokens: usize,
    /// Algorithm of the output head.
    pub head: HeadMode,
    /// Skipping of the zeros of squared ReLU.
    pub sparse: SparseMode,
    /// Size of the K/V cache.
    pub kv_capacity: KvCapacity,
    /// Maximum number of requests that run at once; others wait.
    pub max_running: usize,
    /// Maximum number of waiting requests; more are rejected.
    pub max_waiting: usize,
    /// Computes the digest of the model's bytes.
    pub digest: bool,
}

impl Default for RunOptions {
    /// One thread, and the best available choice for everything else.
    fn default() -> Self {
        Self {
            blocks: BlockOverrides::default(),
            open: OpenOptions::default(),
            isa: None,
            threads: 1,
            cpus: None,
            layout: None,
            kv: KvDtype::default(),
            activations: None,
            context_len: None,
            max_batch_tokens: 256,
            head: HeadMode::Auto,
            sparse: SparseMode::Auto,
            kv_capacity: KvCapacity::default(),
            max_running: 16,
            max_waiting: 512,
            digest: false,
        }
    }
}

/// Size of the K/V cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvCapacity {
    /// As many tokens as fit into these bytes.
    Bytes(usize),
    /// A number of full contexts, limited by `max_bytes` but at least one.
    Contexts {
        /// Number of contexts.
        count: usize,
        /// Maximum size in bytes.
        max_bytes: Option<usize>,
    },
}

impl Default for KvCapacity {
    /// One context.
    fn default() -> Self {
        Self::Contexts { count: 1, max_bytes: None }
    }
}

/// Returns the compute resources that `options` select, with `threads` threads.
pub fn compute(options: &RunOptions, threads: usize) -> Result<Compute, OpenError> {
    let compute = Compute::chosen(options.isa, threads, options.cpus.clone()).map_err(|isa| {
        let names: Vec<_> = Compute::supported().map(|isa| isa.to_string()).collect();
        let reason = unavailable_reason(isa).unwrap_or("this CPU does not have it");
        OpenError::Model(format!(
            "instruction set {isa} is not available: {reason}; available are {}",
            names.join(", ")
        ))
    })?;
    Ok(match options.layout {
        Some(layout) => compute.with_layout(layout),
        None => compute,
    })
}

/// Loads the network of an opened file.
pub fn load_model(
    file: &ModelFile,
    options: &RunOptions,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<Model, OpenError> {
    let max = file.info().context_len;
    let context_len = options.context_len.unwrap_or(max);
    if context_len < 2 || context_len > max {
        return Err(OpenError::Model(format!(
            "context length is {context_len}: must be between 2 and {max} tokens for this model"
        )));
    }
    let pages = page_count(file.network(), options, context_len)?;
    load_with(compute(options, options.threads)?, file, options, context_len, pages, progress)
}

/// Loads a network onto given compute resources, with `pages` K/V pages for contexts of `context_len`.
pub(crate) fn load_with(
    compute: Compute,
    file: &ModelFile,
    options: &RunOptions,
    context_len: usize,
    pages: usize,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<Model, OpenError> {
    let model_options = ModelOptions {
        kv: options.kv,
        pages,
        // No step has more tokens than the pages hold.
        max_batch_tokens: options.max_batch_tokens.clamp(1, context_len),
        head: options.head,
        sparse: options.sparse,
        context_len: Some(context_len),
        activations: options.activations,
    };
    Model::load(file, compute, model_options, progress).map_err(|error| match error {
        LoadError::File(error) => OpenError::File(error),
        error => OpenError::Model(format!("{}: {error}", file_name(file))),
    })
}

fn page_count(
    network: &Network,
    options: &RunOptions,
    context_len: usize,
) -> Result<usize, OpenError> {
    let page = KvPool::size_bytes(network, options.kv, 1);
    let pages = match options.kv_capacity {
        KvCapacity::Bytes(given) if given < page => {
            return Err(OpenError::Model(format!(
                "K/V memory is {given} bytes: must be at least {page}, one page of {PAGE_LEN} tokens"
            )));
        }
        KvCapacity::Bytes(given) => given / page,
        KvCapacity::Contexts { count, max_bytes } => {
            let one = context_len.div_ceil(PAGE_LEN);
            one.saturating_mul(count).min(max_bytes.map_or(usize::MAX, |max| max / page)).max(one)
        }
    };
    check_memory(network, options.kv, pages)?;
    Ok(pages)
}

/// Checks that the system can provide the memory for that many pages.
pub(crate) fn check_memory(network: &Network, kv: KvDtype, pages: usize) -> Result<(), OpenError> {
    let size_bytes = KvPool::size_bytes(network, kv, pages);
    let reserved = Vec::<u8>::new().try_reserve_exact(size_bytes);
    reserved.map_err(|_| {
        OpenError::Model(format!(
            "the K/V cache of {} tokens needs {size_bytes} bytes, more than this machine can provide: \
             use a shorter context or less K/V memory",
            pages * PAGE_LEN
        ))
    })
}
