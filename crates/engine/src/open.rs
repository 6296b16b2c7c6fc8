//! Opens a model: file, text side, network, draft model, engine thread.

use std::sync::Arc;
use std::thread;

use wf_core::AttentionMode;
use wf_formats::{FormatSummary, GenerationDefaults, ModelFile, ModelInfo};
use wf_model::{
    BlockDiffusion, Forward, HeadCounts, HeadMode, Isa, KvPool, LoadProgress, Model, TokenId,
};
use wf_text::Tokenizer;

use crate::activation_sparsity::ActivationSparsity;
use crate::disk::{DiskCache, PageKey};
use crate::error::OpenError;
use crate::frontend::Frontend;
use crate::handle::EngineHandle;
use crate::load::{ModelSource, RunOptions, check_memory, load_model, load_with};
use crate::model_text::{file_name, read_text};
use crate::options::EngineOptions;

/// A model that is ready for requests.
pub struct OpenedModel {
    /// Generates text and embeddings.
    pub frontend: Frontend,
    /// Instruction set in use.
    pub isa: Isa,
    /// Number of threads in use.
    pub threads: usize,
    /// Live counters of the output head's scans, by name.
    pub head_counts: Vec<(&'static str, Arc<HeadCounts>)>,
    /// Container of the model, and its files.
    pub format: FormatSummary,
    /// Facts about the model that are not part of its network.
    pub info: ModelInfo,
    /// Sampling defaults that the model declares.
    pub generation_defaults: GenerationDefaults,
    /// Digest of the model's bytes, if requested.
    pub digest: Option<String>,
    /// Memory of weights, K/V cache and states in bytes, without those of a draft model.
    pub memory_bytes: usize,
}

/// Opens, loads and starts a model.
pub fn open_model(
    source: &ModelSource,
    options: &RunOptions,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<OpenedModel, OpenError> {
    open_with_draft(source, None, options, progress)
}

/// Opens, loads and starts a model together with a draft model.
pub fn open_with_draft(
    source: &ModelSource,
    draft: Option<&ModelSource>,
    options: &RunOptions,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<OpenedModel, OpenError> {
    let file = source.open(&options.open)?;
    let text = read_text(&file)?;
    let (blocks, vocab_len) = (file.info().block_diffusion, file.network().vocab_len);
    let blocks = options.blocks.apply(blocks, &text.tokenizer, vocab_len);
    let blocks = blocks.map_err(|error| OpenError::Model(error.to_string()))?;
    // Mismatches are reported before anything large is read.
    let draft = draft.map(|draft| open_draft(draft, &text.tokenizer, options)).transpose()?;
    // Both read the whole file: at the same time, each byte is fetched only once.
    let (model, digest) = thread::scope(|scope| {
        let is_needed = options.digest || options.disk_cache.is_some();
        let digest = is_needed.then(|| scope.spawn(|| file.digest()));
        let model = load_model(&file, options, progress);
        (model, digest.and_then(|thread| thread.join().ok()))
    });
    let model = model?;
    let draft = draft.map(|file| load_draft(&file, &model, options, progress)).transpose()?;
    let (isa, threads) = (model.compute().isa(), model.compute().threads());
    let head_counts = model.head_counts();
    let (kv, attention) = (options.kv, options.attention);
    let kv_bytes = KvPool::size_for_mode(file.network(), kv, model.pages(), attention);
    let state_bytes = Model::state_bytes(file.network()).saturating_mul(model.states());
    let state_bytes = state_bytes.saturating_add(Model::draft_bytes(file.network()));
    let memory_bytes = model.size_bytes().saturating_add(kv_bytes).saturating_add(state_bytes);
    let engine_options = EngineOptions {
        context_len: options.context_len,
        max_running: options.max_running,
        max_waiting: options.max_waiting,
        blocks,
    };
    let disk = open_disk_cache(&file, digest.as_deref(), &model, options)?;
    let engine = EngineHandle::start_with_disk(model, draft, disk, engine_options);
    let engine = engine
        .map_err(|error| OpenError::Model(format!("cannot start the engine thread: {error}")))?;
    Ok(OpenedModel {
        frontend: Frontend::new(text, engine),
        isa,
        threads,
        head_counts,
        format: file.format().clone(),
        info: ModelInfo { block_diffusion: blocks, ..file.info().clone() },
        generation_defaults: file.generation_defaults(),
        digest,
        memory_bytes,
    })
}

/// Opens the prefix cache on disk, if there is one.
fn open_disk_cache(
    file: &ModelFile,
    digest: Option<&str>,
    model: &Model,
    options: &RunOptions,
) -> Result<Option<DiskCache>, OpenError> {
    let (Some(cache), Some(digest)) = (&options.disk_cache, digest) else { return Ok(None) };
    if file.network().is_recurrent() {
        let problem = "the model has recurrent layers, whose states are not in the pages of a prefix cache on disk";
        return Err(OpenError::Model(format!("{}: {problem}", file_name(file))));
    }
    let root = PageKey::of_model(digest, file, options);
    let opened = DiskCache::open(cache, root, model.page_size_bytes());
    let fault = |error| format!("cannot use {} for the prefix cache: {error}", cache.dir.display());
    opened.map(Some).map_err(|error| OpenError::Model(fault(error)))
}

/// Opens the file of a draft model for a model with this tokenizer. No weight is read yet.
fn open_draft(
    source: &ModelSource,
    tokenizer: &Tokenizer,
    options: &RunOptions,
) -> Result<ModelFile, OpenError> {
    let file = source.open(&options.open)?;
    let reject = |reason: &str| {
        let name = file_name(&file);
        Err(OpenError::Model(format!("{name}: cannot be used as a draft model: {reason}")))
    };
    let own = read_text(&file)?.tokenizer;
    let differs = |&token: &TokenId| own.token_text(token) != tokenizer.token_text(token);
    let first_difference = (0..own.len().max(tokenizer.len()) as TokenId).find(differs);
    if let Some(token) = first_difference {
        let text = |of: &Tokenizer| match of.token_text(token) {
            Some(text) => format!("{text:?}"),
            None => "absent".to_owned(),
        };
        return reject(&format!(
            "token {token} is {} in its tokenizer, but {} in that of the model: the tokenizers must be equal",
            text(&own),
            text(tokenizer)
        ));
    }
    if file.network().is_recurrent() {
        return reject(
            "it has recurrent layers, whose states cannot be wound back when its tokens are rejected",
        );
    }
    if let Some(BlockDiffusion { token_shift: false, .. }) = file.info().block_diffusion {
        return reject("its logits predict the token in place, not the next one");
    }
    Ok(file)
}

/// Loads a draft model onto the threads of `model`, with a K/V cache for as many tokens.
fn load_draft(
    file: &ModelFile,
    model: &Model,
    options: &RunOptions,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<Box<dyn Forward>, OpenError> {
    let pages = model.pages();
    check_memory(file.network(), options, pages)?;
    let context_len = file.info().context_len.min(model.info().context_len);
    // Checking the head concerns the model's own tokens; drafts are verified anyway.
    let head = if options.head == HeadMode::Check { HeadMode::Auto } else { options.head };
    let mut options = RunOptions { head, ..options.clone() };
    if options.attention.check(file.network(), context_len).is_err() {
        // It drafts up to its own context.
        options.attention = AttentionMode::Dense;
    }
    // Drafts are cheap already, and calibrations are for the model itself.
    options.activation_sparsity = ActivationSparsity::Off;
    let compute = model.compute().clone();
    Ok(Box::new(load_with(compute, file, &options, context_len, pages, progress)?))
}
