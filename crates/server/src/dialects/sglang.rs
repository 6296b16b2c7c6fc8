//! The API of SGLang's servers, so that `sglang-router` can have this one as a worker.

use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Serialize;
use tokio::task::spawn_blocking;
use utoipa::ToSchema;
use wf_client::sse;
use wf_client::wire::{
    ErrorBody, GenerateRequest, GenerateResponse, GenerateSampling, MatchedStop, MetaInfo,
    Sampling, SglangFinish, SglangLogprob,
};
use wf_engine::{Finish, FinishReason, Input, Logprobs, Picked, Piece, StoppedAt, TokenId};

use crate::app::{App, ServedModel};
use crate::asked::{Asked, check_rest};
use crate::auth::Caller;
use crate::body::read_json;
use crate::decoding::read_carried;
use crate::error::ApiError;
use crate::logprobs::finite;
use crate::replies::Replies;
use crate::request_id::RequestId;
use crate::stream::{self, Writer};
use crate::structured;

/// How many tokens are written if nobody says: SGLang's number.
const DEFAULT_MAX_TOKENS: u32 = 128;

/// Continue a text.
#[utoipa::path(
    post,
    path = "/generate",
    tag = "SGLang",
    request_body = GenerateRequest,
    responses(
        (status = 200, description = "The reply, a list of several, or server-sent events of it",
         content((GenerateResponse = "application/json"), (GenerateResponse = "text/event-stream"))),
        (status = "default", description = "What is wrong", body = ErrorBody),
    )
)]
pub(crate) async fn generate(
    State(app): State<App>,
    Extension(id): Extension<RequestId>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let model = app.model_for_work()?;
    let request: GenerateRequest = read_json(request, &app.options.limits).await?;
    let (mut asked, input, name) = check(&app, model, caller, &id, request)?;
    let frontend = model.frontend.clone();
    let encoded = spawn_blocking(move || frontend.text().prompt_ids(&input));
    let prompts = vec![encoded.await.map_err(|_| ApiError::internal())??];
    asked.check_room(model, &prompts, "text")?;
    asked.compile(model).await?;
    let replies =
        Replies::start(&app, model, id.as_str(), prompts, asked.choices, &asked.generate)?;
    let mut writer = SglangWriter::new(&replies, &asked, &name);
    if asked.stream {
        return Ok(stream::respond(&app, replies, writer));
    }
    let mut replies = replies;
    stream::collect(&app, &mut replies, |replies, at, piece| writer.take(replies, at, piece))
        .await?;
    let mut all = writer.written;
    Ok(match all.len() {
        1 => Json(all.remove(0)).into_response(),
        _ => Json(all).into_response(),
    })
}

fn check(
    app: &App,
    model: &ServedModel,
    caller: Caller,
    id: &RequestId,
    request: GenerateRequest,
) -> Result<(Asked, Input, String), ApiError> {
    // The router sends the name of the model along.
    let mut rest = request.rest;
    if let Some(name) = rest.remove("model") {
        model.check_name(name.as_str())?;
    }
    check_rest(&rest)?;
    let mut sampling = request.sampling_params.unwrap_or_default();
    let structured = structured::take(&mut sampling.rest)?;
    check_rest(&sampling.rest)?;
    let mut sampling =
        Sampling { stream: request.stream, priority: request.priority, ..shared(sampling) };
    read_carried(&mut sampling, &rest, None)?;
    let mut asked = Asked { structured, ..Asked::new(app, model, caller, sampling)? };
    let limits = &app.options.limits;
    let top = request.top_logprobs_num.unwrap_or(0);
    if top > limits.top_logprobs {
        let message = format!("top_logprobs_num: 0 to {} is allowed", limits.top_logprobs);
        return Err(ApiError::field("top_logprobs_num", message));
    }
    if request.return_logprob.unwrap_or(false) {
        asked.generate.logprobs = Some(top as usize);
        match request.logprob_start_len.unwrap_or(-1) {
            -1 => {}
            0 => asked.generate.prompt_logprobs = Some(top as usize),
            _ => {
                let message = "logprob_start_len: -1 (the reply alone) and 0 (all) are allowed";
                return Err(ApiError::field("logprob_start_len", message));
            }
        }
    }
    let input = match (request.text, request.input_ids) {
        (Some(text), None) => Input::RawWithSpecials(text),
        (None, Some(ids)) => Input::Ids(ids),
        _ => return Err(ApiError::field("text", "give either text or input_ids")),
    };
    let name = request.rid.unwrap_or_else(|| id.as_str().to_owned());
    Ok((asked, input, name))
}

