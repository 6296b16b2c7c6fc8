//! Opens a model: file, text side, network, draft model, engine thread.

use std::sync::Arc;
use std::thread;

use wf_formats::{GenerationDefaults, ModelInfo};
use wf_model::{HeadCounts, Isa, LoadProgress};

use crate::error::OpenError;
use crate::frontend::Frontend;
use crate::handle::{EngineHandle, EngineOptions};
use crate::load::{ModelSource, RunOptions, load_model};
use crate::model_text::read_text;
use crate::open_draft::DraftFile;

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
    /// Facts about the model that are not part of its network.
    pub info: ModelInfo,
    /// Sampling defaults that the model declares.
    pub generation_defaults: GenerationDefaults,
    /// Digest of the model's bytes, if requested.
    pub digest: Option<String>,
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
    let blocks = options.blocks.apply(blocks, &text.tokenizer, vocab_len)?;
    // Mismatches are reported before anything large is read.
    let draft = draft.map(|draft| DraftFile::open(draft, &text.tokenizer, options)).transpose()?;
    // Both read the whole file: at the same time, each byte is fetched only once.
    let (model, digest) = thread::scope(|scope| {
        let digest = options.digest.then(|| scope.spawn(|| file.digest()));
        let model = load_model(&file, options, progress);
        (model, digest.and_then(|thread| thread.join().ok()))
    });
    let model = model?;
    let draft = draft.map(|draft| draft.load(&model, options, progress)).transpose()?;
    let (isa, threads) = (model.compute().isa(), model.compute().threads());
    let head_counts = model.head_counts();
    let engine_options = EngineOptions {
        context_len: options.context_len,
        max_running: options.max_running,
        max_waiting: options.max_waiting,
        blocks,
    };
    let engine = EngineHandle::start_with_draft(model, draft, engine_options);
    let engine = engine.map_err(OpenError::Thread)?;
    Ok(OpenedModel {
        frontend: Frontend::new(text, engine),
        isa,
        threads,
        head_counts,
        info: ModelInfo { block_diffusion: blocks, ..file.info().clone() },
        generation_defaults: file.generation_defaults(),
        digest,
    })
}
