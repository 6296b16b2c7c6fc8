//! OpenAI's chat API: `POST /v1/chat/completions`.

mod functions;
mod write;

use wf_api::wire::{ChatChunk, ChatCompletion, ChatRequest, ErrorBody};
use wf_engine::ChatOptions;

use super::openai::{CHAT_TOOLS, FIELDS, ResponseMeta, logprobs};
use super::{Dialect, Registration};
use crate::error::ApiError;
use crate::generation::conversation::{check_options, read_messages};
use crate::generation::decoding::take_settings;
use crate::generation::{
    Context, Generation, Prompt, Sequences, Thinking, Tools, read_openai_choice,
};
use crate::http::body::{Names, RequestBody};
use crate::http::raw_fields::FieldUse;
use crate::http::routes::{Doc, Routes};
use functions::Functions;
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

impl RequestBody for ChatRequest {
    const OTHER_NAMES: Names = &[("max_tokens", "max_completion_tokens")];

    fn use_of(field: &str) -> FieldUse {
        match field {
            // Other dialects ignore them.
            "parallel_tool_calls" | "reasoning_effort" => FieldUse::Read,
            _ => FIELDS.use_of(field),
        }
    }
}

struct Chat {
    /// Calls have the form that they had before tools.
    writes_functions: bool,
}

impl Dialect for Chat {
    type Request = ChatRequest;
    type Writer = ChatWriter;

    fn read(mut request: ChatRequest, cx: &Context) -> Result<(Self, Generation), ApiError> {
        let sampling = &mut request.sampling;
        let kwargs = request.chat_template_kwargs.as_ref();
        let decode = take_settings(sampling.decode.take(), &mut request.extra, kwargs)?;
        let functions = Functions::take(&mut request.extra, request.tools.is_some())?;
        let writes_functions = functions.is_some();
        let thinking = Thinking::take(&mut request.extra, kwargs)?;
        let constraint = FIELDS.read(&mut request.extra, &cx.unknown_fields)?;
        sampling.max_tokens = request.max_completion_tokens.or(sampling.max_tokens);
        if sampling.max_tokens == Some(0) {
            return Err(ApiError::field("max_tokens", "max_tokens is 0: must be at least 1"));
        }
        let logprobs = logprobs(cx, request.logprobs.unwrap_or(false), request.top_logprobs)?;
        let tools = match functions {
            Some(functions) => functions.into_tools(cx)?,
            None => {
                let choice = request.tool_choice.as_ref();
                let choice =
                    read_openai_choice(choice, |choice| choice.get("function")?.get("name"))?;
                let parallel = request.parallel_tool_calls.unwrap_or(true);
                let tools = request.tools.as_deref();
                Tools::new(CHAT_TOOLS.read(tools, &cx.unknown_fields)?, choice, parallel)?
            }
        };
        let options = ChatOptions {
            add_generation_prompt: request.add_generation_prompt.unwrap_or(true),
            continue_final: request.continue_final_message.unwrap_or(false),
            tools: Tools::for_template(tools.as_ref()),
            extra: request.chat_template_kwargs.unwrap_or_default(),
            ..ChatOptions::default()
        };
        check_options(&options, request.add_generation_prompt)?;
        request.messages.iter_mut().for_each(functions::modernize);
        let messages = read_messages(&cx.app, request.messages)?;
        let prompt = Prompt::Chat { messages, options };
        let (params, sampling) = (&request.params, request.sampling);
        let mut generation = Generation::new(cx, params, sampling, &decode, "messages", prompt)?;
        generation.settings.logprobs = logprobs;
        let chat = Self { writes_functions };
        Ok((chat, Generation { constraint, tools, thinking, ..generation }))
    }

    fn writer(self, cx: &Context, generation: &Generation, sequences: &Sequences) -> ChatWriter {
        let meta = ResponseMeta::new(cx, "chatcmpl", generation);
        ChatWriter::new(meta, sequences.len(), self.writes_functions)
    }
}
