//! Chat completions and their chunks.

use wf_api::wire::{
    AssistantMessage, CalledFunction, ChatChoice, ChatChunk, ChatChunkChoice, ChatCompletion,
    ChatLogprobs, Delta, FunctionDelta, ToolCall, ToolCallDelta,
};
use wf_engine::{Finish, FinishReason, SampledToken, StopCause, TextEvent};
use wf_text::{Tokenizer, ToolCallEvent};

use super::super::Writer;
use super::super::openai::ResponseMeta;
use super::functions;
use crate::generation::logprobs::token_logprob;
use crate::generation::sequences::{longer, timings};
use crate::generation::tools::call_id;
use crate::generation::{SequenceEvent, Sequences};

pub(super) struct ChatWriter {
    meta: ResponseMeta,
    /// Number of tool calls of each choice so far.
    calls: Vec<u32>,
    /// Calls have the form that they had before tools.
    writes_functions: bool,
    response: ChatCompletion,
}

/// New text of a choice, and the token it came with.
struct NewText {
    reasoning: String,
    parts: Vec<ToolCallEvent>,
    token: Option<SampledToken>,
    is_reasoning: bool,
}

impl ChatWriter {
    pub(super) fn new(meta: ResponseMeta, choices: usize, writes_functions: bool) -> Self {
        let choice = |index| ChatChoice {
            index,
            message: AssistantMessage {
                role: "assistant".into(),
                content: Some(String::new()),
                ..AssistantMessage::default()
            },
            logprobs: meta.logprobs.then(ChatLogprobs::default),
            finish_reason: None,
            token_ids: meta.token_ids.then(Vec::new),
        };
        let response = ChatCompletion {
            id: meta.id.clone(),
            object: "chat.completion".into(),
            created: meta.created,
            model: meta.model.clone(),
            choices: (0..choices as u32).map(choice).collect(),
            system_fingerprint: meta.fingerprint.clone(),
            seed: meta.seed,
            ..ChatCompletion::default()
        };
        Self { meta, calls: vec![0; choices], writes_functions, response }
    }

    fn chunk(&self, choices: Vec<ChatChunkChoice>) -> ChatChunk {
        ChatChunk {
            id: self.meta.id.clone(),
            object: "chat.completion.chunk".into(),
            created: self.meta.created,
            model: self.meta.model.clone(),
            system_fingerprint: self.meta.fingerprint.clone(),
            choices,
            usage: self.meta.include_usage.then_some(None),
            ..ChatChunk::default()
        }
    }

    /// Returns the chunks of new thinking, text and calls. Token id and logprobs are in the first of them.
    fn deltas(&mut self, at: usize, new: NewText, tokenizer: &Tokenizer) -> Vec<ChatChunk> {
        let NewText { reasoning, parts, token, is_reasoning } = new;
        let mut deltas: Vec<Delta> = reasoning_delta(reasoning).into_iter().collect();
        deltas.extend(parts.into_iter().filter_map(|part| delta(&mut self.calls[at], part)));
        if self.writes_functions {
            deltas = deltas.into_iter().map(functions::renamed).collect();
        }
        let describes_tokens = self.meta.logprobs || self.meta.token_ids;
        if deltas.is_empty() && describes_tokens && token.is_some() {
            deltas.push(Delta { content: Some(String::new()), ..Delta::default() });
        }
        let token_id = token.as_ref().map(|token| vec![token.token]);
        let mut token_ids = token_id.filter(|_| self.meta.token_ids);
        let answered = token.filter(|_| !is_reasoning);
        let mut logprobs = answered.and_then(|SampledToken { token, logprobs }| {
            let content = vec![token_logprob(tokenizer, token, &logprobs?)];
            Some(ChatLogprobs { content, refusal: None })
        });
        let choice = |delta| ChatChunkChoice {
            index: at as u32,
            delta,
            logprobs: logprobs.take(),
            finish_reason: None,
            token_ids: token_ids.take(),
        };
        let choices: Vec<_> = deltas.into_iter().map(choice).collect();
        choices.into_iter().map(|choice| self.chunk(vec![choice])).collect()
    }
}

impl Writer for ChatWriter {
    type Frame = ChatChunk;
    type Response = ChatCompletion;

    fn start(&mut self, sequences: &Sequences) -> Vec<ChatChunk> {
        let role = |index| ChatChunkChoice {
            index,
            delta: Delta {
                role: Some("assistant".into()),
                content: Some(String::new()),
                ..Delta::default()
            },
            ..ChatChunkChoice::default()
        };
        let mut chunks: Vec<_> =
            (0..sequences.len() as u32).map(|index| self.chunk(vec![role(index)])).collect();
        if let Some(first) = chunks.first_mut() {
            first.seed = Some(self.meta.seed);
            first.prompt_token_ids = self.meta.token_ids.then(|| sequences.prompt(0).to_vec());
        }
        chunks
    }

