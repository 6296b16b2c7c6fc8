//! Text of a completion: detokenized incrementally and cut at stop strings.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wf_model::{TokenId, Window};
use wf_text::{Detokenizer, StopFinder, ThinkingStart, Thought, ThoughtSplitter};

use crate::error::FrontendError;
use crate::events::Events;
use crate::model_text::ModelText;
use crate::output::{DecodeStats, FinishReason, Logprobs, SampledToken};
use crate::request::Event;

/// Durations and token counts of a completion.
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// Number of prompt tokens.
    pub prompt_tokens: usize,
    /// Number of prompt tokens whose K/V was cached.
    pub cached_tokens: usize,
    /// Time from submission to start.
    pub queued: Duration,
    /// Time from submission to the first token; with blocks, to the end of prefill.
    pub prompt: Duration,
    /// Number of generated tokens.
    pub completion_tokens: usize,
    /// Number of those that are thinking, with its tags.
    pub reasoning_tokens: usize,
    /// Time from the end of `prompt` to the last token.
    pub decode: Duration,
    /// Number of tokens generated in `decode`: all but the first, or all if blocks are filled.
    pub timed_tokens: usize,
    /// Counters of the decoding work.
    pub stats: DecodeStats,
    /// Number of tokens that are out of sight of the next one, because a window has slid over them.
    pub out_of_sight: usize,
}

/// End of a completion.
#[derive(Clone, Debug)]
pub struct Finish {
    /// Finish reason: a stop, a length or a deadline.
    pub reason: FinishReason,
    /// Stop token or stop string that ended it.
    pub stop_cause: Option<StopCause>,
    /// Durations and token counts.
    pub timings: Timings,
}

/// Cause of a stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// A stop token.
    Token(TokenId),
    /// A stop string, by its index in the request.
    String(usize),
}

/// Event of a completion.
#[derive(Clone, Debug)]
pub enum TextEvent {
    /// The request starts to run.
    Started {
        /// Number of prompt tokens whose K/V was cached.
        cached: usize,
    },
    /// Logprobs of the next prompt tokens, from the second one on.
    PromptLogprobs(Vec<Logprobs>),
    /// Progress of prefill, for prompts that take several steps.
    Progress {
        /// Number of prompt tokens processed so far.
        done: usize,
        /// Number of prompt tokens.
        total: usize,
    },
    /// Block in progress, if previews are requested: the text of each token, `None` for a mask.
    Preview(Vec<Option<String>>),
    /// A token and the text that is final with it: never part of a character, and nothing that may still
    /// become a stop string. At the end, text without a token.
    Text {
        /// Text of the thinking, which precedes `text`; may be empty.
        reasoning: String,
        /// Text; may be empty.
        text: String,
        /// Token.
        token: Option<SampledToken>,
        /// True if the token is part of the thinking or of its tags.
        is_reasoning: bool,
    },
    /// The completion ended.
    Done(Finish),
}

/// Facts about a request that its stream needs.
pub(crate) struct StreamOptions {
    pub(crate) prompt: Vec<TokenId>,
    pub(crate) seed: u64,
    pub(crate) stop: Vec<String>,
    pub(crate) stop_tokens: Vec<TokenId>,
    pub(crate) include_specials: bool,
    pub(crate) visible_specials: Vec<TokenId>,
    pub(crate) thinking: Option<ThinkingStart>,
    pub(crate) is_left_to_right: bool,
    /// Positions that attention reads, if not all.
    pub(crate) window: Option<Window>,
}

/// A completion in progress. Dropping it cancels the rest.
pub struct TextStream {
    text: Arc<ModelText>,
    options: StreamOptions,
    /// Absent once the completion has ended.
    source: Option<Source>,
    ids: Vec<TokenId>,
    reasoning_tokens: usize,
    /// Tokens that may be part of a tag that opens thinking.
    undecided: Vec<SampledToken>,
    queue: VecDeque<TextEvent>,
    times: Times,
    cached: usize,
    stats: DecodeStats,
}

struct Source {
    events: Events,
    detokenizer: Detokenizer,
    thoughts: ThoughtSplitter,
    /// Stop strings of the answer.
    stop: StopFinder,
}

struct Times {
    submitted: Instant,
    started: Option<Instant>,
    /// Time of the last prefill step that sampled no token.
    prefilled: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Instant,
}

impl TextStream {
    pub(crate) fn new(
        text: Arc<ModelText>,
        events: Events,
        submitted: Instant,
        mut options: StreamOptions,
    ) -> Self {
        let detokenizer = Detokenizer::new(!options.include_specials)
            .with_visible_specials(std::mem::take(&mut options.visible_specials));
        let stop = StopFinder::new(std::mem::take(&mut options.stop));
        let start = options.thinking.unwrap_or(ThinkingStart::Answer);
        let thoughts = ThoughtSplitter::new(start);
        let (started, prefilled, first_token) = (None, None, None);
        Self {
            text,
            options,
            source: Some(Source { events, detokenizer, thoughts, stop }),
            ids: Vec::new(),
            reasoning_tokens: 0,
            undecided: Vec::new(),
            queue: VecDeque::new(),
            times: Times { submitted, started, prefilled, first_token, last_token: submitted },
            cached: 0,
            stats: DecodeStats::default(),
        }
    }

    /// Returns the prompt tokens.
    pub fn prompt_ids(&self) -> &[TokenId] {
        &self.options.prompt
    }

    /// Returns the tokens generated so far, including an end token.
    pub fn ids(&self) -> &[TokenId] {
        &self.ids
    }

    /// Returns the seed of the request, or the random one.
    pub fn seed(&self) -> u64 {
        self.options.seed
    }

