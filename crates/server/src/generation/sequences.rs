//! The sequences of one request, running side by side.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use tracing::Span;
use wf_api::wire::{CompletionTokensDetails, Progress, PromptTokensDetails, Timings, Usage};
use wf_engine::{Finish, FrontendError, TextEvent, TextStream, TokenId};
use wf_text::{Tokenizer, ToolCallEvent, ToolCallParser};

use super::{Context, Generation, Meter};
use crate::error::ApiError;
use crate::models::Lease;
use crate::observe::in_flight::InFlightGuard;
use crate::observe::trace::record_generation;

/// Finish reason of a sequence whose client disconnected.
const ABORTED: &str = "abort";

/// Finish reason of a sequence whose request was refused with another one.
const REFUSED: &str = "refused";

/// Progress of one sequence.
pub(crate) struct SequenceEvent {
    /// New text of the thinking, which comes before all `parts`.
    pub(crate) reasoning: String,
    /// New text and tool calls. At the end, those that were held back.
    pub(crate) parts: Vec<ToolCallEvent>,
    /// The event, whose text is in `parts`.
    pub(crate) event: TextEvent,
}

/// Joins the text of parts, for dialects without tool calls.
pub(crate) fn text_of(parts: Vec<ToolCallEvent>) -> String {
    let text = |part| if let ToolCallEvent::Text(text) = part { Some(text) } else { None };
    parts.into_iter().filter_map(text).collect()
}

/// The sequences of one request. Dropping it cancels those that have not ended.
pub(crate) struct Sequences {
    sequences: Vec<Sequence>,
    /// Index polled first, so that all get their turn.
    next: usize,
    /// Sequences per prompt.
    choices: usize,
    /// Keeps the model in memory.
    model: Lease,
    /// Span of the request, which ends with its last sequence.
    span: Span,
}

struct Sequence {
    stream: TextStream,
    parser: Option<ToolCallParser>,
    /// Leaves thinking out of the events.
    hides_reasoning: bool,
    meter: Meter,
    entry: InFlightGuard,
    arrived: Instant,
    last_token: Option<Instant>,
    /// True for the first sequence of a prompt: prompts are counted once.
    counts_prompt: bool,
    /// Finish reason, once it is counted.
    finish_reason: Option<&'static str>,
}

impl Sequences {
    /// Starts all sequences of a request, or none.
    pub(crate) fn start(
        cx: &Context,
        generation: &Generation,
        prompts: Vec<Vec<TokenId>>,
    ) -> Result<Self, ApiError> {
        let (arrived, span, frontend) = (Instant::now(), Span::current(), &cx.model.frontend);
        span.record("gen_ai.request.model", cx.model.name());
        let format = frontend.text().tool_format();
        let count = prompts.len() * generation.choices as usize;
        frontend.engine().check_queue(generation.settings.origin.caller, count)?;
        let mut sequences: Vec<Sequence> = Vec::with_capacity(count);
        for prompt in prompts {
            for choice in 0..generation.choices {
                let entry = cx.enter(prompt.len());
                let mut settings = generation.settings.clone();
                settings.sampling.choice = choice;
                let stream = frontend.generate_from(prompt.clone(), settings);
                let stream = stream.inspect_err(|_| {
                    // A refusal is none of the ends that are counted, and nobody disconnected.
                    sequences.iter_mut().for_each(|one| one.finish_reason = Some(REFUSED));
                })?;
                sequences.push(Sequence {
                    stream,
                    parser: generation.tools.as_ref().map(|tools| tools.parser(format)),
                    hides_reasoning: generation.thinking.is_hidden,
                    meter: cx.meter(),
                    entry,
                    arrived,
                    last_token: None,
                    counts_prompt: choice == 0,
                    finish_reason: None,
                });
            }
        }
        let choices = generation.choices as usize;
        Ok(Self { sequences, next: 0, choices, model: cx.model.clone(), span })
    }

