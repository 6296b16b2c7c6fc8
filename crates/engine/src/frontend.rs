//! Text on one side, token numbers on the other: runs on the caller's thread.
//!
//! A prompt or a chat becomes token numbers, the engine's events become text piece by piece, cut
//! at stop strings. The engine never waits for any of this.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use wf_model::TokenId;
use wf_text::{ChatMessage, Detokenizer, StopFinder, TextError, Tokenizer};

use crate::decode::DecodeMode;
use crate::grammar::{BadGrammar, Grammar, GrammarSource, Grammars};
use crate::handle::{EngineHandle, Events};
use crate::open::ModelText;
use crate::request::{Event, FinishReason, Limits, Logprobs, Picked, Refused, Request, Work};
use crate::sample::SamplingParams;

/// What to continue.
#[derive(Clone, Debug)]
pub enum Input {
    /// Text as it is; the model's begin token goes before it.
    Raw(String),
    /// Text in which the names of special tokens stand for those tokens.
    RawWithSpecials(String),
    /// A conversation, through the model's chat template, waiting for the assistant.
    Chat(Vec<ChatMessage>),
    /// Token numbers, as they are.
    Ids(Vec<TokenId>),
}

/// A reply to write.
#[derive(Clone, Debug)]
pub struct Generate {
    /// What to continue.
    pub input: Input,
    /// How scores become tokens. The seed is taken from `seed`.
    pub sampling: SamplingParams,
    /// The seed; one is drawn if there is none.
    pub seed: Option<u64>,
    /// What form the reply must have, if any.
    pub grammar: Option<Grammar>,
    /// Whether special tokens are part of the text.
    pub show_specials: bool,
    /// Special tokens that are part of the text in any case.
    pub shown_specials: Vec<TokenId>,
    /// How tokens are found.
    pub decode: DecodeMode,
    /// The most tokens to write; what fits the context if there is none.
    pub max_tokens: Option<usize>,
    /// No end before this many tokens.
    pub min_tokens: usize,
    /// Texts that end the reply; they are not part of it.
    pub stop: Vec<String>,
    /// Tokens that end the reply, beside the model's own end tokens.
    pub stop_tokens: Vec<TokenId>,
    /// Whether to write on after the model's own end token.
    pub ignore_eos: bool,
    /// Tell how likely each token was, and that of this many of the likeliest in its place.
    pub logprobs: Option<usize>,
    /// The same for the tokens of the prompt.
    pub prompt_logprobs: Option<usize>,
    /// Only replies with the same salt share K/V of prompts that start alike.
    pub cache_salt: u64,
    /// Higher runs first.
    pub priority: i32,
    /// When to end it, finished or not.
    pub deadline: Option<Instant>,
}

impl Generate {
    /// A greedy reply to `input` of at most `max_tokens` tokens.
    pub fn new(input: Input) -> Self {
        Self {
            input,
            sampling: SamplingParams::default(),
            seed: None,
            grammar: None,
            show_specials: false,
            shown_specials: Vec::new(),
            decode: DecodeMode::default(),
            max_tokens: None,
            min_tokens: 0,
            stop: Vec::new(),
            stop_tokens: Vec::new(),
            ignore_eos: false,
            logprobs: None,
            prompt_logprobs: None,
            cache_salt: 0,
            priority: 0,
            deadline: None,
        }
    }
}

/// Why a reply could not be started or finished.
#[derive(Debug, thiserror::Error)]
pub enum FrontendError {
    /// Rendering or encoding failed.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The model has no chat template.
    #[error("this model has no chat template: give it a raw prompt instead")]
    NoTemplate,
    /// The engine did not take the request.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The model gave no finite score.
    #[error("the model gave no finite score after {tokens} tokens: its weights are broken")]
    NoFiniteScore {
        /// Tokens written before.
        tokens: usize,
    },
    /// The reply ran into a place where its grammar lets nothing follow.
    #[error(
        "after {tokens} tokens the grammar allows none of this model's tokens, or has become too \
         complex to follow"
    )]
    DeadEnd {
        /// Tokens written before.
        tokens: usize,
    },
    /// The step that computed it panicked.
    #[error("an internal error ended this reply; others are not touched by it")]
    StepFailed,
    /// An embedding took too long.
    #[error("the time allowed for this request was over before it was computed")]
    DeadlinePassed,
    /// The engine thread died.
    #[error("the engine stopped in the middle of the reply")]
    EngineStopped,
}

