//! A path becomes a model, a tokenizer and a template.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use serde_json::{Map, Value};
use wf_formats::{GenerationDefaults, ModelConfig, ModelFile, OpenOptions, TokenizerSource};
use wf_model::{
    Compute, CpuList, HeadCounts, HeadMode, Isa, KvDtype, KvPool, Layout, LoadError, Loading,
    Model, ModelOptions, PAGE_LEN, Pooling, SparseMode, TokenId, why_missing,
};
use wf_text::{
    ChatMessage, ChatTemplate, GgufVocab, Prompt, RenderOptions, TextError, Tokenizer, ToolFormat,
};

use crate::block_choice::BlockChoice;
use crate::decode::Unsupported;
use crate::frontend::{Frontend, FrontendError, Input};
use crate::handle::{EngineHandle, EngineOptions};
use crate::open_draft::DraftFile;

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
    /// What is known of blocks beside the file.
    pub blocks: BlockChoice,
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
    /// How many keys and values there is room for.
    pub kv_room: KvRoom,
    /// The most requests that run at once; others wait.
    pub max_running: usize,
    /// The most that wait; more are refused.
    pub max_waiting: usize,
    /// Whether to find out what the exact bytes of the model are called.
    pub digest: bool,
}

impl Default for RunOptions {
    /// One thread, and whatever else is the best.
    fn default() -> Self {
        Self {
            blocks: BlockChoice::default(),
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
            kv_room: KvRoom::default(),
            max_running: 16,
            max_waiting: 512,
            digest: false,
        }
    }
}

/// How many keys and values there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvRoom {
    /// As many as fit these bytes.
    Bytes(usize),
    /// Those of this many full contexts, or as many as fit the bytes, but of one context at least.
    Contexts {
        /// How many.
        count: usize,
        /// Bytes to stay below.
        at_most: Option<usize>,
    },
}

impl Default for KvRoom {
    /// One context.
    fn default() -> Self {
        Self::Contexts { count: 1, at_most: None }
    }
}

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Blocks that cannot be.
    #[error(transparent)]
    Blocks(#[from] Unsupported),
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
    /// A model cannot guess for another.
    #[error("{file}: this cannot be a draft model here: {why}")]
    Draft {
        /// The draft model's file.
        file: String,
        /// Why not.
        why: String,
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
        "keys and values of {tokens} tokens take {size_bytes} bytes, more than this machine gives: \
         ask for a shorter context or less memory"
    )]
    NoMemory {
        /// Tokens there would be room for.
        tokens: usize,
        /// Bytes of their keys and values.
        size_bytes: usize,
    },
    /// The memory for keys and values holds not even two tokens.
    #[error(
        "{given} bytes for keys and values are less than one page of {PAGE_LEN} tokens, which takes \
         {page} bytes"
    )]
    TooLittleMemory {
        /// Bytes allowed.
        given: usize,
        /// Bytes of a page.
        page: usize,
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
    /// The source of that template.
    pub template_source: Option<String>,
    /// Tokens that end a reply.
    pub end_tokens: Vec<TokenId>,
    /// What goes before a raw prompt.
    pub prompt_prefix: Vec<TokenId>,
    /// How its makers want embeddings to be made, where they say.
    pub pooling: Option<Pooling>,
    /// The text of its begin token.
    pub bos_text: Option<String>,
    /// The text of its end token.
    pub eos_text: Option<String>,
}

/// How a conversation is written.
#[derive(Clone, Debug)]
pub struct ChatOptions {
    /// Ends the prompt where the assistant's answer begins.
    pub add_generation_prompt: bool,
    /// Ends the prompt with the last message, open for more of it.
    pub continue_final: bool,
    /// The tools offered, each as OpenAI describes them.
    pub tools: Vec<Value>,
    /// Further variables of the template.
    pub extra: Map<String, Value>,
}

impl Default for ChatOptions {
    /// An answer to the last message.
    fn default() -> Self {
        Self {
            add_generation_prompt: true,
            continue_final: false,
            tools: Vec::new(),
            extra: Map::new(),
        }
    }
}

impl ModelText {
    /// A conversation as the model's template writes it.
    pub fn chat_prompt(
        &self,
        messages: &[ChatMessage],
        options: ChatOptions,
    ) -> Result<Prompt, FrontendError> {
        let template = self.template.as_ref().ok_or(FrontendError::NoTemplate)?;
        Ok(template.render_chat(messages, &self.render_options(options))?)
    }

    /// How the model writes calls of tools.
    pub fn tool_format(&self) -> ToolFormat {
        self.template.as_ref().map_or_else(ToolFormat::default, ChatTemplate::tool_format)
    }

    /// The marks around calls that are special tokens, which are not text otherwise.
    pub fn tool_marks(&self) -> Vec<TokenId> {
        let format = self.tool_format();
        let marks = format.mark().into_iter().chain(format.end_mark());
        let ids = marks.filter_map(|mark| self.tokenizer.id_of(mark));
        ids.filter(|&id| self.tokenizer.is_special(id)).collect()
    }

    /// The token numbers of a text: whether the model's begin token goes before it, and whether the
    /// names of special tokens in it stand for those tokens.
    pub fn text_ids(&self, text: &str, begins: bool, specials: bool) -> Vec<TokenId> {
        let ids = match specials {
            true => self.tokenizer.encode_with_specials(text),
            false => self.tokenizer.encode(text),
        };
        if begins { [&self.prompt_prefix[..], &ids].concat() } else { ids }
    }