    /// Returns the next event of any sequence with the index of that sequence, or `None` once all have
    /// ended.
    pub(crate) async fn next(&mut self) -> Option<(usize, Result<SequenceEvent, FrontendError>)> {
        poll_fn(|cx| {
            let count = self.sequences.len();
            let mut all_ended = true;
            for at in (0..count).map(|i| (self.next + i) % count) {
                let sequence = &mut self.sequences[at];
                if sequence.finish_reason.is_some() {
                    continue;
                }
                // Dropping the future before it is ready loses no event.
                let polled = pin!(sequence.stream.next_event()).poll(cx);
                match polled {
                    Poll::Pending => all_ended = false,
                    Poll::Ready(None) => {}
                    Poll::Ready(Some(event)) => {
                        sequence.count(&event, self.choices);
                        self.next = at + 1;
                        return Poll::Ready(Some((at, event.map(|event| sequence.parse(event)))));
                    }
                }
            }
            if all_ended { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }

    /// Notes the error that ended the response after its head.
    pub(crate) fn note_error(&self, error: &ApiError) {
        self.sequences.iter().take(1).for_each(|one| one.meter.note_error(error));
    }

    pub(crate) fn len(&self) -> usize {
        self.sequences.len()
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        self.model.frontend.tokenizer()
    }

    pub(crate) fn prompt(&self, at: usize) -> &[TokenId] {
        self.sequences[at].stream.prompt_ids()
    }

    /// Describes how much of a prompt has been computed.
    pub(crate) fn progress(&self, at: usize, done: usize, total: usize) -> Progress {
        let cache = self.sequences[at].stream.timings().cached_tokens as u32;
        Progress { total: total as u32, processed: done as u32, cache }
    }

    /// Counts the tokens of all sequences, and those of each prompt once.
    pub(crate) fn usage(&self) -> Usage {
        let streams = || self.sequences.iter().map(|sequence| &sequence.stream);
        let firsts = || streams().step_by(self.choices);
        let prompt_tokens = firsts().map(|stream| stream.prompt_ids().len()).sum::<usize>() as u32;
        let completion_tokens = streams().map(|stream| stream.ids().len()).sum::<usize>() as u32;
        let cached = firsts().map(|stream| stream.timings().cached_tokens).sum::<usize>() as u32;
        let reasoning = streams().map(|stream| stream.timings().reasoning_tokens).sum::<usize>();
        Usage {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: Some(PromptTokensDetails { cached_tokens: cached }),
            completion_tokens_details: Some(CompletionTokensDetails {
                reasoning_tokens: reasoning as u32,
            }),
        }
    }
}

impl Drop for Sequences {
    fn drop(&mut self) {
        if self.span.is_disabled() {
            return;
        }
        let Usage { prompt_tokens, completion_tokens, .. } = self.usage();
        let reasons = self.sequences.iter().map(|one| one.finish_reason.unwrap_or(ABORTED));
        let reasons: Vec<_> = reasons.collect();
        record_generation(&self.span, prompt_tokens, completion_tokens, &reasons);
    }
}

impl Sequence {
    fn count(&mut self, event: &Result<TextEvent, FrontendError>, choices: usize) {
        match event {
            Ok(TextEvent::Started { .. }) => {
                self.entry.start();
                if self.counts_prompt {
                    self.meter.count_prompt(self.stream.prompt_ids().len(), choices);
                }
            }
            Ok(TextEvent::Text { token: Some(_), .. }) => {
                let now = Instant::now();
                let since_last = self.last_token.map(|last| now - last);
                self.meter.count_token(now - self.arrived, since_last);
                self.last_token = Some(now);
                self.entry.count_token();
            }
            Ok(TextEvent::Done(Finish { reason, timings, .. })) => {
                self.finish_reason = Some(reason.name());
                self.meter.count_end(reason.name(), Some(timings));
            }
            Err(_) => {
                self.finish_reason = Some("error");
                self.meter.count_end("error", None);
            }
            Ok(_) => {}
        }
    }

    /// Separates thinking and tool calls from text.
    fn parse(&mut self, mut event: TextEvent) -> SequenceEvent {
        let reasoning = match &mut event {
            TextEvent::Text { reasoning, .. } if !self.hides_reasoning => std::mem::take(reasoning),
            _ => String::new(),
        };
        let parts = match (&mut event, &mut self.parser) {
            (TextEvent::Text { text, .. }, Some(parser)) => parser.push(text),
            (TextEvent::Text { text, .. }, None) if !text.is_empty() => {
                vec![ToolCallEvent::Text(std::mem::take(text))]
            }
            (TextEvent::Done(_), Some(parser)) => parser.finish(),
            _ => Vec::new(),
        };
        SequenceEvent { reasoning, parts, event }
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        if self.finish_reason.is_none() {
            self.meter.count_end(ABORTED, None);
        }
    }
}

pub(crate) fn timings(t: &wf_engine::Timings) -> Timings {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let rate = |tokens: usize, time: Duration| match time.is_zero() {
        true => 0.0,
        false => tokens as f64 / time.as_secs_f64(),
    };
    let computed = t.prompt_tokens.saturating_sub(t.cached_tokens);
    let prefill = t.prompt.saturating_sub(t.queued);
    Timings {
        queue_ms: ms(t.queued),
        cache_n: t.cached_tokens as u32,
        prompt_n: computed as u32,
        prompt_ms: ms(prefill),
        prompt_per_second: rate(computed, prefill),
        predicted_n: t.completion_tokens as u32,
        predicted_ms: ms(t.decode),
        predicted_per_second: rate(t.timed_tokens, t.decode),
        passes_n: t.stats.passes as u32,
        draft_n: t.stats.drafted as u32,
        draft_n_accepted: t.stats.accepted as u32,
        out_of_sight_n: t.out_of_sight as u32,
    }
}

pub(crate) fn longer(a: Timings, b: Timings) -> Timings {
    let total = |t: &Timings| t.queue_ms + t.prompt_ms + t.predicted_ms;
    if total(&a) > total(&b) { a } else { b }
}
