//! Responses of `/generate`. Each frame of a stream has all of the text so far.

use std::time::Instant;

use serde::{Serialize, Serializer};
use wf_api::sse;
use wf_engine::{Finish, FinishReason, Logprobs, SampledToken, StopCause, TextEvent, TokenId};

use super::super::Writer;
use super::wire::{GenerateResponse, MatchedStop, SglangFinishReason, SglangLogprob};
use crate::generation::logprobs::finite;
use crate::generation::sequences::text_of;
use crate::generation::{SequenceEvent, Sequences};

pub(super) struct SglangWriter {
    responses: Vec<GenerateResponse>,
    /// Prompt tokens of each sequence whose logprobs have been written.
    prompt_tokens: Vec<usize>,
    stop_strings: Vec<String>,
    arrived: Instant,
}

impl SglangWriter {
    pub(super) fn new(empty: &GenerateResponse, count: usize, stop_strings: Vec<String>) -> Self {
        let one = |index| GenerateResponse {
            index: (count > 1).then_some(index as u32),
            ..empty.clone()
        };
        let responses = (0..count).map(one).collect();
        Self { responses, prompt_tokens: vec![0; count], stop_strings, arrived: Instant::now() }
    }

    /// Pairs the next tokens of a prompt with their logprobs. The first token has none.
    fn add_prompt(&mut self, prompt: &[TokenId], at: usize, logprobs: &[Logprobs]) {
        let done = &mut self.prompt_tokens[at];
        let first = (*done == 0).then_some(None).into_iter();
        let values = first.chain(logprobs.iter().map(|one| Some(finite(one.logprob))));
        let pairs = values.zip(&prompt[*done..]).map(|(logprob, &token)| (logprob, token, None));
        let pairs: Vec<SglangLogprob> = pairs.collect();
        *done += pairs.len();
        if let Some(all) = &mut self.responses[at].meta_info.input_token_logprobs {
            all.extend(pairs);
        }
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

fn add_token(response: &mut GenerateResponse, SampledToken { token, logprobs }: SampledToken) {
    response.output_ids.push(token);
    let meta = &mut response.meta_info;
    meta.completion_tokens += 1;
    let Some(Logprobs { logprob, top }) = logprobs else { return };
    let entry = |(token, logprob)| (Some(finite(logprob)), token, None);
    if let Some(all) = &mut meta.output_token_logprobs {
        all.push(entry((token, logprob)));
    }
    if let Some(all) = &mut meta.output_top_logprobs {
        all.push(top.into_iter().map(entry).collect());
    }
}

/// One response, or a list of several.
pub(super) struct GenerateResponses(Vec<GenerateResponse>);

impl Serialize for GenerateResponses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            many => many.serialize(serializer),
        }
    }
}

impl Writer for SglangWriter {
    /// Index of a response that has changed.
    type Frame = usize;
    type Response = GenerateResponses;

    /// Only new tokens and the end are sent.
    fn event(&mut self, sequences: &Sequences, at: usize, event: SequenceEvent) -> Vec<usize> {
        let mut is_sent = false;
        match event.event {
            TextEvent::Started { cached } => {
                self.responses[at].meta_info.cached_tokens = cached as u32;
            }
            TextEvent::PromptLogprobs(logprobs) => {
                self.add_prompt(sequences.prompt(at), at, &logprobs);
            }
            TextEvent::Text { token, .. } => {
                let text = text_of(event.parts);
                is_sent = !text.is_empty() || token.is_some();
                self.responses[at].text += &text;
                token.into_iter().for_each(|token| add_token(&mut self.responses[at], token));
            }
            TextEvent::Done(finish) => {
                is_sent = true;
                self.responses[at].meta_info.finish_reason = Some(self.finish_reason(&finish));
            }
            TextEvent::Progress { .. } | TextEvent::Preview(_) => {}
        }
        self.responses[at].meta_info.e2e_latency = self.arrived.elapsed().as_secs_f64();
        is_sent.then_some(at).into_iter().collect()
    }

    fn response(self) -> GenerateResponses {
        GenerateResponses(self.responses)
    }

    fn encode(&self, at: &usize) -> String {
        sse::json_event(&self.responses[*at])
    }
}
