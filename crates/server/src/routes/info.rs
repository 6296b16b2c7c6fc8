//! Properties of the server: `/props`, `/slots`, `/version`.

use std::collections::BTreeMap;

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;
use wf_core::{SamplingOverrides, SamplingParams};
use wf_engine::{Capabilities, DecodeMode, UnmaskRule};

use crate::app::App;
use crate::error::ApiError;
use crate::generation::thinking::EFFORTS;
use crate::http::viewer::Viewer;
use crate::models::Profile;

/// Model, defaults and limits.
#[derive(Serialize, ToSchema)]
pub(super) struct Props {
    /// Sampling parameters of requests that do not set them.
    default_generation_settings: Defaults,
    /// Sampling parameters that requests may set, in the order to present them.
    sampling_params: Vec<ParamInfo>,
    /// Limits on requests.
    limits: PropLimits,
    /// Decoding modes.
    decode: DecodeInfo,
    /// Thinking before an answer; null if the chat template does not declare it.
    thinking: Option<ThinkingInfo>,
    /// Maximum number of sequences that run at once.
    total_slots: usize,
    /// File or directory of the model, for operators; its name for others.
    model_path: String,
    /// Names of the model.
    model_names: Vec<String>,
    /// Names of all models that the caller may use, one of each.
    models: Vec<String>,
    /// MCP servers that the chat page may use.
    mcp_servers: Vec<String>,
    /// Digest of the weights.
    model_digest: String,
    /// Architecture of the network.
    architecture: String,
    /// Chat template.
    chat_template: Option<String>,
    /// BOS token.
    bos_token: Option<String>,
    /// EOS token.
    eos_token: Option<String>,
    /// Instruction set in use.
    isa: String,
    /// Number of worker threads.
    threads: usize,
    /// Data type of the KV cache.
    kv: String,
    /// Activations that are set to zero before they are multiplied; off if none.
    activation_sparsity: String,
    /// Capacity of the KV cache in tokens.
    kv_tokens: usize,
    /// Positions that attention reads.
    attention: AttentionInfo,
    /// Equal requests with equal fingerprints get equal responses.
    system_fingerprint: String,
    /// Version of the server.
    build_info: String,
}

/// Sampling parameters of requests that do not set them.
#[derive(Serialize, ToSchema)]
struct Defaults {
    /// Maximum number of tokens of prompt and completion together, unless `attention` has a window.
    n_ctx: usize,
    #[serde(flatten)]
    params: SamplingOverrides,
}

/// A sampling parameter that requests may set.
#[derive(Serialize, ToSchema)]
struct ParamInfo {
    /// Name of the field.
    name: &'static str,
    /// Documentation in one line.
    doc: &'static str,
    /// Value where a request does not set it.
    #[schema(value_type = f64)]
    default: Number,
    /// Smallest value; with `exclusive_min`, values must be greater.
    min: f64,
    /// Excludes `min` itself.
    exclusive_min: bool,
    /// Largest value, if there is a limit.
    max: Option<f64>,
    /// Takes whole numbers only.
    integer: bool,
}

/// Lists the sampling parameters with the defaults of this server.
fn sampling_params(defaults: &SamplingParams) -> Vec<ParamInfo> {
    let specs = SamplingParams::SPECS.iter().zip(defaults.values());
    let info = specs.map(|(spec, value)| ParamInfo {
        name: spec.name,
        doc: spec.help,
        default: if spec.is_integer {
            Number::Integer(value as i64)
        } else {
            Number::Float(value as f32)
        },
        min: spec.range.min,
        exclusive_min: spec.range.excludes_min,
        max: spec.range.max,
        integer: spec.is_integer,
    });
    info.collect()
}

/// Number that is written with the digits of its own type.
#[derive(Serialize)]
#[serde(untagged)]
enum Number {
    Integer(i64),
    Float(f32),
}

/// Limits on requests.
#[derive(Serialize, ToSchema)]
struct PropLimits {
    body_bytes: usize,
    json_depth: usize,
    json_parts: usize,
    json_values: usize,
    n: u32,
    stop: usize,
    stop_bytes: usize,
    logit_bias: usize,
    top_logprobs: u32,
    messages: usize,
    deadline_seconds: u64,
}

pub(super) async fn props(viewer: Viewer) -> Result<Json<Props>, ApiError> {
    let app = &viewer.app;
    let model = viewer.profile().await?;
    let (limits, defaults) = (&app.options.limits, &model.defaults);
    Ok(Json(Props {
        default_generation_settings: Defaults {
            n_ctx: model.context_len,
            params: SamplingOverrides::from(defaults),
        },
        sampling_params: sampling_params(defaults),
        limits: PropLimits {
            body_bytes: limits.body_len,
            json_depth: limits.json_depth,
            json_parts: limits.json_parts,
            json_values: limits.json_values,
            n: limits.choices,
            stop: limits.stop_strings,
            stop_bytes: limits.stop_len,
            logit_bias: limits.logit_biases,
            top_logprobs: limits.top_logprobs,
            messages: limits.messages,
            deadline_seconds: limits.deadline.as_secs(),
        },
        decode: decode_info(&model),
        thinking: model.can_think.then(ThinkingInfo::new),
        total_slots: model.max_running,
        model_path: viewer.reveal(&model.listing.path, model.name()),
        model_names: model.listing.names.clone(),
        models: viewer.model_names()?,
        mcp_servers: app.options.mcp_servers.clone(),
        model_digest: model.digest.clone(),
        architecture: model.listing.architecture.clone(),
        chat_template: model.template.clone(),
        bos_token: model.bos.clone(),
        eos_token: model.eos.clone(),
        isa: model.isa.clone(),
        threads: model.threads,
        kv: model.kv.clone(),
        activation_sparsity: model.activation_sparsity.clone(),
        kv_tokens: model.kv_tokens,
        attention: AttentionInfo::new(&model),
        system_fingerprint: model.fingerprint(),
        build_info: VERSION.to_owned(),
    }))
}

