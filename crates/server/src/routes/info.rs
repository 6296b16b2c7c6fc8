//! What the server is and does: `/props`, `/slots`, `/version`.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use wf_client::wire::ErrorBody;
use wf_engine::{Abilities, DecodeMode, Rule};

use crate::app::{App, ServedModel};
use crate::error::ApiError;

/// What the server offers.
#[derive(Serialize, ToSchema)]
pub(crate) struct Props {
    /// How tokens are drawn where a request does not say.
    default_generation_settings: Defaults,
    /// What no request may exceed.
    limits: PropLimits,
    /// How replies can be decoded.
    decode: DecodeFacts,
    /// Requests that run at once.
    total_slots: usize,
    /// The file or directory of the model.
    model_path: String,
    /// What requests call the model.
    model_names: Vec<String>,
    /// What the exact bytes of the model are called.
    model_digest: String,
    /// What kind of network it is.
    architecture: String,
    /// The template of conversations.
    chat_template: Option<String>,
    /// The begin token.
    bos_token: Option<String>,
    /// The end token.
    eos_token: Option<String>,
    /// The instruction set in use.
    isa: String,
    /// Threads at work.
    threads: usize,
    /// How keys and values are kept.
    kv: String,
    /// Tokens whose keys and values there is room for.
    kv_tokens: usize,
    /// Equal fingerprints, equal requests: equal answers.
    system_fingerprint: String,
    /// The version of this program.
    build_info: String,
}

/// How tokens are drawn where a request does not say.
#[derive(Serialize, ToSchema)]
struct Defaults {
    /// The most tokens that prompt and reply may have together.
    n_ctx: usize,
    temperature: f32,
    top_k: usize,
    top_p: f32,
    min_p: f32,
    repetition_penalty: f32,
}

/// What no request may exceed.
#[derive(Serialize, ToSchema)]
struct PropLimits {
    body_bytes: usize,
    json_depth: usize,
    n: u32,
    stop: usize,
    stop_bytes: usize,
    logit_bias: usize,
    top_logprobs: u32,
    messages: usize,
    deadline_seconds: u64,
}

/// What the server offers.
#[utoipa::path(get, path = "/props", tag = "Operations", responses(
    (status = 200, description = "Model, defaults and limits", body = Props),
    (status = "default", description = "What is wrong", body = ErrorBody),
))]
pub(crate) async fn props(State(app): State<App>) -> Result<Json<Props>, ApiError> {
    let model = app.model()?;
    let (text, limits, defaults) = (model.frontend.text(), &app.options.limits, &model.defaults);
    Ok(Json(Props {
        default_generation_settings: Defaults {
            n_ctx: model.frontend.context_len(),
            temperature: defaults.temperature,
            top_k: defaults.top_k,
            top_p: defaults.top_p,
            min_p: defaults.min_p,
            repetition_penalty: defaults.repetition_penalty,
        },
        limits: PropLimits {
            body_bytes: limits.body_bytes,
            json_depth: limits.json_depth,
            n: limits.choices,
            stop: limits.stops,
            stop_bytes: limits.stop_bytes,
            logit_bias: limits.biases,
            top_logprobs: limits.top_logprobs,
            messages: limits.messages,
            deadline_seconds: limits.deadline.as_secs(),
        },
        decode: decode_facts(model),
        total_slots: model.max_running,
        model_path: model.path.clone(),
        model_names: model.names.clone(),
        model_digest: model.digest.clone(),
        architecture: model.architecture.clone(),
        chat_template: text.template_source.clone(),
        bos_token: text.bos_text.clone(),
        eos_token: text.eos_text.clone(),
        isa: model.isa.clone(),
        threads: model.threads,
        kv: model.kv.clone(),
        kv_tokens: model.frontend.engine().kv_tokens(),
        system_fingerprint: model.fingerprint(),
        build_info: VERSION.to_owned(),
    }))
}

/// How replies can be decoded.
#[derive(Serialize, ToSchema)]
struct DecodeFacts {
    /// What is done where a request does not say.
    default: &'static str,
    /// What may be asked for.
    modes: Vec<&'static str>,
    /// Rules for filling blocks, if the model fills blocks.
    rules: Vec<&'static str>,
    /// Tokens of a block.
    block_size: Option<usize>,
    /// Tokens of its parts.
    sub_block_size: Option<usize>,
    /// Whether a draft model guesses for it.
    draft_model: bool,
}

fn decode_facts(model: &ServedModel) -> DecodeFacts {
    let engine = model.frontend.engine();
    let can =
        |name: &&str| DecodeMode::named(name).is_some_and(|mode| engine.check_mode(mode).is_ok());
    let Abilities { blocks, draft_model, .. } = engine.abilities();
    DecodeFacts {
        default: model.decode.name(),
        modes: DecodeMode::NAMES.into_iter().filter(can).collect(),
        rules: blocks.map(|_| Rule::NAMES.to_vec()).unwrap_or_default(),
        block_size: blocks.map(|b| b.block_len),
        sub_block_size: blocks.and_then(|b| b.sub_block_len),
        draft_model,
    }
}

/// The version of this program.
const VERSION: &str = concat!("wf ", env!("CARGO_PKG_VERSION"));

/// A reply being written.
#[derive(Serialize, ToSchema)]
pub(crate) struct Slot {
    /// Its number.
    id: u64,
    /// The name of its request.
    request_id: String,
    /// Whether it is being computed, or waits.
    is_processing: bool,
    /// Tokens of its prompt.
    n_prompt_tokens: usize,
    /// Tokens written.
    n_decoded: usize,
    /// Seconds since it arrived.
    seconds: f64,
}

/// The replies being written.
#[utoipa::path(get, path = "/slots", tag = "Operations", responses(
    (status = 200, description = "All of them, oldest first", body = Vec<Slot>),
    (status = "default", description = "What is wrong", body = ErrorBody),
))]
pub(crate) async fn slots(State(app): State<App>) -> Json<Vec<Slot>> {
    let slots = app.in_flight.list().into_iter().map(|(id, reply)| Slot {
        id,
        request_id: reply.request_id.clone(),
        is_processing: reply.is_started(),
        n_prompt_tokens: reply.prompt_tokens,
        n_decoded: reply.written(),
        seconds: reply.since.elapsed().as_secs_f64(),
    });
    Json(slots.collect())
}

/// Which program this is.
#[derive(Serialize, ToSchema)]
pub(crate) struct Version {
    version: &'static str,
    /// The arithmetic: answers change only with this.
    numerics: u32,
}

/// Which program this is.
#[utoipa::path(get, path = "/version", tag = "Operations", responses(
    (status = 200, description = "Its version", body = Version),
    (status = "default", description = "What is wrong", body = ErrorBody),
))]
pub(crate) async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION"), numerics: wf_engine::NUMERICS })
}
