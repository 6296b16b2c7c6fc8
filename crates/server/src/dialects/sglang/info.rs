//! The routes by which a router gets to know a worker.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use wf_api::wire::ErrorBody;

use crate::app::App;
use crate::error::ApiError;

/// Properties of a worker.
#[derive(Serialize, ToSchema)]
pub(super) struct ServerInfo {
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

/// Describes the server.
#[utoipa::path(get, path = "/server_info", tag = "SGLang", responses(
    (status = 200, description = "Names and limits", body = ServerInfo),
    (status = "default", description = "Error", body = ErrorBody),
))]
pub(super) async fn server_info(State(app): State<App>) -> Result<Json<ServerInfo>, ApiError> {
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

/// Properties of the model.
#[derive(Serialize, ToSchema)]
pub(super) struct ModelInfo {
    model_path: String,
    served_model_name: String,
    tokenizer_path: String,
    is_generation: bool,
    model_type: String,
    architectures: Vec<String>,
    weight_version: &'static str,
}

/// Describes the model.
#[utoipa::path(get, path = "/model_info", tag = "SGLang", responses(
    (status = 200, description = "Names of the model", body = ModelInfo),
    (status = "default", description = "Error", body = ErrorBody),
))]
pub(super) async fn model_info(State(app): State<App>) -> Result<Json<ModelInfo>, ApiError> {
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

/// Clears the prefix cache, except what is in use.
#[utoipa::path(post, path = "/flush_cache", tag = "SGLang", responses(
    (status = 200, description = "The cache is cleared before the next step", body = String,
     content_type = "text/plain"),
    (status = "default", description = "Error", body = ErrorBody),
))]
pub(super) async fn flush_cache(State(app): State<App>) -> Result<&'static str, ApiError> {
    app.model()?.frontend.engine().flush_cache();
    Ok("Cache flushed.\n")
}

/// Load of the server.
#[derive(Serialize, ToSchema)]
pub(super) struct Loads {
    aggregate: Load,
}

/// Load of the server in numbers.
#[derive(Serialize, ToSchema)]
pub(super) struct Load {
    /// Tokens in the KV cache.
    total_tokens: usize,
    /// Sequences being computed.
    total_running_reqs: usize,
    /// Sequences in the queue.
    total_waiting_reqs: usize,
}

/// Returns the load of the server.
#[utoipa::path(get, path = "/v1/loads", tag = "SGLang", responses(
    (status = 200, description = "Tokens and sequences", body = Loads),
    (status = "default", description = "Error", body = ErrorBody),
))]
pub(super) async fn loads(State(app): State<App>) -> Result<Json<Loads>, ApiError> {
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
