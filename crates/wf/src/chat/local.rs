//! Responses of a local model.

use std::collections::VecDeque;

use anyhow::{Result, bail, ensure};
use serde_json::Value;
use wf_core::{AttentionMode, SamplingOverrides};
use wf_engine::{
    ChatOptions, ChatTurn, DecodeMode, FrontendError, GenerationRequest, OpenedModel, PromptInput,
    RequestError, RunOptions, TextEvent, TextStream,
};
use wf_text::{ChatMessage, ToolCallEvent, ToolCallParser};

use super::args::ChatArgs;
use super::conversation::Message;
use super::response::{About, Chunk, Counts, window_hint};
use super::tools::{ToolCall, Tools};
use crate::args::{SamplingArgs, ThinkingArg};
use crate::{demo, open, output};

pub(crate) struct Local {
    model: OpenedModel,
    pub(super) about: About,
    decode: DecodeMode,
}

impl Local {
    pub(crate) fn open(args: &ChatArgs) -> Result<Self> {
        let path = args.model.as_deref();
        let draft = args.decoding.draft.as_deref();
        let disk_cache = args.disk_cache.options(output::note);
        let options = RunOptions { disk_cache, ..args.engine.options() };
        let model = open::model(path, draft, &options)?;
        let label = path.map_or_else(|| demo::NAME.to_owned(), |path| path.display().to_string());
        ensure!(
            model.frontend.text().template.is_some(),
            "{label}: the model has no chat template; to continue a text, use wf run --raw"
        );
        let name = open::name(&model.info, path).unwrap_or(label);
        let decode = args.decoding.mode(&model.frontend)?;
        let (context_len, attention) =
            (model.frontend.context_len(), model.frontend.engine().attention());
        let threads = output::count(model.threads, "thread");
        let mut details = format!("{} on {threads} · context {context_len} tokens", model.isa);
        if attention != AttentionMode::Dense {
            details += &format!(" · attention {attention}");
        }
        let about = About { name, details, context_len: Some(model.frontend.engine().max_len()) };
        Ok(Self { model, about, decode })
    }

    pub(crate) fn recommended_sampling(&self) -> SamplingOverrides {
        open::recommended_sampling(&self.model.generation_defaults)
    }

    pub(crate) fn close(self) {
        self.model.frontend.close();
    }

    pub(crate) fn respond(
        &self,
        messages: &[Message],
        sampling: &SamplingArgs,
        tools: &Tools,
    ) -> Result<LocalResponse> {
        let frontend = &self.model.frontend;
        let text = frontend.text();
        let names = tools.names();
        let parser = (!names.is_empty()).then(|| ToolCallParser::new(text.tool_format(), names));
        let turn = self.turn(messages, sampling.thinking, tools)?;
        let generate = GenerationRequest {
            decode: self.decode,
            thinking: turn.thinking,
            visible_specials: parser.as_ref().map_or_else(Vec::new, |_| text.tool_call_tokens()),
            ..sampling.generate(PromptInput::Tokens(Vec::new()))
        };
        match frontend.generate_from(turn.prompt, generate) {
            Ok(stream) => Ok(LocalResponse { stream, calls: Calls { parser, ..Calls::default() } }),
            Err(FrontendError::Request(RequestError::PromptTooLong { tokens, limit })) => bail!(
                "the context is full: the conversation has {tokens} tokens, the limit is {limit} with the \
                 response; /undo removes the last turn, /new starts over{}",
                window_hint(limit)
            ),
            Err(error) => Err(error.into()),
        }
    }
}

impl Local {
    fn turn(
        &self,
        messages: &[Message],
        thinking: Option<ThinkingArg>,
        tools: &Tools,
    ) -> Result<ChatTurn, FrontendError> {
        let messages: Vec<_> = messages.iter().map(chat_message).collect();
        let text = self.model.frontend.text();
        if thinking.is_some_and(ThinkingArg::is_on) && !text.can_think() {
            return Err(FrontendError::NoThinking { is_chat: true });
        }
        let options = ChatOptions {
            tools: tools.definitions(),
            thinking: thinking.map(ThinkingArg::is_on),
            opens_thinking: thinking.and_then(ThinkingArg::max_tokens).is_some(),
            ..ChatOptions::default()
        };
        text.chat_turn(&messages, &options)
    }
}

fn chat_message(message: &Message) -> ChatMessage {
    let mut chat = ChatMessage::new(message.role.as_str(), message.content.as_str());
    if !message.tool_calls.is_empty() {
        // Templates expect the arguments of calls as objects.
        let mut calls = message.tool_calls.clone();
        for call in &mut calls {
            let arguments = &mut call["function"]["arguments"];
            let parsed = arguments.as_str().and_then(|text| serde_json::from_str(text).ok());
            *arguments = parsed.unwrap_or_else(|| arguments.take());
        }
        chat.extra.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    if let Some(id) = &message.tool_call_id {
        chat.extra.insert("tool_call_id".to_owned(), Value::String(id.clone()));
    }
    chat
}

pub(crate) struct LocalResponse {
    stream: TextStream,
    calls: Calls,
}

/// Separates tool calls from the text of a response.
#[derive(Default)]
struct Calls {
    /// `None` if there are no tools.
    parser: Option<ToolCallParser>,
    call: ToolCall,
    count: usize,
    /// Parts that have not been returned yet.
    ready: VecDeque<Chunk>,
}

impl Calls {
    fn push(&mut self, text: &str) {
        let events = match &mut self.parser {
            None => vec![ToolCallEvent::Text(text.to_owned())],
            Some(parser) => parser.push(text),
        };
        self.take(events);
    }

    fn take(&mut self, events: Vec<ToolCallEvent>) {
        for event in events {
            match event {
                ToolCallEvent::Text(text) if text.is_empty() => {}
                ToolCallEvent::Text(text) => self.ready.push_back(Chunk::Text(text)),
                ToolCallEvent::Begin { name } => {
                    self.count += 1;
                    let id = format!("call-{}", self.count);
                    self.call = ToolCall { id, name, arguments: String::new() };
                }
                ToolCallEvent::Arguments(more) => self.call.arguments += &more,
                ToolCallEvent::End => {
                    let call = std::mem::take(&mut self.call);
                    self.ready.push_back(Chunk::Call(call));
                }
            }
        }
    }
}

impl LocalResponse {
    pub(crate) async fn next(&mut self) -> Result<Chunk> {
        loop {
            if let Some(chunk) = self.calls.ready.pop_front() {
                return Ok(chunk);
            }
            match self.stream.next_event().await {
                Some(Ok(TextEvent::Text { reasoning, text, .. })) => {
                    self.calls.push(&text);
                    if !reasoning.is_empty() {
                        return Ok(Chunk::Reasoning(reasoning));
                    }
                }
                Some(Ok(TextEvent::Done(finish))) => {
                    let events = self.calls.parser.as_mut().map(ToolCallParser::finish);
                    self.calls.take(events.unwrap_or_default());
                    let reason = finish.reason.name().to_owned();
                    self.calls.ready.push_back(Chunk::Done(reason));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Err(FrontendError::EngineStopped.into()),
            }
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let timings = self.stream.timings();
        Counts {
            prompt_tokens: timings.prompt_tokens,
            cached_tokens: Some(timings.cached_tokens),
            response_tokens: timings.completion_tokens,
            prompt: timings.prompt,
            response: timings.decode,
            seed: Some(self.stream.seed()),
            out_of_sight: timings.out_of_sight,
        }
    }
}
