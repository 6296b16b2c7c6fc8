//! OpenAI's completions API: `POST /v1/completions`.

mod write;

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wf_api::wire::{self, Completion, CompletionRequest, ErrorBody};

use super::handler::generate;
use super::openai::{CONSTRAINTS, FIELDS, ResponseMeta};
use super::{Dialect, Registration};
use crate::app::App;
use crate::error::ApiError;
use crate::generation::decoding::read_forwarded;
use crate::generation::sequences::Sequences;
use crate::generation::{Context, Generation, Prompt, constraint};
use write::CompletionWriter;

pub(super) const DIALECT: Registration =
    Registration { routes: || OpenApiRouter::new().routes(routes!(completions)), errors: None };

/// OpenAI's default of `max_tokens`.
const DEFAULT_MAX_TOKENS: u32 = 16;

/// Continues texts.
#[utoipa::path(
    post,
    path = "/v1/completions",
    tag = "OpenAI",
    request_body = CompletionRequest,
    responses(
        (status = 200, description = "The completions; with `stream`, server-sent events of Completion",
         content((Completion = "application/json"), (Completion = "text/event-stream"))),
        (status = "default", description = "Error", body = ErrorBody),
    )
)]
async fn completions(State(app): State<App>, request: Request<Body>) -> Result<Response, ApiError> {
    generate::<Completions>(app, request).await
}

struct Completions {
    echo: bool,
}

impl Dialect for Completions {
    type Request = CompletionRequest;
    type Writer = CompletionWriter;

    fn read(
        mut request: CompletionRequest,
        cx: &Context<'_>,
    ) -> Result<(Self, Generation), ApiError> {
        cx.model.check_name(request.model.as_deref())?;
        let constraint = constraint::take(CONSTRAINTS, &mut request.extra)?;
        FIELDS.check(&request.extra)?;
        let limits = &cx.app.options.limits;
        let echo = request.echo.unwrap_or(false);
        let max_tokens = *request.sampling.max_tokens.get_or_insert(DEFAULT_MAX_TOKENS);
        if max_tokens == 0 && !echo {
            let message = "max_tokens is 0: must be at least 1, unless echo is true";
            return Err(ApiError::field("max_tokens", message));
        }
        read_forwarded(&mut request.sampling, &request.extra, None)?;
        if let Some(top) = request.logprobs.filter(|top| *top > limits.top_logprobs) {
            let max = limits.top_logprobs;
            let message = format!("logprobs is {top}: must be between 0 and {max}");
            return Err(ApiError::field("logprobs", message));
        }
        let missing = || ApiError::required("prompt");
        let add_bos = request.add_special_tokens.unwrap_or(true);
        let (prompt, prompts) = read_prompt(request.prompt.ok_or_else(missing)?, add_bos);
        let mut generation =
            Generation::new(cx, &request.params, request.sampling, "prompt", prompt)?;
        let sequences = prompts * generation.choices as usize;
        if sequences > limits.sequences {
            let max = limits.sequences;
            let message = format!("request has {sequences} completions: must have at most {max}");
            return Err(ApiError::field("prompt", message));
        }
        let settings = &mut generation.settings;
        settings.logprobs = request.logprobs.map(|top| top as usize);
        if echo {
            // Without tokens to generate, the prompt has to be computed all the same.
            settings.prompt_logprobs = settings.logprobs.or((max_tokens == 0).then_some(0));
        }
        Ok((Self { echo }, Generation { constraint, ..generation }))
    }

    fn writer(
        self,
        cx: &Context<'_>,
        generation: &Generation,
        sequences: &Sequences,
    ) -> CompletionWriter {
        let meta = ResponseMeta::new(cx, "cmpl", generation);
        CompletionWriter::new(meta, self.echo, sequences)
    }
}

/// Returns the prompt, and the number of texts in it.
fn read_prompt(prompt: wire::Prompt, add_bos: bool) -> (Prompt, usize) {
    match prompt {
        wire::Prompt::Text(text) => (Prompt::Texts { texts: vec![text], add_bos }, 1),
        wire::Prompt::Texts(texts) => {
            let count = texts.len();
            (Prompt::Texts { texts, add_bos }, count)
        }
        wire::Prompt::Ids(ids) => (Prompt::Tokens(vec![ids]), 1),
        wire::Prompt::ManyIds(many) => {
            let count = many.len();
            (Prompt::Tokens(many), count)
        }
    }
}
