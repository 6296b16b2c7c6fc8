//! OpenAI's chat API: `POST /v1/chat/completions`.

mod write;

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wf_api::wire::{ChatChunk, ChatCompletion, ChatRequest, ErrorBody};
use wf_engine::ChatOptions;

use super::handler::generate;
use super::openai::{CHAT_TOOLS, CONSTRAINTS, FIELDS, ResponseMeta};
use super::{Dialect, Registration};
use crate::app::App;
use crate::error::ApiError;
use crate::generation::conversation::{check_options, read_messages};
use crate::generation::decoding::read_forwarded;
use crate::generation::sequences::Sequences;
use crate::generation::tools::{Tools, read_openai_choice};
use crate::generation::{Context, Generation, Prompt, constraint};
use write::ChatWriter;

pub(super) const DIALECT: Registration =
    Registration { routes: || OpenApiRouter::new().routes(routes!(chat)), errors: None };

/// Generates a message.
#[utoipa::path(
    post,
    path = "/v1/chat/completions",
    tag = "OpenAI",
    request_body = ChatRequest,
    responses(
        (status = 200, description = "The completions; with `stream`, server-sent events of ChatChunk",
         content((ChatCompletion = "application/json"), (ChatChunk = "text/event-stream"))),
        (status = "default", description = "Error", body = ErrorBody),
    )
)]
async fn chat(State(app): State<App>, request: Request<Body>) -> Result<Response, ApiError> {
    generate::<Chat>(app, request).await
}

struct Chat;

impl Dialect for Chat {
    type Request = ChatRequest;
    type Writer = ChatWriter;

    fn read(mut request: ChatRequest, cx: &Context<'_>) -> Result<(Self, Generation), ApiError> {
        cx.model.check_name(request.model.as_deref())?;
        let constraint = constraint::take(CONSTRAINTS, &mut request.extra)?;
        FIELDS.check(&request.extra)?;
        let sampling = &mut request.sampling;
        sampling.max_tokens = request.max_completion_tokens.or(sampling.max_tokens);
        if sampling.max_tokens == Some(0) {
            return Err(ApiError::field("max_tokens", "max_tokens is 0: must be at least 1"));
        }
        read_forwarded(sampling, &request.extra, request.chat_template_kwargs.as_ref())?;
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
        let messages = read_messages(cx.app, request.messages)?;
        let prompt = Prompt::Chat { messages, options };
        let mut generation =
            Generation::new(cx, &request.params, request.sampling, "messages", prompt)?;
        generation.settings.logprobs = logprobs;
        Ok((Self, Generation { constraint, tools, ..generation }))
    }

    fn writer(
        self,
        cx: &Context<'_>,
        generation: &Generation,
        sequences: &Sequences,
    ) -> ChatWriter {
        let meta = ResponseMeta::new(cx, "chatcmpl", generation);
        ChatWriter::new(meta, sequences.len())
    }
}

fn logprobs(cx: &Context<'_>, logprobs: bool, top: Option<u32>) -> Result<Option<usize>, ApiError> {
    let max = cx.app.options.limits.top_logprobs;
    if let Some(top) = top.filter(|top| *top > max) {
        let message = format!("top_logprobs is {top}: must be between 0 and {max}");
        return Err(ApiError::field("top_logprobs", message));
    }
    if top.is_some_and(|top| top > 0) && !logprobs {
        return Err(ApiError::field("top_logprobs", "top_logprobs needs logprobs to be true"));
    }
    Ok(logprobs.then(|| top.unwrap_or(0) as usize))
}
