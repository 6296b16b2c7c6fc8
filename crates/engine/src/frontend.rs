//! Text on one side, token numbers on the other: runs on the caller's thread.
//!
//! A prompt or a chat becomes token numbers, the engine's events become text piece by piece, cut
//! at stop strings. The engine never waits for any of this.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use wf_model::TokenId;
use wf_text::{ChatMessage, Detokenizer, StopFinder, TextError, Tokenizer};

use crate::handle::{EngineHandle, Events};
use crate::open::ModelText;
use crate::request::{DecodeMode, Event, FinishReason, Limits, Refused, Request};
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
    /// How tokens are found.
    pub decode: DecodeMode,
    /// The most tokens to write; what fits the context if there is none.
    pub max_tokens: Option<usize>,
    /// No end before this many tokens.
    pub min_tokens: usize,
    /// Texts that end the reply; they are not part of it.
    pub stop: Vec<String>,
    /// Whether to write on after the model's own end token.
    pub ignore_eos: bool,
}

impl Generate {
    /// A greedy reply to `input` of at most `max_tokens` tokens.
    pub fn new(input: Input) -> Self {
        Self {
            input,
            sampling: SamplingParams::default(),
            seed: None,
            decode: DecodeMode::default(),
            max_tokens: None,
            min_tokens: 0,
            stop: Vec::new(),
            ignore_eos: false,
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
    /// The engine thread died.
    #[error("the engine stopped in the middle of the reply")]
    EngineStopped,
}

/// Where the time of a reply went.
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// From handing in the request to the first token.
    pub prompt: Duration,
    /// Tokens of the reply.
    pub reply_tokens: usize,
    /// From the first token to the last.
    pub reply: Duration,
}

/// How a reply ended.
#[derive(Clone, Debug)]
pub struct Finish {
    /// `stop` or `length`.
    pub reason: FinishReason,
    /// Where the time went.
    pub timings: Timings,
}

/// A part of a reply.
#[derive(Clone, Debug)]
pub enum Piece {
    /// A long prompt is being read.
    Progress {
        /// Tokens read so far.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
    },
    /// More text, never half a character. May be empty while a token is only part of one.
    Text(String),
    /// The reply ended.
    Done(Finish),
}

/// A model's text side together with its engine.
pub struct Frontend {
    text: ModelText,
    engine: EngineHandle,
}

impl Frontend {
    /// Joins the two.
    pub fn new(text: ModelText, engine: EngineHandle) -> Self {
        Self { text, engine }
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.text.tokenizer
    }

    /// The text side: tokenizer, template, end tokens.
    pub fn text(&self) -> &ModelText {
        &self.text
    }

    /// The most tokens that prompt and reply may have together.
    pub fn context_len(&self) -> usize {
        self.engine.context_len()
    }

    /// Starts a reply.
    pub fn generate(&self, generate: Generate) -> Result<TextStream<'_>, FrontendError> {
        let prompt = self.text.prompt_ids(&generate.input)?;
        let seed = generate.seed.unwrap_or_else(draw_seed);
        let stop_tokens =
            if generate.ignore_eos { Vec::new() } else { self.text.end_tokens.clone() };
        let request = Request {
            prompt: prompt.clone(),
            sampling: SamplingParams { seed, ..generate.sampling },
            decode: generate.decode,
            limits: Limits {
                max_tokens: generate.max_tokens.unwrap_or(usize::MAX),
                stop_tokens,
                min_tokens: generate.min_tokens,
            },
        };
        let started = Instant::now();
        Ok(TextStream {
            text: &self.text,
            prompt,
            seed,
            ids: Vec::new(),
            writing: Some(Writing {
                events: self.engine.submit(request)?,
                detokenizer: Detokenizer::new(true),
                stop: StopFinder::new(generate.stop),
            }),
            queue: VecDeque::new(),
            started,
            first_token: None,
            last_token: started,
        })
    }
}

/// A number nobody chose, for requests without a seed.
fn draw_seed() -> u64 {
    // The standard library keys its hashers from the system's randomness. 53 bits survive every
    // JSON reader, so the seed can be given back as it was told.
    RandomState::new().hash_one(0) >> 11
}

/// A reply being written. Dropping it cancels the rest.
pub struct TextStream<'a> {
    text: &'a ModelText,
    /// Nothing once the reply has ended.
    writing: Option<Writing>,
    prompt: Vec<TokenId>,
    seed: u64,
    ids: Vec<TokenId>,
    queue: VecDeque<Piece>,
    started: Instant,
    first_token: Option<Instant>,
    last_token: Instant,
}

struct Writing {
    events: Events,
    detokenizer: Detokenizer,
    stop: StopFinder,
}

impl TextStream<'_> {
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

    fn timings(&self) -> Timings {
        let first = self.first_token.unwrap_or(self.last_token);
        Timings {
            prompt_tokens: self.prompt.len(),
            prompt: first - self.started,
            reply_tokens: self.ids.len(),
            reply: self.last_token - first,
        }
    }

    /// Turns the next token into text. A stop string in it ends the reply.
    fn push_token(&mut self, mut writing: Writing, id: TokenId) {
        self.ids.push(id);
        let text = writing.detokenizer.push(&self.text.tokenizer, id);
        let found = writing.stop.push(&text);
        self.queue.push_back(Piece::Text(found.emit));
        match found.stopped {
            // Dropping `writing` cancels what the engine is still doing.
            Some(_) => self.finish(FinishReason::Stop),
            None => self.writing = Some(writing),
        }
    }

    /// Hands out what was held back: half a character, or what might have become a stop string.
    fn push_rest(&mut self, writing: Writing, reason: FinishReason) {
        let Writing { detokenizer, mut stop, .. } = writing;
        let found = stop.push(&detokenizer.finish());
        self.queue.push_back(Piece::Text(found.emit));
        if found.stopped.is_none() {
            self.queue.push_back(Piece::Text(stop.finish()));
        }
        self.finish(if found.stopped.is_some() { FinishReason::Stop } else { reason });
    }

    fn finish(&mut self, reason: FinishReason) {
        let finish = Finish { reason, timings: self.timings() };
        self.queue.push_back(Piece::Done(finish));
    }

    fn take(&mut self, writing: Writing, event: Event, time: Instant) -> Result<(), FrontendError> {
        match event {
            Event::Progress { done, total } => {
                self.queue.push_back(Piece::Progress { done, total });
                self.writing = Some(writing);
            }
            Event::Tokens(picked) => {
                self.last_token = time;
                self.first_token.get_or_insert(self.last_token);
                self.writing = Some(writing);
                for picked in picked {
                    let Some(writing) = self.writing.take() else { break };
                    self.push_token(writing, picked.token);
                }
            }
            Event::Done(FinishReason::NoFiniteScore) => {
                return Err(FrontendError::NoFiniteScore { tokens: self.ids.len() });
            }
            Event::Done(reason) => self.push_rest(writing, reason),
        }
        Ok(())
    }
}

impl Iterator for TextStream<'_> {
    type Item = Result<Piece, FrontendError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(piece) = self.queue.pop_front() {
                return Some(Ok(piece));
            }
            let mut writing = self.writing.take()?;
            let taken = match writing.events.next_with_time() {
                Some((time, event)) => self.take(writing, event, time),
                None => Err(FrontendError::EngineStopped),
            };
            if let Err(error) = taken {
                return Some(Err(error));
            }
        }
    }
}