/// The settings under OpenAI's names.
fn shared(s: GenerateSampling) -> Sampling {
    Sampling {
        temperature: s.temperature,
        top_p: s.top_p,
        top_k: s.top_k,
        min_p: s.min_p,
        repetition_penalty: s.repetition_penalty,
        presence_penalty: s.presence_penalty,
        frequency_penalty: s.frequency_penalty,
        seed: s.sampling_seed,
        max_tokens: Some(s.max_new_tokens.unwrap_or(DEFAULT_MAX_TOKENS)),
        min_tokens: s.min_new_tokens,
        stop: s.stop,
        stop_token_ids: s.stop_token_ids,
        ignore_eos: s.ignore_eos,
        skip_special_tokens: s.skip_special_tokens,
        n: s.n,
        ..Sampling::default()
    }
}

/// Keeps all of each reply: every event has it whole.
struct SglangWriter {
    written: Vec<GenerateResponse>,
    stops: Vec<String>,
    arrived: Instant,
}

impl SglangWriter {
    fn new(replies: &Replies, asked: &Asked, name: &str) -> Self {
        let several = replies.len() > 1;
        let logprobs = asked.generate.logprobs;
        let empty = |index: u32| GenerateResponse {
            text: String::new(),
            output_ids: Vec::new(),
            index: several.then_some(index),
            meta_info: MetaInfo {
                id: name.to_owned(),
                prompt_tokens: replies.stream(0).prompt_ids().len() as u32,
                weight_version: "default".into(),
                output_token_logprobs: logprobs.map(|_| Vec::new()),
                output_top_logprobs: logprobs.filter(|top| *top > 0).map(|_| Vec::new()),
                input_token_logprobs: asked.generate.prompt_logprobs.map(|_| Vec::new()),
                ..MetaInfo::default()
            },
        };
        Self {
            written: (0..replies.len() as u32).map(empty).collect(),
            stops: asked.generate.stop.clone(),
            arrived: Instant::now(),
        }
    }

    /// Adds a piece to its reply.
    fn take(&mut self, replies: &Replies, at: usize, piece: Piece) {
        let written = &mut self.written[at];
        let meta = &mut written.meta_info;
        meta.e2e_latency = self.arrived.elapsed().as_secs_f64();
        match piece {
            Piece::Started { cached } => meta.cached_tokens = cached as u32,
            Piece::Text { text, token } => {
                written.text.push_str(&text);
                if let Some(Picked { token, logprobs }) = token {
                    written.output_ids.push(token);
                    meta.completion_tokens += 1;
                    if let Some(logprobs) = logprobs {
                        push(meta, token, &logprobs);
                    }
                }
            }
            Piece::PromptLogprobs(logprobs) => {
                let Some(told) = &mut meta.input_token_logprobs else { return };
                let prompt = replies.stream(at).prompt_ids();
                if told.is_empty() {
                    told.push((None, prompt[0], None));
                }
                for one in logprobs {
                    told.push((Some(finite(one.logprob)), prompt[told.len()], None));
                }
            }
            Piece::Done(finish) => meta.finish_reason = Some(end(&self.stops, &finish)),
            Piece::Progress { .. } | Piece::Preview(_) => {}
        }
    }
}

fn push(meta: &mut MetaInfo, token: TokenId, Logprobs { logprob, top }: &Logprobs) {
    let one =
        |logprob: f32, token: TokenId| -> SglangLogprob { (Some(finite(logprob)), token, None) };
    if let Some(all) = &mut meta.output_token_logprobs {
        all.push(one(*logprob, token));
    }
    if let Some(all) = &mut meta.output_top_logprobs {
        all.push(top.iter().map(|&(token, logprob)| one(logprob, token)).collect());
    }
}

fn end(stops: &[String], finish: &Finish) -> SglangFinish {
    match finish.reason {
        FinishReason::Stop => SglangFinish::Stop {
            matched: finish.stopped_at.as_ref().map(|at| match *at {
                StoppedAt::Token(token) => MatchedStop::Token(token),
                StoppedAt::Text(at) => MatchedStop::Text(stops[at].clone()),
            }),
        },
        FinishReason::Length => SglangFinish::Length { length: finish.timings.reply_tokens as u32 },
        reason => SglangFinish::Abort { message: reason.name().to_owned() },
    }
}

impl Writer for SglangWriter {
    fn begin(&mut self, _replies: &Replies) -> String {
        String::new()
    }

