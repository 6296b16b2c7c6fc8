//! The way to the engine thread: submit a request, read its events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use wf_model::{BlockDiffusion, Forward, PAGE_LEN, Pooling, TokenId};

use crate::decode::{Abilities, DecodeMode, Decoder, Embedder, Unsupported};
use crate::embed::Embed;
use crate::request::{Event, Limits, Refused, Request};
use crate::run::{Engine, Message};
use crate::sequence::Sequence;
use crate::stats::{Stats, StatsSnapshot};

/// How an engine behaves.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// The most sequences that run at once; others wait.
    pub max_running: usize,
    /// The most that wait; more are refused.
    pub max_waiting: usize,
    /// The most tokens of prompt and reply; what the model and its pages allow if there is none.
    pub context_len: Option<usize>,
    /// How blocks are filled, if not as the model's file says.
    pub blocks: Option<BlockDiffusion>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { max_running: 16, max_waiting: 512, context_len: None, blocks: None }
    }
}

/// A cheap, cloneable way to reach the engine thread, which ends when the last handle is gone.
#[derive(Clone)]
pub struct EngineHandle {
    inbox: UnboundedSender<Message>,
    context_len: usize,
    vocab_len: usize,
    hidden_len: usize,
    can: Abilities,
    pages: usize,
    max_waiting: usize,
    stats: Arc<Stats>,
    arrivals: Arc<AtomicU64>,
}

impl std::fmt::Debug for EngineHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineHandle").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// What becomes of a request. Dropping it cancels the request within one step.
pub struct Events {
    receiver: UnboundedReceiver<(Instant, Event)>,
}

impl Events {
    /// The next event, waiting for it; nothing after `Done`, or if the engine died.
    pub fn next_blocking(&mut self) -> Option<Event> {
        self.next_with_time().map(|(_, event)| event)
    }

    /// The next event with the time it happened, once there is one; nothing after `Done`, or if the
    /// engine died.
    pub async fn next(&mut self) -> Option<(Instant, Event)> {
        self.receiver.recv().await
    }

    /// As `next_blocking`, with the time it happened: a reader may be late.
    pub(crate) fn next_with_time(&mut self) -> Option<(Instant, Event)> {
        self.receiver.blocking_recv()
    }
}

impl EngineHandle {
    /// Starts an engine thread that owns `model`.
    pub fn start(model: impl Forward + 'static, options: EngineOptions) -> std::io::Result<Self> {
        Self::start_with_draft(model, None, options)
    }

    /// The same with a draft model, which knows the same tokens and guesses what `model` will say.
    pub fn start_with_draft(
        model: impl Forward + 'static,
        draft: Option<Box<dyn Forward>>,
        options: EngineOptions,
    ) -> std::io::Result<Self> {
        let (inbox, receiver) = unbounded_channel();
        let config = model.config();
        let context_len = config.context_len.min(model.pages() * PAGE_LEN);
        let handle = Self {
            inbox,
            context_len: options.context_len.map_or(context_len, |len| len.min(context_len)),
            vocab_len: config.vocab_len,
            hidden_len: config.hidden_len,
            can: Abilities {
                blocks: options.blocks.or(config.block_diffusion),
                draft_model: draft.is_some(),
                max_batch_tokens: model.max_batch_tokens(),
            },
            pages: model.pages(),
            max_waiting: options.max_waiting,
            stats: Arc::default(),
            arrivals: Arc::default(),
        };
        let stats = Arc::clone(&handle.stats);
        let engine = Engine::new(model, draft, receiver, options.max_running, stats);
        thread::Builder::new().name("wf-engine".into()).spawn(move || engine.run())?;
        Ok(handle)
    }

    /// How many tokens the model knows.
    pub fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    /// How many numbers the hidden state of a token has.
    pub fn hidden_len(&self) -> usize {
        self.hidden_len
    }

    /// What can be asked of the model.
    pub fn abilities(&self) -> Abilities {
        self.can
    }

    /// Whether replies can be decoded so.
    ///
    /// # Errors
    ///
    /// Why they cannot.
    pub fn check_mode(&self, mode: DecodeMode) -> Result<(), Unsupported> {
        mode.decoder(self.can).map(drop)
    }