    /// The token numbers of a prompt.
    pub fn prompt_ids(&self, input: &Input) -> Result<Vec<TokenId>, FrontendError> {
        match input {
            Input::Ids(ids) => Ok(ids.clone()),
            Input::Raw(text) => Ok(self.text_ids(text, true, false)),
            Input::RawWithSpecials(text) => Ok(self.text_ids(text, true, true)),
            Input::Chat(messages) => {
                let prompt = self.chat_prompt(messages, ChatOptions::default())?;
                Ok(self.tokenizer.encode_prompt(&prompt))
            }
        }
    }

    fn render_options(&self, options: ChatOptions) -> RenderOptions {
        RenderOptions {
            add_generation_prompt: options.add_generation_prompt && !options.continue_final,
            continue_final: options.continue_final,
            tools: (!options.tools.is_empty()).then(|| options.tools.into()),
            extra: options.extra,
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
        let Some(bos) = bos else { return Vec::new() };
        let message = ChatMessage::new("user", "x");
        let rendered = self.chat_prompt(&[message], ChatOptions::default());
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
            add_eos: v.add_eos,
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
        template_source: file.chat_template().map(str::to_owned),
        end_tokens: config.eos.clone(),
        prompt_prefix: Vec::new(),
        pooling: config.pooling,
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
pub(crate) fn name(file: &ModelFile) -> String {
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
    /// Its sizes and token numbers.
    pub config: ModelConfig,
    /// How its makers want its tokens to be drawn.
    pub generation_defaults: GenerationDefaults,
    /// What its exact bytes are called, if asked for.
    pub digest: Option<String>,
}

/// Opens, loads and starts a model.
pub fn open_model(
    source: &ModelSource,
    options: &RunOptions,
    progress: &mut dyn FnMut(Loading),
) -> Result<OpenedModel, OpenError> {
    open_with_draft(source, None, options, progress)
}

/// The same with a smaller model that guesses what the first will say.
pub fn open_with_draft(
    source: &ModelSource,
    draft: Option<&ModelSource>,
    options: &RunOptions,
    progress: &mut dyn FnMut(Loading),
) -> Result<OpenedModel, OpenError> {
    let file = source.open(&options.open)?;
    let text = read_text(&file)?;
    let config = file.config();
    let blocks = config.block_diffusion;
    let blocks = options.blocks.apply(blocks, &text.tokenizer, config.vocab_len)?;
    // What does not fit is said before anything large is read.
    let draft = draft.map(|draft| DraftFile::open(draft, &text.tokenizer, options)).transpose()?;
    // Both read the whole file: at the same time, each byte has to come only once.
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
        config: ModelConfig { block_diffusion: blocks, ..file.config().clone() },
        generation_defaults: file.generation_defaults(),
        digest,
    })
}

/// What `options` say to compute on, with another number of threads.
pub fn compute(options: &RunOptions, threads: usize) -> Result<Compute, OpenError> {
    let compute = Compute::chosen(options.isa, threads, options.cpus.clone()).map_err(|isa| {
        let names: Vec<_> = Compute::supported().map(|isa| isa.to_string()).collect();
        let why = why_missing(isa).unwrap_or("this CPU does not have it");
        OpenError::NoSuchIsa { wanted: isa, why, supported: names.join(", ") }
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
    progress: &mut dyn FnMut(Loading),
) -> Result<Model, OpenError> {
    let allowed = file.config().context_len;
    let context_len = options.context_len.unwrap_or(allowed);
    if context_len < 2 || context_len > allowed {
        return Err(OpenError::Context { wanted: context_len, allowed });
    }
    let pages = pages(file.config(), options, context_len)?;
    load_on(compute(options, options.threads)?, file, options, (context_len, pages), progress)
}

/// Loads a network with room for so many tokens of a sequence, and so many pages.
pub(crate) fn load_on(
    compute: Compute,
    file: &ModelFile,
    options: &RunOptions,
    (context_len, pages): (usize, usize),
    progress: &mut dyn FnMut(Loading),
) -> Result<Model, OpenError> {
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

/// How many pages of keys and values there are to be.
fn pages(
    config: &ModelConfig,
    options: &RunOptions,
    context_len: usize,
) -> Result<usize, OpenError> {
    let page = KvPool::size_bytes(config, options.kv, 1);
    let pages = match options.kv_room {
        KvRoom::Bytes(given) if given < page => {
            return Err(OpenError::TooLittleMemory { given, page });
        }
        KvRoom::Bytes(given) => given / page,
        KvRoom::Contexts { count, at_most } => {
            let one = context_len.div_ceil(PAGE_LEN);
            one.saturating_mul(count).min(at_most.map_or(usize::MAX, |most| most / page)).max(one)
        }
    };
    reserve(config, options.kv, pages)
}

/// Whether the system gives the memory for so many pages.
pub(crate) fn reserve(config: &ModelConfig, kv: KvDtype, pages: usize) -> Result<usize, OpenError> {
    let size_bytes = KvPool::size_bytes(config, kv, pages);
    match Vec::<u8>::new().try_reserve_exact(size_bytes) {
        Ok(()) => Ok(pages),
        Err(_) => Err(OpenError::NoMemory { tokens: pages * PAGE_LEN, size_bytes }),
    }
}

/// A path given as a model.
impl From<&Path> for ModelSource {
    fn from(path: &Path) -> Self {
        Self::Path(path.to_owned())
    }
}
