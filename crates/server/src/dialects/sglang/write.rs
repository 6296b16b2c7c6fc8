//! Responses of `/generate`. Each frame of a stream has all of the text so far.

use std::time::Instant;

use wf_api::sse;
use wf_engine::{Finish, FinishReason, Logprobs, SampledToken, StopCause, TokenId};

use super::super::Writer;
use super::wire::{
    GenerateResponse, GenerateResponses, MatchedStop, SglangFinishReason, SglangLogprob,
};
use crate::generation::logprobs::finite;
use crate::generation::sequences::{SequenceEvent, Sequences, text_of};

pub(super) struct SglangWriter {
    /// Everything sent so far.
    sent: GenerateResponses,
    /// Prompt tokens of each sequence whose logprobs have been sent.
    prompt_tokens: Vec<usize>,
    stop_strings: Vec<String>,
    arrived: Instant,
}

/// A change of one response.
pub(super) struct Change {
    index: usize,
    e2e_latency: f64,
    kind: ChangeKind,
}

enum ChangeKind {
    Cached(u32),
    Token { text: String, token: Option<SampledToken> },
    Prompt(Vec<SglangLogprob>),
    Finished(SglangFinishReason),
}

impl SglangWriter {
    pub(super) fn new(empty: GenerateResponse, count: usize, stop_strings: Vec<String>) -> Self {
        let sent = match count {
            1 => GenerateResponses::One(Box::new(empty)),
            _ => {
                let indexed =
                    |index| GenerateResponse { index: Some(index as u32), ..empty.clone() };
                GenerateResponses::Many((0..count).map(indexed).collect())
            }
        };
        Self { sent, prompt_tokens: vec![0; count], stop_strings, arrived: Instant::now() }
    }

    /// Pairs the next tokens of a prompt with their logprobs. The first token has none.
    fn prompt_logprobs(
        &mut self,
        prompt: &[TokenId],
        at: usize,
        logprobs: &[Logprobs],
    ) -> Vec<SglangLogprob> {
        let done = &mut self.prompt_tokens[at];
        let first = (*done == 0).then_some(None).into_iter();
        let values = first.chain(logprobs.iter().map(|one| Some(finite(one.logprob))));
        let pairs = values.zip(&prompt[*done..]).map(|(logprob, &token)| (logprob, token, None));
        let pairs: Vec<_> = pairs.collect();
        *done += pairs.len();
        pairs
    }

    fn finish_reason(&self, finish: &Finish) -> SglangFinishReason {
        match finish.reason {
            FinishReason::Stop => SglangFinishReason::Stop {
                matched: finish.stop_cause.as_ref().map(|cause| match *cause {
                    StopCause::Token(token) => MatchedStop::Token(token),
                    StopCause::String(at) => MatchedStop::Text(self.stop_strings[at].clone()),
                }),
            },
            FinishReason::Length => {
                SglangFinishReason::Length { length: finish.timings.completion_tokens as u32 }
            }
            reason => SglangFinishReason::Abort { message: reason.name().to_owned() },
        }
    }
}

impl Change {
    fn apply(self, response: &mut GenerateResponse) {
        let meta = &mut response.meta_info;
        meta.e2e_latency = self.e2e_latency;
        match self.kind {
            ChangeKind::Cached(cached) => meta.cached_tokens = cached,
            ChangeKind::Prompt(logprobs) => {
                if let Some(all) = &mut meta.input_token_logprobs {
                    all.extend(logprobs);
                }
            }
            ChangeKind::Token { text, token } => {
                response.text.push_str(&text);
                let Some(SampledToken { token, logprobs }) = token else { return };
                response.output_ids.push(token);
                meta.completion_tokens += 1;
                let Some(Logprobs { logprob, top }) = logprobs else { return };
                let entry = |token, logprob| (Some(finite(logprob)), token, None);
                if let Some(all) = &mut meta.output_token_logprobs {
                    all.push(entry(token, logprob));
                }
                if let Some(all) = &mut meta.output_top_logprobs {
                    all.push(
                        top.into_iter().map(|(token, logprob)| entry(token, logprob)).collect(),
                    );
                }
            }
            ChangeKind::Finished(reason) => meta.finish_reason = Some(reason),
        }
    }
}

impl Writer for SglangWriter {
    type Frame = Change;
    type Response = GenerateResponses;

    fn event(&mut self, sequences: &Sequences, at: usize, event: SequenceEvent) -> Vec<Change> {
        let kind = match event {
            SequenceEvent::Started { cached } => ChangeKind::Cached(cached as u32),
            SequenceEvent::PromptLogprobs(logprobs) => {
                ChangeKind::Prompt(self.prompt_logprobs(sequences.prompt(at), at, &logprobs))
            }
            SequenceEvent::Delta { parts, token } => {
                ChangeKind::Token { text: text_of(parts), token }
            }
            SequenceEvent::Done { finish, .. } => ChangeKind::Finished(self.finish_reason(&finish)),
            SequenceEvent::Progress { .. } | SequenceEvent::Preview(_) => return Vec::new(),
        };
        vec![Change { index: at, e2e_latency: self.arrived.elapsed().as_secs_f64(), kind }]
    }

    fn response(&self) -> GenerateResponses {
        self.sent.clone()
    }

    fn fold(response: &mut GenerateResponses, change: Change) {
        let response = response.get_mut(change.index);
        change.apply(response);
    }

    /// Only new tokens and the end are sent.
    fn encode(&mut self, change: Change) -> String {
        let response = self.sent.get_mut(change.index);
        let is_sent = match &change.kind {
            ChangeKind::Token { text, token } => !text.is_empty() || token.is_some(),
            ChangeKind::Finished(_) => true,
            ChangeKind::Cached(_) | ChangeKind::Prompt(_) => false,
        };
        change.apply(response);
        if is_sent { sse::json_event(&*response) } else { String::new() }
    }
}
