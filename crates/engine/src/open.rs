//! A path becomes a model, a tokenizer and a template.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wf_formats::{ModelFile, OpenOptions, TokenizerSource};
use wf_model::{
    Compute, CpuList, HeadCounts, HeadMode, Isa, KvDtype, KvPool, Layout, LoadError, Loading,
    Model, ModelOptions, PAGE_LEN, SparseMode, TokenId, why_missing,
};
use wf_text::{ChatMessage, ChatTemplate, GgufVocab, RenderOptions, TextError, Tokenizer};

use crate::frontend::{Frontend, FrontendError, Input};
use crate::handle::{EngineHandle, EngineOptions};

/// Where a model comes from.
#[derive(Clone, Debug)]
pub enum ModelSource {
    /// A file or a Hugging Face directory.
    Path(PathBuf),
    /// A GGUF file inside the binary.
    Embedded {
        /// What to call it in messages.
        name: &'static str,
        /// The file.
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

/// How to run a model.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// What the file cannot tell.
    pub open: OpenOptions,
    /// The instruction set; the best one if there is none.
    pub isa: Option<Isa>,
    /// Threads, the caller's among them.
    pub threads: usize,
    /// A CPU for each thread; the system places them if there is no list.
    pub cpus: Option<CpuList>,
    /// How trits lie in memory; what this machine reads faster if there is none.
    pub layout: Option<Layout>,
    /// How K and V are stored.
    pub kv: KvDtype,
    /// The most tokens of prompt and reply; the model's own limit if there is none.
    pub context_len: Option<usize>,
    /// The most tokens of one step: long prompts are read in chunks of this many.
    pub max_batch_tokens: usize,
    /// How hidden states become scores.
    pub head: HeadMode,
    /// Whether the zeros of squared ReLU are skipped.
    pub sparse: SparseMode,
}

impl Default for RunOptions {
    /// One thread, and whatever else is the best.
    fn default() -> Self {
        Self {
            open: OpenOptions::default(),
            isa: None,
            threads: 1,
            cpus: None,
            layout: None,
            kv: KvDtype::F32,
            context_len: None,
            max_batch_tokens: 256,
            head: HeadMode::Auto,
            sparse: SparseMode::Auto,
        }
    }
}

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file was refused.
    #[error(transparent)]
    File(#[from] wf_formats::Error),
    /// Its weights were refused.
    #[error("{file}: {source}")]
    Load {
        /// The model's file.
        file: String,
        /// What is wrong with them.
        source: LoadError,
    },
    /// Its tokenizer or template was refused.
    #[error("{file}: {source}")]
    Text {
        /// The model's file.
        file: String,
        /// What is wrong with it.
        source: TextError,
    },
    /// There is no tokenizer.
    #[error("{file}: no tokenizer: looked for {looked}")]
    NoTokenizer {
        /// The model's file.
        file: String,
        /// Where it was looked for.
        looked: String,
    },
    /// The tokenizer and the weights do not belong together.
    #[error("{file}: the tokenizer has {tokens} tokens, the embedding only {rows} rows")]
    TokenizerTooLarge {
        /// The model's file.
        file: String,
        /// Tokens of the tokenizer.
        tokens: usize,
        /// Rows of the embedding.
        rows: usize,
    },
    /// The CPU lacks the instruction set asked for.
    #[error("no {wanted} here: {why}; allowed are {supported}")]
    NoSuchIsa {
        /// What was asked for.
        wanted: Isa,
        /// Why not.
        why: &'static str,
        /// What there is.
        supported: String,
    },
    /// A context that the model was not made for.
    #[error("a context of {wanted} was asked for: this model allows 2 to {allowed} tokens")]
    Context {
        /// What was asked for.
        wanted: usize,
        /// The model's own limit.
        allowed: usize,
    },
    /// The system does not give the memory for keys and values.
    #[error(
        "a context of {context_len} tokens takes {size_bytes} bytes of keys and values, more than \
         this machine gives: ask for a shorter context"
    )]
    NoMemory {
        /// Tokens of the context.
        context_len: usize,
        /// Bytes of its keys and values.
        size_bytes: usize,
    },
    /// No thread could be started.
    #[error("starting the engine thread: {0}")]
    Thread(std::io::Error),
}

