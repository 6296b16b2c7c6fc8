//! OpenAI's chat API: `POST /v1/chat/completions`.

mod write;

use wf_api::wire::{ChatChunk, ChatCompletion, ChatRequest, ErrorBody};
use wf_engine::ChatOptions;

use super::openai::{CHAT_TOOLS, FIELDS, ResponseMeta, check_top};
use super::{Dialect, Registration};
use crate::error::ApiError;
use crate::generation::conversation::{check_options, read_messages};
use crate::generation::decoding::take_settings;
use crate::generation::{Context, Generation, Prompt, Sequences, Tools, read_openai_choice};
use crate::http::routes::{Doc, Routes};
use write::ChatWriter;

pub(super) const DIALECT: Registration = Registration {
    routes: || {
        let response = "The completions; with `stream`, server-sent events of ChatChunk";
        Routes::new::<ErrorBody>("OpenAI").generate::<Chat, ChatCompletion, ChatChunk>(
            "/v1/chat/completions",
            Doc("chat", "Generates a message.", response),
        )
    },
    errors: None,
};

struct Chat;

impl Dialect for Chat {
    type Request = ChatRequest;
    type Writer = ChatWriter;

    fn read(mut request: ChatRequest, cx: &Context) -> Result<(Self, Generation), ApiError> {
        cx.model.check_name(request.model.as_deref())?;
        let sampling = &mut request.sampling;
        let kwargs = request.chat_template_kwargs.as_ref();
        let decode = take_settings(sampling.decode.take(), &mut request.extra, kwargs)?;
        let constraint = FIELDS.read(&mut request.extra)?;
        sampling.max_tokens = request.max_completion_tokens.or(sampling.max_tokens);
        if sampling.max_tokens == Some(0) {
            return Err(ApiError::field("max_tokens", "max_tokens is 0: must be at least 1"));
        }
        let logprobs = logprobs(cx, request.logprobs.unwrap_or(false), request.top_logprobs)?;
        let choice = request.tool_choice.as_ref();
        let choice = read_openai_choice(choice, |choice| choice.get("function")?.get("name"))?;
        let parallel = request.parallel_tool_calls.unwrap_or(true);
        let tools = Tools::new(CHAT_TOOLS.read(request.tools)?, choice, parallel)?;
        let options = ChatOptions {
            add_generation_prompt: request.add_generation_prompt.unwrap_or(true),
            continue_final: request.continue_final_message.unwrap_or(false),
            tools: Tools::for_template(tools.as_ref()),
            extra: request.chat_template_kwargs.unwrap_or_default(),
        };
        check_options(&options, request.add_generation_prompt)?;
        let messages = read_messages(&cx.app, request.messages)?;
        let prompt = Prompt::Chat { messages, options };
        let (params, sampling) = (&request.params, request.sampling);
        let mut generation = Generation::new(cx, params, sampling, &decode, "messages", prompt)?;
        generation.settings.logprobs = logprobs;
        Ok((Self, Generation { constraint, tools, ..generation }))
    }

    fn writer(self, cx: &Context, generation: &Generation, sequences: &Sequences) -> ChatWriter {
        ChatWriter::new(ResponseMeta::new(cx, "chatcmpl", generation), sequences.len())
    }
}

fn logprobs(cx: &Context, logprobs: bool, top: Option<u32>) -> Result<Option<usize>, ApiError> {
    check_top(cx, "top_logprobs", top)?;
    if top.is_some_and(|top| top > 0) && !logprobs {
        return Err(ApiError::field("top_logprobs", "top_logprobs needs logprobs to be true"));
    }
    Ok(logprobs.then(|| top.unwrap_or(0) as usize))
}