    /// Waits for the next event. Returns `None` after the last.
    pub async fn next_event(&mut self) -> Option<Result<TextEvent, FrontendError>> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(Ok(event));
            }
            // Cancel-safe: nothing is taken before an event is there.
            let event = self.source.as_mut()?.events.next().await;
            if let Err(error) = self.take(event) {
                return Some(Err(error));
            }
        }
    }

    /// Returns the timings so far.
    pub fn timings(&self) -> Timings {
        let Times { submitted, started, prefilled, first_token, last_token } = self.times;
        // The first token of a block comes with all of it, long after prefill.
        let first = if self.options.is_left_to_right { first_token } else { prefilled.or(started) };
        let first = first.unwrap_or(last_token).min(last_token);
        Timings {
            prompt_tokens: self.options.prompt.len(),
            cached_tokens: self.cached,
            queued: started.unwrap_or(first) - submitted,
            prompt: first - submitted,
            completion_tokens: self.ids.len(),
            reasoning_tokens: self.reasoning_tokens,
            decode: last_token - first,
            timed_tokens: self.ids.len().saturating_sub(usize::from(self.options.is_left_to_right)),
            stats: self.stats,
            out_of_sight: self.options.window.map_or(0, |window| {
                window.out_of_sight(self.options.prompt.len() + self.ids.len())
            }),
        }
    }

    fn take(&mut self, event: Option<(Instant, Event)>) -> Result<(), FrontendError> {
        let Some((time, event)) = event else {
            self.source = None;
            return Err(FrontendError::EngineStopped);
        };
        match event {
            Event::Started { cached } => {
                self.times.started = Some(time);
                self.cached = cached;
                self.queue.push_back(TextEvent::Started { cached });
            }
            Event::PromptLogprobs(all) => self.queue.push_back(TextEvent::PromptLogprobs(all)),
            Event::Progress { done, total } => {
                self.times.prefilled = Some(time);
                self.queue.push_back(TextEvent::Progress { done, total });
            }
            Event::Preview(block) => {
                let text =
                    |token: Option<TokenId>| token.map(|t| self.text.tokenizer.decode(&[t], true));
                self.queue.push_back(TextEvent::Preview(block.into_iter().map(text).collect()));
            }
            Event::Tokens { tokens, stats } => {
                self.stats = stats;
                self.times.last_token = time;
                self.times.first_token.get_or_insert(time);
                for token in tokens {
                    let Some(source) = self.source.take() else { break };
                    self.push_token(source, token);
                }
            }
            // Only embedding requests have one.
            Event::Embedding(_) => {}
            Event::Done(reason) => return self.end(reason),
        }
        Ok(())
    }

    /// Detokenizes the next token. A stop string ends the completion.
    fn push_token(&mut self, mut source: Source, token: SampledToken) {
        self.ids.push(token.token);
        let text = source.detokenizer.push(&self.text.tokenizer, token.token);
        let Thought { reasoning, answer } = source.thoughts.push(&text);
        if source.thoughts.is_undecided() {
            self.undecided.push(token);
            self.source = Some(source);
            return;
        }
        let is_reasoning = source.thoughts.is_thinking();
        self.push_undecided(is_reasoning);
        self.reasoning_tokens += usize::from(is_reasoning);
        let found = source.stop.push(&answer);
        let (text, token) = (found.emit, Some(token));
        self.queue.push_back(TextEvent::Text { reasoning, text, token, is_reasoning });
        match found.stopped {
            // Dropping `source` cancels the request.
            Some(index) => self.finish(FinishReason::Stop, Some(StopCause::String(index))),
            None => self.source = Some(source),
        }
    }

    /// Emits the tokens before it was known whether they are part of a tag.
    fn push_undecided(&mut self, is_reasoning: bool) {
        self.reasoning_tokens += if is_reasoning { self.undecided.len() } else { 0 };
        let event = |token| {
            let (reasoning, text) = (String::new(), String::new());
            TextEvent::Text { reasoning, text, token: Some(token), is_reasoning }
        };
        self.queue.extend(self.undecided.drain(..).map(event));
    }

    /// Emits held-back text: part of a character, or a prefix of a stop string.
    fn end(&mut self, reason: FinishReason) -> Result<(), FrontendError> {
        let Some(Source { detokenizer, mut thoughts, mut stop, .. }) = self.source.take() else {
            return Ok(());
        };
        reason.check(self.ids.len())?;
        self.push_undecided(false);
        let thought = thoughts.push(&detokenizer.finish());
        let held = thoughts.finish();
        let found = stop.push(&(thought.answer + &held.answer));
        self.push_text(thought.reasoning + &held.reasoning, found.emit);
        if let Some(index) = found.stopped {
            self.finish(FinishReason::Stop, Some(StopCause::String(index)));
            return Ok(());
        }
        self.push_text(String::new(), stop.finish());
        let end_token = self.ids.last().copied().filter(|id| self.options.stop_tokens.contains(id));
        let stop_cause = end_token.filter(|_| reason == FinishReason::Stop).map(StopCause::Token);
        self.finish(reason, stop_cause);
        Ok(())
    }

    /// Emits text that no token comes with.
    fn push_text(&mut self, reasoning: String, text: String) {
        let (token, is_reasoning) = (None, false);
        self.queue.push_back(TextEvent::Text { reasoning, text, token, is_reasoning });
    }

    fn finish(&mut self, reason: FinishReason, stop_cause: Option<StopCause>) {
        let finish = Finish { reason, stop_cause, timings: self.timings() };
        self.queue.push_back(TextEvent::Done(finish));
    }
}

impl Iterator for TextStream {
    type Item = Result<TextEvent, FrontendError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(Ok(event));
            }
            let event = self.source.as_mut()?.events.next_with_time();
            if let Err(error) = self.take(event) {
                return Some(Err(error));
            }
        }
    }
}
