//! The routes by which a router gets to know a worker.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;
use wf_engine::PAGE_LEN;

use crate::app::App;
use crate::error::ApiError;
use crate::http::viewer::Viewer;

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

pub(super) async fn server_info(viewer: Viewer) -> Result<Json<ServerInfo>, ApiError> {
    let model = viewer.profile().await?;
    let path = viewer.reveal(&model.listing.path, model.name());
    let kv_tokens = model.kv_tokens;
    Ok(Json(ServerInfo {
        model_path: path.clone(),
        served_model_name: model.name().to_owned(),
        model_id: model.name().to_owned(),
        tokenizer_path: path,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        tp_size: 1,
        dp_size: 1,
        max_running_requests: model.max_running,
        max_total_num_tokens: kv_tokens,
        max_total_tokens: kv_tokens,
        context_length: model.context_len,
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

pub(super) async fn model_info(viewer: Viewer) -> Result<Json<ModelInfo>, ApiError> {
    let model = viewer.profile().await?;
    let path = viewer.reveal(&model.listing.path, model.name());
    Ok(Json(ModelInfo {
        model_path: path.clone(),
        served_model_name: model.name().to_owned(),
        tokenizer_path: path,
        is_generation: true,
        model_type: model.listing.architecture.clone(),
        architectures: vec![model.listing.architecture.clone()],
        weight_version: "default",
    }))
}

pub(super) async fn flush_cache(viewer: Viewer) -> Result<&'static str, ApiError> {
    viewer.require_admin()?;
    viewer.app.models()?.flush_caches();
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

pub(super) async fn loads(app: App) -> Result<Loads, ApiError> {
    let stats = app.models()?.total_stats();
    Ok(Loads {
        aggregate: Load {
            total_tokens: stats.pages_in_use * PAGE_LEN,
            total_running_reqs: stats.running,
            total_waiting_reqs: stats.waiting,
        },
    })
}