    fn event(
        &mut self,
        sequences: &Sequences,
        at: usize,
        SequenceEvent { reasoning, parts, mut event }: SequenceEvent,
    ) -> Vec<ChatChunk> {
        let (token, is_reasoning) = match &mut event {
            TextEvent::Text { token, is_reasoning, .. } => (token.take(), *is_reasoning),
            _ => (None, false),
        };
        let new = NewText { reasoning, parts, token, is_reasoning };
        let mut chunks = self.deltas(at, new, sequences.tokenizer());
        match event {
            TextEvent::Done(finish) => {
                let call = if self.writes_functions { "function_call" } else { "tool_calls" };
                let reason = finish_reason((self.calls[at] > 0).then_some(call), &finish);
                let end = ChatChunkChoice {
                    index: at as u32,
                    finish_reason: Some(reason.to_owned()),
                    ..ChatChunkChoice::default()
                };
                let timings = Some(timings(&finish.timings));
                chunks.push(ChatChunk { timings, ..self.chunk(vec![end]) });
            }
            TextEvent::Progress { done, total } if self.meta.progress => {
                let prompt_progress = Some(sequences.progress(at, done, total));
                chunks.push(ChatChunk { prompt_progress, ..self.chunk(Vec::new()) });
            }
            TextEvent::Preview(block) => {
                chunks.push(ChatChunk { block_preview: Some(block), ..self.chunk(Vec::new()) });
            }
            _ => {}
        }
        chunks
    }

    fn end(&mut self, sequences: &Sequences) -> Vec<ChatChunk> {
        let usage = self.meta.include_usage.then(|| Some(sequences.usage()));
        let chunk = usage.map(|usage| ChatChunk { usage: Some(usage), ..self.chunk(Vec::new()) });
        chunk.into_iter().collect()
    }

    fn fold(&mut self, chunk: ChatChunk) {
        let response = &mut self.response;
        for part in chunk.choices {
            fold_choice(&mut response.choices[part.index as usize], part);
        }
        if let Some(ids) = chunk.prompt_token_ids {
            response.prompt_token_ids = Some(ids);
        }
        if let Some(timings) = chunk.timings {
            response.timings = longer(response.timings, timings);
        }
        if let Some(Some(usage)) = chunk.usage {
            response.usage = usage;
        }
    }

    fn response(self) -> ChatCompletion {
        self.response
    }
}

fn fold_choice(choice: &mut ChatChoice, mut part: ChatChunkChoice) {
    let message = &mut choice.message;
    functions::fold(message, &mut part.delta);
    for (whole, more) in [
        (&mut message.reasoning_content, part.delta.reasoning_content),
        (&mut message.reasoning, part.delta.reasoning),
    ] {
        more.into_iter().for_each(|more| whole.get_or_insert_default().push_str(&more));
    }
    if let Some(text) = part.delta.content {
        message.content.get_or_insert_default().push_str(&text);
    }
    for delta in part.delta.tool_calls.into_iter().flatten() {
        let calls = message.tool_calls.get_or_insert_default();
        if let Some(id) = delta.id {
            let name = delta.function.name.unwrap_or_default();
            let function = CalledFunction { name, arguments: String::new() };
            calls.push(ToolCall { id, kind: delta.kind.unwrap_or_default(), function });
        }
        if let Some(call) = calls.last_mut() {
            call.function.arguments.push_str(&delta.function.arguments);
        }
    }
    if let (Some(all), Some(new)) = (&mut choice.logprobs, part.logprobs) {
        all.content.extend(new.content);
    }
    if let (Some(all), Some(new)) = (&mut choice.token_ids, part.token_ids) {
        all.extend(new);
    }
    if part.finish_reason.is_some() {
        choice.finish_reason = part.finish_reason;
        if message.tool_calls.is_some() || message.function_call.is_some() {
            message.content = message.content.take().filter(|content| !content.is_empty());
        }
    }
}

/// Returns new thinking, under both of its names.
fn reasoning_delta(reasoning: String) -> Option<Delta> {
    let reasoning = Some(reasoning).filter(|reasoning| !reasoning.is_empty());
    let reasoning_content = reasoning.clone();
    reasoning.is_some().then(|| Delta { reasoning_content, reasoning, ..Delta::default() })
}

/// Returns what a part adds to a message; the end of a call adds nothing.
fn delta(calls: &mut u32, part: ToolCallEvent) -> Option<Delta> {
    let call = match part {
        ToolCallEvent::Text(text) => {
            return Some(Delta { content: Some(text), ..Delta::default() });
        }
        ToolCallEvent::Begin { name } => {
            *calls += 1;
            ToolCallDelta {
                id: Some(call_id("call")),
                kind: Some("function".into()),
                function: FunctionDelta { name: Some(name), arguments: String::new() },
                ..ToolCallDelta::default()
            }
        }
        ToolCallEvent::Arguments(arguments) => {
            let function = FunctionDelta { name: None, arguments };
            ToolCallDelta { function, ..ToolCallDelta::default() }
        }
        ToolCallEvent::End => return None,
    };
    let call = ToolCallDelta { index: calls.saturating_sub(1), ..call };
    Some(Delta { tool_calls: Some(vec![call]), ..Delta::default() })
}

/// Returns the finish reason. A stop string may have ended a response inside a call.
fn finish_reason(call: Option<&'static str>, finish: &Finish) -> &'static str {
    match (finish.reason, &finish.stop_cause, call) {
        (FinishReason::Stop, None | Some(StopCause::Token(_)), Some(call)) => call,
        (reason, ..) => reason.name(),
    }
}