/// Positions that attention reads.
#[derive(Serialize, ToSchema)]
struct AttentionInfo {
    /// Mode, as `--attention` has it.
    mode: String,
    /// Number of newest positions that a token sees, if not all.
    window: Option<usize>,
    /// Number of first positions that it sees beside them.
    sinks: Option<usize>,
    /// Maximum number of tokens of prompt and completion together.
    max_tokens: usize,
}

impl AttentionInfo {
    fn new(model: &Profile) -> Self {
        let window = model.attention.window();
        Self {
            mode: model.attention.to_string(),
            window: window.map(|window| window.len),
            sinks: window.map(|window| window.sinks),
            max_tokens: model.max_len,
        }
    }
}

/// Decoding modes.
#[derive(Serialize, ToSchema)]
struct DecodeInfo {
    /// Mode of requests that do not set it.
    default: &'static str,
    /// Modes that requests may set.
    modes: Vec<&'static str>,
    /// Documentation of each mode in one line, by name.
    docs: BTreeMap<&'static str, &'static str>,
    /// Rules that requests may set, if the model decodes by diffusion.
    rules: Vec<&'static str>,
    /// Tokens per block.
    block_size: Option<usize>,
    /// Tokens per sub-block.
    sub_block_size: Option<usize>,
    /// True if a draft model is loaded.
    draft_model: bool,
}

fn decode_info(model: &Profile) -> DecodeInfo {
    let supported = &model.modes;
    let Capabilities { blocks, draft_model, .. } = model.capabilities;
    DecodeInfo {
        default: model.decode.name(),
        modes: supported.iter().map(DecodeMode::name).collect(),
        docs: supported.iter().map(|mode| (mode.name(), mode.info().summary)).collect(),
        rules: blocks.map(|_| UnmaskRule::names().to_vec()).unwrap_or_default(),
        block_size: blocks.map(|b| b.block_len),
        sub_block_size: blocks.and_then(|b| b.sub_block_len),
        draft_model,
    }
}

/// Thinking before an answer, which requests turn on, off or limit.
#[derive(Serialize, ToSchema)]
struct ThinkingInfo {
    /// Values of `reasoning_effort`.
    efforts: Vec<EffortInfo>,
}

/// A value of `reasoning_effort`.
#[derive(Serialize, ToSchema)]
struct EffortInfo {
    name: &'static str,
    /// Maximum number of thinking tokens: 0 turns it off, null is no limit.
    max_tokens: Option<usize>,
}

impl ThinkingInfo {
    /// Lists the efforts, the first of those with equal limits.
    fn new() -> Self {
        let efforts = EFFORTS.iter().map(|&(name, max_tokens)| EffortInfo { name, max_tokens });
        let mut efforts: Vec<_> = efforts.collect();
        efforts.dedup_by_key(|effort| effort.max_tokens);
        Self { efforts }
    }
}

/// Name and version of the program.
const VERSION: &str = concat!("wf ", env!("CARGO_PKG_VERSION"));

/// A sequence in flight.
#[derive(Serialize, ToSchema)]
pub(super) struct Slot {
    /// Number of the sequence.
    id: u64,
    /// Id of its request.
    request_id: String,
    /// Name of its model.
    model: String,
    /// True if it is being computed, false if it waits.
    is_processing: bool,
    /// Prompt tokens.
    n_prompt_tokens: usize,
    /// Tokens generated.
    n_decoded: usize,
    /// Seconds since arrival.
    seconds: f64,
}

pub(super) async fn slots(viewer: Viewer) -> Result<Json<Vec<Slot>>, ApiError> {
    let (sees_all, caller) = (viewer.is_admin(), viewer.caller_id());
    let all = viewer.app.in_flight.list().into_iter();
    let visible = all.filter(|(_, entry)| sees_all || Some(entry.caller) == caller);
    let slots = visible.map(|(id, entry)| Slot {
        id,
        seconds: entry.since.elapsed().as_secs_f64(),
        request_id: entry.request_id,
        model: entry.model,
        is_processing: entry.is_started,
        n_prompt_tokens: entry.prompt_tokens,
        n_decoded: entry.completion_tokens,
    });
    Ok(Json(slots.collect()))
}

/// Version of the server.
#[derive(Serialize, ToSchema)]
pub(super) struct Version {
    version: &'static str,
    /// Version of the arithmetic: outputs change only with this.
    numerics: u32,
}

pub(super) async fn version(_: App) -> Result<Version, ApiError> {
    Ok(Version { version: env!("CARGO_PKG_VERSION"), numerics: wf_engine::NUMERICS })
}