/// Where the time of a reply went.
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Those of them whose K/V was there already.
    pub cached_tokens: usize,
    /// From handing in the request to its start.
    pub queued: Duration,
    /// From handing in the request to the first token.
    pub prompt: Duration,
    /// Tokens of the reply.
    pub reply_tokens: usize,
    /// From the first token to the last; where blocks are filled, from the prompt's end.
    pub reply: Duration,
    /// Tokens written in that time: the first comes with the prompt, unless blocks are filled.
    pub timed_tokens: usize,
    /// What it took to find the tokens.
    pub work: Work,
}

/// How a reply ended.
#[derive(Clone, Debug)]
pub struct Finish {
    /// A stop, a length or a deadline.
    pub reason: FinishReason,
    /// What it stopped at.
    pub stopped_at: Option<StoppedAt>,
    /// Where the time went.
    pub timings: Timings,
}

/// What a reply stopped at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoppedAt {
    /// A token that ends replies.
    Token(TokenId),
    /// One of the texts given, by its place in the list.
    Text(usize),
}

/// A part of a reply.
#[derive(Clone, Debug)]
pub enum Piece {
    /// It begins to be computed.
    Started {
        /// Tokens of the prompt whose K/V was there already.
        cached: usize,
    },
    /// How likely the next tokens of the prompt are, from its second one on.
    PromptLogprobs(Vec<Logprobs>),
    /// A long prompt is being read.
    Progress {
        /// Tokens read so far.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
    },
    /// How the block being filled stands, if asked for: the text of each token, nothing for a mask.
    Preview(Vec<Option<String>>),
    /// A token, and the text that is certain with it: never half a character, and nothing that may
    /// still become a stop string. At the end, text without a token.
    Text {
        /// May be empty.
        text: String,
        /// The token.
        token: Option<Picked>,
    },
    /// The reply ended.
    Done(Finish),
}

/// A model's text side together with its engine.
#[derive(Clone)]
pub struct Frontend {
    text: Arc<ModelText>,
    engine: EngineHandle,
    /// Made when the first grammar is asked for.
    grammars: Arc<OnceLock<Result<Grammars, BadGrammar>>>,
}

impl Frontend {
    /// Joins the two.
    pub fn new(text: ModelText, engine: EngineHandle) -> Self {
        Self { text: Arc::new(text), engine, grammars: Arc::default() }
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.text.tokenizer
    }

    /// The text side: tokenizer, template, end tokens.
    pub fn text(&self) -> &ModelText {
        &self.text
    }

    /// The side of the numbers.
    pub fn engine(&self) -> &EngineHandle {
        &self.engine
    }

    /// The most tokens that prompt and reply may have together.
    pub fn context_len(&self) -> usize {
        self.engine.context_len()
    }

    /// A form for replies to have. The first one takes a moment longer: the tree of all tokens is made
    /// for it.
    ///
    /// # Errors
    ///
    /// What is wrong with `source`.
    pub fn compile(&self, source: &GrammarSource) -> Result<Grammar, BadGrammar> {
        let make = || Grammars::new(&self.text.tokenizer, &self.text.end_tokens);
        self.grammars.get_or_init(make).as_ref().map_err(Clone::clone)?.compile(source)
    }

    /// Starts a reply.
    pub fn generate(&self, generate: Generate) -> Result<TextStream, FrontendError> {
        let prompt = self.text.prompt_ids(&generate.input)?;
        self.generate_from(prompt, generate)
    }

