//! SGLang's API, so that `sglang-router` can use this server as a worker: `/generate` here, the routes that
//! describe the worker in `info.rs`.

mod info;
mod wire;
mod write;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::Response;
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wf_api::wire::{ErrorBody, Sampling};

use super::openai::{CONSTRAINTS, FIELDS};
use super::{Dialect, Registration, handler};
use crate::app::App;
use crate::error::ApiError;
use crate::generation::decoding::read_forwarded;
use crate::generation::sequences::Sequences;
use crate::generation::{Context, Generation, Prompt, constraint};
use wire::{GenerateRequest, GenerateResponse, MetaInfo};
use write::SglangWriter;

pub(super) const DIALECT: Registration = Registration {
    routes: || {
        // Routers of other versions use these names.
        let aliases = Router::new()
            .route("/get_server_info", get(info::server_info))
            .route("/get_model_info", get(info::model_info));
        OpenApiRouter::from(aliases)
            .routes(routes!(generate))
            .routes(routes!(info::server_info))
            .routes(routes!(info::model_info))
            .routes(routes!(info::flush_cache))
            .routes(routes!(info::loads))
    },
    errors: None,
};

/// SGLang's default of `max_new_tokens`.
const DEFAULT_MAX_TOKENS: u32 = 128;

/// Continues a text.
#[utoipa::path(
    post,
    path = "/generate",
    tag = "SGLang",
    request_body = GenerateRequest,
    responses(
        (status = 200, description = "The response, a list of several, or server-sent events",
         content((GenerateResponse = "application/json"), (GenerateResponse = "text/event-stream"))),
        (status = "default", description = "Error", body = ErrorBody),
    )
)]
async fn generate(State(app): State<App>, request: Request<Body>) -> Result<Response, ApiError> {
    handler::generate::<Sglang>(app, request).await
}

struct Sglang {
    /// The request's own id, if it has one.
    id: Option<String>,
}

impl Dialect for Sglang {
    type Request = GenerateRequest;
    type Writer = SglangWriter;

    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("max_tokens", "max_new_tokens"),
        ("min_tokens", "min_new_tokens"),
        ("seed", "sampling_seed"),
    ];

    fn read(
        mut request: GenerateRequest,
        cx: &Context<'_>,
    ) -> Result<(Self, Generation), ApiError> {
        // The router adds the name of the model.
        if let Some(name) = request.extra.remove("model") {
            cx.model.check_name(name.as_str())?;
        }
        FIELDS.check(&request.extra)?;
        let mut params = request.sampling_params.unwrap_or_default();
        let constraint = constraint::take(CONSTRAINTS, &mut params.extra)?;
        FIELDS.check(&params.extra)?;
        let mut sampling = Sampling {
            seed: params.sampling_seed,
            max_tokens: Some(params.max_new_tokens.unwrap_or(DEFAULT_MAX_TOKENS)),
            min_tokens: params.min_new_tokens,
            stop: params.stop,
            stop_token_ids: params.stop_token_ids,
            ignore_eos: params.ignore_eos,
            skip_special_tokens: params.skip_special_tokens,
            n: params.n,
            stream: request.stream,
            priority: request.priority,
            ..Sampling::default()
        };
        read_forwarded(&mut sampling, &request.extra, None)?;
        let prompt = match (request.text, request.input_ids) {
            (Some(text), None) => Prompt::Texts { texts: vec![text], add_bos: true },
            (None, Some(ids)) => Prompt::Tokens(vec![ids]),
            _ => return Err(ApiError::field("text", "expected either text or input_ids")),
        };
        let mut generation = Generation::new(cx, &params.params, sampling, "text", prompt)?;
        let max = cx.app.options.limits.top_logprobs;
        let top = request.top_logprobs_num.unwrap_or(0);
        if top > max {
            let message = format!("top_logprobs_num is {top}: must be between 0 and {max}");
            return Err(ApiError::field("top_logprobs_num", message));
        }
        if request.return_logprob.unwrap_or(false) {
            generation.settings.logprobs = Some(top as usize);
            match request.logprob_start_len.unwrap_or(-1) {
                -1 => {}
                0 => generation.settings.prompt_logprobs = Some(top as usize),
                start => {
                    let message = format!(
                        "logprob_start_len is {start}: must be -1 (no prompt) or 0 (whole prompt)"
                    );
                    return Err(ApiError::field("logprob_start_len", message));
                }
            }
        }
        Ok((Self { id: request.rid }, Generation { constraint, ..generation }))
    }

    fn writer(
        self,
        cx: &Context<'_>,
        generation: &Generation,
        sequences: &Sequences,
    ) -> SglangWriter {
        let settings = &generation.settings;
        let logprobs = settings.logprobs;
        let empty = GenerateResponse {
            text: String::new(),
            output_ids: Vec::new(),
            index: None,
            meta_info: MetaInfo {
                id: self.id.unwrap_or_else(|| cx.request_id.clone()),
                prompt_tokens: sequences.prompt(0).len() as u32,
                weight_version: "default".into(),
                output_token_logprobs: logprobs.map(|_| Vec::new()),
                output_top_logprobs: logprobs.filter(|top| *top > 0).map(|_| Vec::new()),
                input_token_logprobs: settings.prompt_logprobs.map(|_| Vec::new()),
                ..MetaInfo::default()
            },
        };
        SglangWriter::new(empty, sequences.len(), settings.stop.clone())
    }
}