/// A model's text side: everything between strings and token numbers.
pub struct ModelText {
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its chat template, if it has one.
    pub template: Option<ChatTemplate>,
    /// Tokens that end a reply.
    pub end_tokens: Vec<TokenId>,
    /// What goes before a raw prompt.
    pub prompt_prefix: Vec<TokenId>,
    bos_text: Option<String>,
    eos_text: Option<String>,
}

impl ModelText {
    /// The token numbers of a prompt.
    pub fn prompt_ids(&self, input: &Input) -> Result<Vec<TokenId>, FrontendError> {
        let after_prefix = |ids: Vec<TokenId>| [&self.prompt_prefix[..], &ids].concat();
        match input {
            Input::Ids(ids) => Ok(ids.clone()),
            Input::Raw(text) => Ok(after_prefix(self.tokenizer.encode(text))),
            Input::RawWithSpecials(text) => {
                Ok(after_prefix(self.tokenizer.encode_with_specials(text)))
            }
            Input::Chat(messages) => {
                let template = self.template.as_ref().ok_or(FrontendError::NoTemplate)?;
                let prompt = template.render(messages, &self.render_options())?;
                Ok(self.tokenizer.encode_prompt(&prompt))
            }
        }
    }

    fn render_options(&self) -> RenderOptions {
        RenderOptions {
            add_generation_prompt: true,
            bos_token: self.bos_text.clone(),
            eos_token: self.eos_text.clone(),
            specials: self.tokenizer.special_texts().clone(),
            ..RenderOptions::default()
        }
    }

    /// What goes before a raw prompt: what the tokenizer says, or else the begin token if the
    /// chat template writes it first, since then the model has never seen a text without it.
    fn find_prompt_prefix(&self, bos: Option<TokenId>) -> Vec<TokenId> {
        let prefix = self.tokenizer.prompt_prefix();
        if !prefix.is_empty() {
            return prefix.to_vec();
        }
        let (Some(bos), Some(template)) = (bos, &self.template) else { return Vec::new() };
        let message = ChatMessage::new("user", "x");
        let rendered = template.render(&[message], &self.render_options());
        match rendered.map(|prompt| self.tokenizer.encode_prompt(&prompt)) {
            Ok(ids) if ids.first() == Some(&bos) => vec![bos],
            _ => Vec::new(),
        }
    }
}

/// The text side of a model file.
pub fn read_text(file: &ModelFile) -> Result<ModelText, OpenError> {
    let named = |source| OpenError::Text { file: name(file), source };
    let tokenizer = match file.tokenizer() {
        TokenizerSource::Json(json) => Tokenizer::from_json(json),
        TokenizerSource::Gguf(v) => Tokenizer::from_gguf(GgufVocab {
            model: v.model.clone(),
            pre: v.pre.clone(),
            tokens: v.tokens.clone(),
            token_types: v.token_types.clone(),
            merges: v.merges.clone(),
            scores: v.scores.clone(),
            bos: v.bos,
            eos: v.eos,
            eot: v.eot,
            add_bos: v.add_bos,
            add_space_prefix: v.add_space_prefix,
        }),
        TokenizerSource::Missing { looked } => {
            return Err(OpenError::NoTokenizer { file: name(file), looked: looked.clone() });
        }
    }
    .map_err(named)?;
    let config = file.config();
    if tokenizer.len() > config.vocab_len {
        return Err(OpenError::TokenizerTooLarge {
            file: name(file),
            tokens: tokenizer.len(),
            rows: config.vocab_len,
        });
    }
    let name_of = |id: Option<TokenId>| tokenizer.token_text(id?).map(str::to_owned);
    let texts = file.special_token_texts();
    let mut text = ModelText {
        bos_text: texts.bos.clone().or_else(|| name_of(config.bos)),
        eos_text: texts.eos.clone().or_else(|| name_of(config.eos.last().copied())),
        template: file.chat_template().map(ChatTemplate::new).transpose().map_err(named)?,
        end_tokens: config.eos.clone(),
        prompt_prefix: Vec::new(),
        tokenizer,
    };
    let never_bos =
        matches!(file.tokenizer(), TokenizerSource::Gguf(v) if v.add_bos == Some(false));
    if !never_bos {
        text.prompt_prefix = text.find_prompt_prefix(config.bos);
    }
    Ok(text)
}