    /// Starts a reply to a prompt that is token numbers already; the input of `generate` is not
    /// looked at.
    pub fn generate_from(
        &self,
        prompt: Vec<TokenId>,
        generate: Generate,
    ) -> Result<TextStream, FrontendError> {
        let seed = generate.seed.unwrap_or_else(draw_seed);
        let mut stop_tokens = generate.stop_tokens;
        if !generate.ignore_eos {
            stop_tokens.extend(&self.text.end_tokens);
        }
        let request = Request {
            prompt: prompt.clone(),
            sampling: SamplingParams { seed, ..generate.sampling },
            grammar: generate.grammar,
            decode: generate.decode,
            limits: Limits {
                max_tokens: generate.max_tokens.unwrap_or(usize::MAX),
                stop_tokens: stop_tokens.clone(),
                min_tokens: generate.min_tokens,
                deadline: generate.deadline,
            },
            logprobs: generate.logprobs,
            prompt_logprobs: generate.prompt_logprobs,
            cache_salt: generate.cache_salt,
            priority: generate.priority,
        };
        let handed_in = Instant::now();
        Ok(TextStream {
            text: Arc::clone(&self.text),
            prompt,
            seed,
            stop_tokens,
            ids: Vec::new(),
            writing: Some(Writing {
                events: self.engine.submit(request)?,
                detokenizer: Detokenizer::new(!generate.show_specials)
                    .showing(generate.shown_specials),
                stop: StopFinder::new(generate.stop),
            }),
            queue: VecDeque::new(),
            times: Times {
                handed_in,
                started: None,
                read: None,
                first_token: None,
                last_token: handed_in,
            },
            cached: 0,
            work: Work::default(),
            by_blocks: matches!(generate.decode, DecodeMode::Diffusion(_)),
        })
    }
}

/// A number nobody chose, for requests without a seed.
pub fn draw_seed() -> u64 {
    // The standard library keys its hashers from the system's randomness. 53 bits survive every
    // JSON reader, so the seed can be given back as it was told.
    RandomState::new().hash_one(0) >> 11
}

/// A reply being written. Dropping it cancels the rest.
pub struct TextStream {
    text: Arc<ModelText>,
    /// Nothing once the reply has ended.
    writing: Option<Writing>,
    prompt: Vec<TokenId>,
    seed: u64,
    stop_tokens: Vec<TokenId>,
    ids: Vec<TokenId>,
    queue: VecDeque<Piece>,
    times: Times,
    cached: usize,
    work: Work,
    by_blocks: bool,
}

struct Writing {
    events: Events,
    detokenizer: Detokenizer,
    stop: StopFinder,
}

/// When what happened.
struct Times {
    handed_in: Instant,
    started: Option<Instant>,
    /// When the last part of the prompt was read that a token did not come with.
    read: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Instant,
}

impl TextStream {
    /// The prompt as the engine got it.
    pub fn prompt_ids(&self) -> &[TokenId] {
        &self.prompt
    }

    /// The tokens written so far, an end token included.
    pub fn ids(&self) -> &[TokenId] {
        &self.ids
    }

    /// The seed given or drawn.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The next piece, once there is one; nothing after the last.
    pub async fn next_piece(&mut self) -> Option<Result<Piece, FrontendError>> {
        loop {
            if let Some(piece) = self.queue.pop_front() {
                return Some(Ok(piece));
            }
            // Taken out only when there is an event: whoever stops waiting loses nothing.
            let event = self.writing.as_mut()?.events.next().await;
            if let Err(error) = self.take(event) {
                return Some(Err(error));
            }
        }
    }

    /// Where the time went so far.
    pub fn timings(&self) -> Timings {
        let Times { handed_in, started, read, first_token, last_token } = self.times;
        // A block's first token comes with all of it, long after the prompt was read.
        let first = if self.by_blocks { read.or(started) } else { first_token };
        let first = first.unwrap_or(last_token).min(last_token);
        Timings {
            prompt_tokens: self.prompt.len(),
            cached_tokens: self.cached,
            queued: started.unwrap_or(first) - handed_in,
            prompt: first - handed_in,
            reply_tokens: self.ids.len(),
            reply: last_token - first,
            timed_tokens: self.ids.len().saturating_sub(usize::from(!self.by_blocks)),
            work: self.work,
        }
    }

