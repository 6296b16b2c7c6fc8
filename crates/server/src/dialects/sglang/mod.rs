//! SGLang's API, so that `sglang-router` can use this server as a worker: `/generate` here, the routes that
//! describe the worker in `info.rs`.

mod info;
pub(super) mod wire;
mod write;

use axum::routing::{get, post};
use wf_api::wire::{ErrorBody, Sampling};
use wf_engine::DecodeSettings;

use super::openai::{FIELDS, check_top};
use super::{Dialect, Registration};
use crate::error::ApiError;
use crate::generation::decoding::add_forwarded;
use crate::generation::{Context, Generation, Prompt, Sequences};
use crate::http::body::{Names, RequestBody};
use crate::http::raw_fields::FieldUse;
use crate::http::routes::{Doc, JSON, Routes};
use info::{ModelInfo, ServerInfo, flush_cache, loads, model_info, server_info};
use wire::{GenerateRequest, GenerateResponse, MetaInfo};
use write::SglangWriter;

pub(super) const DIALECT: Registration = Registration { routes, errors: None };

fn routes() -> Routes {
    let response = "The response, a list of several, or server-sent events";
    let flushed = "The cache is cleared before the next step";
    Routes::new::<ErrorBody>("SGLang")
        .generate::<Sglang, GenerateResponse, GenerateResponse>(
            "/generate",
            Doc("generate", "Continues a text.", response),
        )
        .route::<ServerInfo>(
            "get",
            "/server_info",
            Doc("server_info", "Describes the server.", "Names and limits"),
            JSON,
            get(server_info),
        )
        .route::<ModelInfo>(
            "get",
            "/model_info",
            Doc("model_info", "Describes the model.", "Names of the model"),
            JSON,
            get(model_info),
        )
        .route::<String>(
            "post",
            "/flush_cache",
            Doc("flush_cache", "Clears the prefix cache, except what is in use.", flushed),
            "text/plain",
            post(flush_cache),
        )
        .get(
            "/v1/loads",
            Doc("loads", "Returns the load of the server.", "Tokens and sequences"),
            loads,
        )
        // Routers of other versions use these names.
        .alias_route("/get_server_info", get(server_info))
        .alias_route("/get_model_info", get(model_info))
}

/// SGLang's default of `max_new_tokens`.
const DEFAULT_MAX_TOKENS: u32 = 128;

impl RequestBody for GenerateRequest {
    const TOKEN_LISTS: &'static [&'static str] = &["input_ids"];
    const OWN_NAMES: Names = &[
        ("max_tokens", "max_new_tokens"),
        ("min_tokens", "min_new_tokens"),
        ("seed", "sampling_seed"),
    ];

    fn use_of(field: &str) -> FieldUse {
        match field {
            "sampling_params" => FieldUse::ReadFields(|field| !FIELDS.ignores(field)),
            "rid" => FieldUse::Read,
            _ => FIELDS.use_of(field),
        }
    }
}

struct Sglang {
    /// The request's own id, if it has one.
    id: Option<String>,
}

impl Dialect for Sglang {
    type Request = GenerateRequest;
    type Writer = SglangWriter;

    fn read(mut request: GenerateRequest, cx: &Context) -> Result<(Self, Generation), ApiError> {
        // The router adds the name of the model, which has been found by it.
        request.extra.remove("model");
        FIELDS.check(&request.extra, &cx.unknown_fields)?;
        let mut params = request.sampling_params.unwrap_or_default();
        let constraint = FIELDS.read(&mut params.extra, &cx.unknown_fields)?;
        let sampling = Sampling {
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
        let decode = add_forwarded(DecodeSettings::default(), &request.extra, None)?;
        let prompt = match (request.text, request.input_ids) {
            (Some(text), None) => Prompt::Texts { texts: vec![text], add_bos: true },
            (None, Some(ids)) => Prompt::Tokens(vec![ids]),
            _ => return Err(ApiError::field("text", "expected either text or input_ids")),
        };
        let mut generation =
            Generation::new(cx, &params.params, sampling, &decode, "text", prompt)?;
        check_top(cx, "top_logprobs_num", request.top_logprobs_num)?;
        let top = request.top_logprobs_num.unwrap_or(0);
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

    fn writer(self, cx: &Context, generation: &Generation, sequences: &Sequences) -> SglangWriter {
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
        SglangWriter::new(&empty, sequences.len(), settings.stop.clone())
    }
}