/// What to call a model in messages: its first file.
fn name(file: &ModelFile) -> String {
    file.format().files.first().map_or_else(|| "the model".to_owned(), |file| file.path.clone())
}

/// A model that is ready to answer.
pub struct OpenedModel {
    /// Takes prompts, gives text.
    pub frontend: Frontend,
    /// The instruction set in use.
    pub isa: Isa,
    /// Threads at work.
    pub threads: usize,
    /// What the scans of the output head had to do, by name. Goes on counting.
    pub head_counts: Vec<(&'static str, Arc<HeadCounts>)>,
}

/// Opens, loads and starts a model.
pub fn open_model(
    source: &ModelSource,
    options: &RunOptions,
    progress: &mut dyn FnMut(Loading),
) -> Result<OpenedModel, OpenError> {
    let file = source.open(&options.open)?;
    let text = read_text(&file)?;
    let model = load_model(&file, options, progress)?;
    let (isa, threads) = (model.compute().isa(), model.compute().threads());
    let head_counts = model.head_counts();
    let engine_options =
        EngineOptions { context_len: options.context_len, ..EngineOptions::default() };
    let engine = EngineHandle::start(model, engine_options).map_err(OpenError::Thread)?;
    Ok(OpenedModel { frontend: Frontend::new(text, engine), isa, threads, head_counts })
}

/// What `options` say to compute on, with another number of threads.
pub fn compute(options: &RunOptions, threads: usize) -> Result<Compute, OpenError> {
    let compute = match options.isa {
        None => Compute::new(threads),
        Some(isa) => Compute::with_isa(isa, threads).ok_or_else(|| {
            let names: Vec<_> = Compute::supported().map(|isa| isa.to_string()).collect();
            let why = why_missing(isa).unwrap_or("this CPU does not have it");
            OpenError::NoSuchIsa { wanted: isa, why, supported: names.join(", ") }
        })?,
    };
    let compute = match &options.cpus {
        Some(cpus) => compute.on_cpus(cpus.clone()),
        None => compute,
    };
    Ok(match options.layout {
        Some(layout) => compute.with_layout(layout),
        None => compute,
    })
}

/// Loads the network of an opened file.
pub fn load_model(
    file: &ModelFile,
    options: &RunOptions,
    progress: &mut dyn FnMut(Loading),
) -> Result<Model, OpenError> {
    let compute = compute(options, options.threads)?;
    let allowed = file.config().context_len;
    let context_len = options.context_len.unwrap_or(allowed);
    if context_len < 2 || context_len > allowed {
        return Err(OpenError::Context { wanted: context_len, allowed });
    }
    let pages = context_len.div_ceil(PAGE_LEN);
    let size_bytes = KvPool::size_bytes(file.config(), options.kv, pages);
    if Vec::<u8>::new().try_reserve_exact(size_bytes).is_err() {
        return Err(OpenError::NoMemory { context_len, size_bytes });
    }
    let model_options = ModelOptions {
        kv: options.kv,
        pages,
        // No step has more tokens than the pages hold.
        max_batch_tokens: options.max_batch_tokens.clamp(1, context_len),
        head: options.head,
        sparse: options.sparse,
    };
    Model::load(file, compute, model_options, progress).map_err(|error| match error {
        LoadError::File(error) => OpenError::File(error),
        source => OpenError::Load { file: name(file), source },
    })
}

/// A path given as a model.
impl From<&Path> for ModelSource {
    fn from(path: &Path) -> Self {
        Self::Path(path.to_owned())
    }
}