    fn take(&mut self, event: Option<(Instant, Event)>) -> Result<(), FrontendError> {
        let Some((time, event)) = event else {
            self.writing = None;
            return Err(FrontendError::EngineStopped);
        };
        match event {
            Event::Started { cached } => {
                self.times.started = Some(time);
                self.cached = cached;
                self.queue.push_back(Piece::Started { cached });
            }
            Event::PromptLogprobs(logprobs) => {
                self.queue.push_back(Piece::PromptLogprobs(logprobs));
            }
            Event::Progress { done, total } => {
                self.times.read = Some(time);
                self.queue.push_back(Piece::Progress { done, total });
            }
            Event::Preview(block) => {
                let text =
                    |token: Option<TokenId>| token.map(|t| self.text.tokenizer.decode(&[t], true));
                self.queue.push_back(Piece::Preview(block.into_iter().map(text).collect()));
            }
            Event::Tokens { picked, work } => {
                self.work = work;
                self.times.last_token = time;
                self.times.first_token.get_or_insert(time);
                for picked in picked {
                    let Some(writing) = self.writing.take() else { break };
                    self.push_token(writing, picked);
                }
            }
            // Nobody asked for it here.
            Event::Embedding(_) => {}
            Event::Done(reason) => return self.end(reason),
        }
        Ok(())
    }

    /// Turns the next token into text. A stop string in it ends the reply.
    fn push_token(&mut self, mut writing: Writing, picked: Picked) {
        self.ids.push(picked.token);
        let text = writing.detokenizer.push(&self.text.tokenizer, picked.token);
        let found = writing.stop.push(&text);
        self.queue.push_back(Piece::Text { text: found.emit, token: Some(picked) });
        match found.stopped {
            // Dropping `writing` cancels what the engine is still doing.
            Some(stop) => self.finish(FinishReason::Stop, Some(StoppedAt::Text(stop))),
            None => self.writing = Some(writing),
        }
    }

    /// Hands out what was held back: half a character, or what might have become a stop string.
    fn end(&mut self, reason: FinishReason) -> Result<(), FrontendError> {
        let Some(Writing { detokenizer, mut stop, .. }) = self.writing.take() else {
            return Ok(());
        };
        match reason {
            FinishReason::NoFiniteScore => {
                return Err(FrontendError::NoFiniteScore { tokens: self.ids.len() });
            }
            FinishReason::DeadEnd => {
                return Err(FrontendError::DeadEnd { tokens: self.ids.len() });
            }
            FinishReason::Failed => return Err(FrontendError::StepFailed),
            FinishReason::Stop | FinishReason::Length | FinishReason::Deadline => {}
        }
        let found = stop.push(&detokenizer.finish());
        self.queue.push_back(Piece::Text { text: found.emit, token: None });
        if let Some(text) = found.stopped {
            self.finish(FinishReason::Stop, Some(StoppedAt::Text(text)));
            return Ok(());
        }
        self.queue.push_back(Piece::Text { text: stop.finish(), token: None });
        let end_token = self.ids.last().copied().filter(|id| self.stop_tokens.contains(id));
        let stopped_at = end_token.filter(|_| reason == FinishReason::Stop).map(StoppedAt::Token);
        self.finish(reason, stopped_at);
        Ok(())
    }

    fn finish(&mut self, reason: FinishReason, stopped_at: Option<StoppedAt>) {
        let finish = Finish { reason, stopped_at, timings: self.timings() };
        self.queue.push_back(Piece::Done(finish));
    }
}

impl Iterator for TextStream {
    type Item = Result<Piece, FrontendError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(piece) = self.queue.pop_front() {
                return Some(Ok(piece));
            }
            let event = self.writing.as_mut()?.events.next_with_time();
            if let Err(error) = self.take(event) {
                return Some(Err(error));
            }
        }
    }
}