    fn piece(&mut self, replies: &Replies, at: usize, piece: Piece) -> String {
        let says_something = match &piece {
            Piece::Text { text, token } => !text.is_empty() || token.is_some(),
            Piece::Done(_) => true,
            Piece::Started { .. }
            | Piece::Progress { .. }
            | Piece::Preview(_)
            | Piece::PromptLogprobs(_) => false,
        };
        self.take(replies, at, piece);
        if says_something { sse::json_event(&self.written[at]) } else { String::new() }
    }

    fn end(&mut self, _replies: &Replies) -> String {
        String::new()
    }
}

/// What the router asks a worker when it registers.
#[derive(Serialize, ToSchema)]
pub(crate) struct ServerInfo {
    model_path: String,
    served_model_name: String,
    model_id: String,
    tokenizer_path: String,
    version: String,
    tp_size: u32,
    dp_size: u32,
    max_running_requests: usize,
    max_total_num_tokens: usize,
    max_total_tokens: usize,
    context_length: usize,
    is_embedding: bool,
    disaggregation_mode: &'static str,
}

/// What kind of server this is.
#[utoipa::path(get, path = "/server_info", tag = "SGLang", responses(
    (status = 200, description = "Names and limits", body = ServerInfo),
    (status = "default", description = "What is wrong", body = ErrorBody),
))]
pub(crate) async fn server_info(State(app): State<App>) -> Result<Json<ServerInfo>, ApiError> {
    let model = app.model()?;
    let kv_tokens = model.frontend.engine().kv_tokens();
    Ok(Json(ServerInfo {
        model_path: model.path.clone(),
        served_model_name: model.name().to_owned(),
        model_id: model.name().to_owned(),
        tokenizer_path: model.path.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        tp_size: 1,
        dp_size: 1,
        max_running_requests: model.max_running,
        max_total_num_tokens: kv_tokens,
        max_total_tokens: kv_tokens,
        context_length: model.frontend.context_len(),
        is_embedding: false,
        disaggregation_mode: "null",
    }))
}

/// What the router asks about the model.
#[derive(Serialize, ToSchema)]
pub(crate) struct ModelInfo {
    model_path: String,
    served_model_name: String,
    tokenizer_path: String,
    is_generation: bool,
    model_type: String,
    architectures: Vec<String>,
    weight_version: &'static str,
}

/// What kind of model this is.
#[utoipa::path(get, path = "/model_info", tag = "SGLang", responses(
    (status = 200, description = "Its names", body = ModelInfo),
    (status = "default", description = "What is wrong", body = ErrorBody),
))]
pub(crate) async fn model_info(State(app): State<App>) -> Result<Json<ModelInfo>, ApiError> {
    let model = app.model()?;
    Ok(Json(ModelInfo {
        model_path: model.path.clone(),
        served_model_name: model.name().to_owned(),
        tokenizer_path: model.path.clone(),
        is_generation: true,
        model_type: model.architecture.clone(),
        architectures: vec![model.architecture.clone()],
        weight_version: "default",
    }))
}

/// Forget what is kept of prompts that nobody is reading.
#[utoipa::path(post, path = "/flush_cache", tag = "SGLang", responses(
    (status = 200, description = "It will be forgotten before the next step", body = String,
     content_type = "text/plain"),
    (status = "default", description = "What is wrong", body = ErrorBody),
))]
pub(crate) async fn flush_cache(State(app): State<App>) -> Result<&'static str, ApiError> {
    app.model()?.frontend.engine().flush_cache();
    Ok("Cache flushed.\n")
}

/// How much there is to do.
#[derive(Serialize, ToSchema)]
pub(crate) struct Loads {
    aggregate: Load,
}

/// How much there is to do, in numbers.
#[derive(Serialize, ToSchema)]
pub(crate) struct Load {
    /// Tokens whose keys and values are held.
    total_tokens: usize,
    /// Replies being computed.
    total_running_reqs: usize,
    /// Replies that wait.
    total_waiting_reqs: usize,
}

/// How much there is to do.
#[utoipa::path(get, path = "/v1/loads", tag = "SGLang", responses(
    (status = 200, description = "Tokens and replies", body = Loads),
    (status = "default", description = "What is wrong", body = ErrorBody),
))]
pub(crate) async fn loads(State(app): State<App>) -> Result<Json<Loads>, ApiError> {
    let engine = app.model()?.frontend.engine();
    let stats = engine.stats();
    Ok(Json(Loads {
        aggregate: Load {
            total_tokens: stats.pages_in_use * engine.kv_tokens() / stats.pages.max(1),
            total_running_reqs: stats.running,
            total_waiting_reqs: stats.waiting,
        },
    }))
}