    /// How many tokens there is room for in the pages.
    pub fn kv_tokens(&self) -> usize {
        self.pages * PAGE_LEN
    }

    /// The most tokens that prompt and reply may have together.
    pub fn context_len(&self) -> usize {
        self.context_len
    }

    /// Hands a request in, or says why not. A reply ends where the context does.
    pub fn submit(&self, mut request: Request) -> Result<Events, Refused> {
        self.check(&request)?;
        let decoder = request.decode.decoder(self.can)?;
        let room = self.context_len - request.prompt.len();
        request.limits.max_tokens = request.limits.max_tokens.min(room);
        self.send(request, decoder)
    }

    /// Hands a text in, to be read and not answered, or says why not. What is asked for in `embed`
    /// beyond its tokens and its turn is the frontend's to do.
    pub fn embed(&self, pooling: Pooling, embed: Embed) -> Result<Events, Refused> {
        let (tokens, limit) = (embed.tokens.len(), self.context_len);
        if tokens > limit {
            return Err(Refused::TextTooLong { tokens, limit });
        }
        self.check_tokens(&embed.tokens)?;
        let decoder = Embedder::new(pooling, tokens, self.can)?;
        let request = Request {
            prompt: embed.tokens,
            limits: Limits { deadline: embed.deadline, ..Limits::default() },
            cache_salt: embed.cache_salt,
            priority: embed.priority,
            ..Request::default()
        };
        self.send(request, Box::new(decoder))
    }

    fn send(&self, request: Request, decoder: Box<dyn Decoder>) -> Result<Events, Refused> {
        if !self.stats.waiting.enter(self.max_waiting) {
            return Err(Refused::Busy { waiting: self.max_waiting });
        }
        let (events, receiver) = unbounded_channel();
        let arrival = self.arrivals.fetch_add(1, Ordering::Relaxed);
        let sequence = Sequence::new(request, decoder, self.context_len, arrival, events);
        self.inbox.send(Message::Run(Box::new(sequence))).map_err(|_| Refused::Stopped)?;
        Ok(Events { receiver })
    }

    /// What the engine has done and is doing.
    pub fn stats(&self) -> StatsSnapshot {
        self.stats.snapshot(self.pages)
    }

    /// Forgets, before the next step, the K/V that is kept for prompts to come.
    pub fn flush_cache(&self) {
        // An engine that has ended keeps nothing.
        let _ = self.inbox.send(Message::FlushCache);
    }

    fn check(&self, request: &Request) -> Result<(), Refused> {
        let (tokens, limit) = (request.prompt.len(), self.context_len);
        if tokens >= limit {
            return Err(Refused::TooLong { tokens, limit });
        }
        if request.limits.max_tokens == 0 && request.prompt_logprobs.is_none() {
            return Err(Refused::NothingToWrite);
        }
        self.check_tokens(&request.prompt)?;
        let stops = request.limits.stop_tokens.iter();
        stops.copied().try_for_each(|token| self.check_token(token))?;
        if matches!(request.decode, DecodeMode::Diffusion(_)) && request.prompt_logprobs.is_some() {
            let what =
                "prompt_logprobs with decode diffusion: a prompt is scored autoregressively only";
            return Err(Unsupported(what.into()).into());
        }
        if matches!(request.decode, DecodeMode::Diffusion(_)) && request.grammar.is_some() {
            let what = "a grammar with decode diffusion: blocks are not filled from left to right";
            return Err(Unsupported(what.into()).into());
        }
        Ok(request.sampling.check(self.vocab_len)?)
    }

    /// Refuses nothing at all, and tokens that are none.
    fn check_tokens(&self, tokens: &[TokenId]) -> Result<(), Refused> {
        if tokens.is_empty() {
            return Err(Refused::EmptyPrompt);
        }
        tokens.iter().copied().try_for_each(|token| self.check_token(token))
    }

    fn check_token(&self, token: TokenId) -> Result<(), Refused> {
        match (token as usize) < self.vocab_len {
            true => Ok(()),
            false => Err(Refused::UnknownToken { token, last: self.vocab_len as TokenId - 1 }),
        }
    }
}
