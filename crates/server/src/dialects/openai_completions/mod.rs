//! OpenAI's completions API: `POST /v1/completions`.

mod write;

use wf_api::wire::{self, Completion, CompletionRequest, ErrorBody};

use super::openai::{FIELDS, ResponseMeta, check_top};
use super::{Dialect, Registration};
use crate::error::ApiError;
use crate::generation::decoding::take_settings;
use crate::generation::{Context, Generation, Prompt, Sequences};
use crate::http::body::RequestBody;
use crate::http::raw_fields::FieldUse;
use crate::http::routes::{Doc, Routes};
use write::CompletionWriter;

pub(super) const DIALECT: Registration = Registration {
    routes: || {
        let response = "The completions; with `stream`, server-sent events of Completion";
        Routes::new::<ErrorBody>("OpenAI").generate::<Completions, Completion, Completion>(
            "/v1/completions",
            Doc("completions", "Continues texts.", response),
        )
    },
    errors: None,
};

/// OpenAI's default of `max_tokens`.
const DEFAULT_MAX_TOKENS: u32 = 16;

impl RequestBody for CompletionRequest {
    const TOKEN_LISTS: &'static [&'static str] = &["prompt"];

    fn use_of(field: &str) -> FieldUse {
        FIELDS.use_of(field)
    }
}

struct Completions {
    echo: bool,
}

impl Dialect for Completions {
    type Request = CompletionRequest;
    type Writer = CompletionWriter;

    fn read(mut request: CompletionRequest, cx: &Context) -> Result<(Self, Generation), ApiError> {
        let mut sampling = request.sampling;
        let decode = take_settings(sampling.decode.take(), &mut request.extra, None)?;
        let constraint = FIELDS.read(&mut request.extra, &cx.unknown_fields)?;
        let echo = request.echo.unwrap_or(false);
        let max_tokens = *sampling.max_tokens.get_or_insert(DEFAULT_MAX_TOKENS);
        if max_tokens == 0 && !echo {
            let message = "max_tokens is 0: must be at least 1, unless echo is true";
            return Err(ApiError::field("max_tokens", message));
        }
        check_top(cx, "logprobs", request.logprobs)?;
        let prompt = request.prompt.ok_or_else(|| ApiError::required("prompt"))?;
        let (prompt, prompts) = read_prompt(prompt, request.add_special_tokens.unwrap_or(true));
        let mut generation =
            Generation::new(cx, &request.params, sampling, &decode, "prompt", prompt)?;
        let (sequences, max) =
            (prompts * generation.choices as usize, cx.app.options.limits.sequences);
        if sequences > max {
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

    fn writer(self, cx: &Context, generation: &Generation, all: &Sequences) -> CompletionWriter {
        CompletionWriter::new(ResponseMeta::new(cx, "cmpl", generation), self.echo, all)
    }
}

/// Returns the prompt, and the number of texts in it.
fn read_prompt(prompt: wire::Prompt, add_bos: bool) -> (Prompt, usize) {
    let texts = |texts: Vec<String>| (texts.len(), Prompt::Texts { texts, add_bos });
    let tokens = |many: Vec<_>| (many.len(), Prompt::Tokens(many));
    let (count, prompt) = match prompt {
        wire::Prompt::Text(text) => texts(vec![text]),
        wire::Prompt::Texts(many) => texts(many),
        wire::Prompt::Ids(ids) => tokens(vec![ids]),
        wire::Prompt::ManyIds(many) => tokens(many),
    };
    (prompt, count)
}
