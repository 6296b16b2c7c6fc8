//! Loads the network of a model file: options, instruction set, memory for the K/V cache.

use std::path::{Path, PathBuf};

use wf_core::{ActivationCodes, AttentionMode, Network};
use wf_formats::{ModelFile, OpenOptions};
use wf_model::{
    Compute, CpuList, HeadMode, Isa, KvDtype, KvPool, Layout, LoadError, LoadProgress, Model,
    ModelOptions, PAGE_LEN, SparseMode, unavailable_reason,
};

use crate::activation_sparsity::ActivationSparsity;
use crate::block_overrides::BlockOverrides;
use crate::error::OpenError;
use crate::model_text::file_name;
use crate::options::DiskCacheOptions;
use crate::prefix::window_pages;

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
    /// Threads that another model runs on, to be shared with it; new ones if absent.
    pub compute: Option<Compute>,
    /// CPU of each thread; chosen by the system if absent.
    pub cpus: Option<CpuList>,
    /// Layout of trits in memory; the faster one on this machine if absent.
    pub layout: Option<Layout>,
    /// Type of K and V in the cache.
    pub kv: KvDtype,
    /// Positions that attention reads.
    pub attention: AttentionMode,
    /// Codes of the inputs of ternary products; those the model was made for if absent.
    pub activations: Option<ActivationCodes>,
    /// Activations that are set to zero before they are multiplied.
    pub activation_sparsity: ActivationSparsity,
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
    /// Keeps full K/V pages on disk, for later processes.
    pub disk_cache: Option<DiskCacheOptions>,
}

impl Default for RunOptions {
    /// One thread, and the best available choice for everything else.
    fn default() -> Self {
        Self {
            blocks: BlockOverrides::default(),
            open: OpenOptions::default(),
            isa: None,
            threads: 1,
            compute: None,
            cpus: None,
            layout: None,
            kv: KvDtype::default(),
            attention: AttentionMode::Dense,
            activations: None,
            activation_sparsity: ActivationSparsity::Off,
            context_len: None,
            max_batch_tokens: 256,
            head: HeadMode::Auto,
            sparse: SparseMode::Auto,
            kv_capacity: KvCapacity::default(),
            max_running: 16,
            max_waiting: 512,
            digest: false,
            disk_cache: None,
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
    let compute = Compute::chosen(options.isa, threads, options.cpus.as_ref()).map_err(|isa| {
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
    let usable = options.attention.check(file.network(), context_len);
    usable.map_err(|problem| OpenError::Model(format!("{}: {problem}", file_name(file))))?;
    let states = state_count(file.network(), options)?;
    let pages = page_count(file.network(), options, context_len, states)?;
    let compute = match &options.compute {
        Some(shared) => shared.clone(),
        None => compute(options, options.threads)?,
    };
    Ok(load_with(compute, file, options, context_len, pages, progress)?.with_states(states))
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
    // A calibration of another model is reported before anything large is read.
    let zeros = options.activation_sparsity.zeros(file);
    let zeros = zeros.map_err(|error| OpenError::Model(format!("{}: {error}", file_name(file))))?;
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
    let model = Model::load(file, compute, model_options, progress);
    let mut model = model.map_err(|error| match error {
        LoadError::File(error) => OpenError::File(error),
        error => OpenError::Model(format!("{}: {error}", file_name(file))),
    })?;
    model.set_attention(options.attention);
    if let Some(zeros) = zeros {
        model.set_zeros(&zeros);
        model.skip_columns();
    }
    Ok(model)
}

/// States that a running sequence takes, on average: its own, and a snapshot for later prompts.
const STATES_PER_SEQUENCE: usize = 2;

/// Returns the number of states for a network with recurrent layers, which are part of its K/V memory: up to half
/// of it, where it is limited. Other networks have none.
pub fn state_count(network: &Network, options: &RunOptions) -> Result<usize, OpenError> {
    let state = Model::state_bytes(network);
    if state == 0 {
        return Ok(0);
    }
    let wanted = options.max_running.saturating_mul(STATES_PER_SEQUENCE).max(1);
    let states = match options.kv_capacity {
        KvCapacity::Bytes(given) if given / 2 < state => {
            return Err(OpenError::Model(format!(
                "K/V memory is {given} bytes: must be at least {}, twice the state of a sequence",
                state.saturating_mul(2)
            )));
        }
        KvCapacity::Bytes(given) => wanted.min(given / 2 / state),
        KvCapacity::Contexts { max_bytes, .. } => {
            wanted.min(max_bytes.map_or(usize::MAX, |max| max / 2 / state)).max(1)
        }
    };
    let reserved = Vec::<u8>::new().try_reserve_exact(states.saturating_mul(state));
    reserved.map(|()| states).map_err(|_| {
        OpenError::Model(format!(
            "the states of {states} sequences need {} bytes, more than this machine can provide: run fewer \
             requests at once",
            states.saturating_mul(state)
        ))
    })
}

fn page_count(
    network: &Network,
    options: &RunOptions,
    context_len: usize,
    states: usize,
) -> Result<usize, OpenError> {
    let page = KvPool::size_for_mode(network, options.kv, 1, options.attention);
    let state_bytes = Model::state_bytes(network).saturating_mul(states);
    let left = |bytes: usize| bytes.saturating_sub(state_bytes);
    let chunk = options.max_batch_tokens.clamp(1, context_len);
    let of_window = options.attention.window().map_or(1, |window| window_pages(window, chunk));
    let pages = match options.kv_capacity {
        KvCapacity::Bytes(given) if left(given) < page => {
            return Err(OpenError::Model(format!(
                "K/V memory is {given} bytes: must be at least {}, one page of {PAGE_LEN} tokens",
                page.saturating_add(state_bytes)
            )));
        }
        KvCapacity::Bytes(given) if left(given) / page < of_window => {
            return Err(OpenError::Model(format!(
                "K/V memory is {given} bytes: must be at least {} for --attention {}, {of_window} pages of \
                 {PAGE_LEN} tokens for the window, the sinks and the {chunk} tokens of a step",
                of_window.saturating_mul(page).saturating_add(state_bytes),
                options.attention
            )));
        }
        KvCapacity::Bytes(given) => left(given) / page,
        KvCapacity::Contexts { count, max_bytes } => {
            let one = context_len.div_ceil(PAGE_LEN).max(of_window);
            let max = max_bytes.map_or(usize::MAX, |max| left(max) / page);
            one.saturating_mul(count).min(max).max(one)
        }
    };
    check_memory(network, options, pages)?;
    Ok(pages)
}

/// Checks that the system can provide the memory for that many pages.
pub(crate) fn check_memory(
    network: &Network,
    options: &RunOptions,
    pages: usize,
) -> Result<(), OpenError> {
    let size_bytes = KvPool::size_for_mode(network, options.kv, pages, options.attention);
    let reserved = Vec::<u8>::new().try_reserve_exact(size_bytes);
    reserved.map_err(|_| {
        OpenError::Model(format!(
            "the K/V cache of {} tokens needs {size_bytes} bytes, more than this machine can provide: \
             use a shorter context or less K/V memory",
            pages * PAGE_LEN
        ))
    })
}
