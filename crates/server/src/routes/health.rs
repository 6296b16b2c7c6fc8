//! Health and metrics: `/health`, `/livez`, `/metrics`.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use wf_api::wire::ErrorBody;

use crate::app::App;
use crate::error::ApiError;

/// State of the server.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    /// `healthy`.
    status: &'static str,
    /// Always true.
    native_kernel: bool,
    /// Name of the model.
    model: String,
    /// Instruction set in use.
    isa: String,
    /// Number of worker threads.
    threads: usize,
    /// Sequences being computed.
    running: usize,
    /// Sequences in the queue.
    waiting: usize,
}

/// Reports whether requests are served.
#[utoipa::path(get, path = "/health", tag = "Operations", responses(
    (status = 200, description = "The server is ready", body = Health),
    (status = 503, description = "The model is loading, or the server is shutting down", body = ErrorBody),
    (status = "default", description = "Error", body = ErrorBody),
))]
pub(super) async fn health(State(app): State<App>) -> Result<Json<Health>, ApiError> {
    let model = app.model_for_work()?;
    let stats = model.frontend.engine().stats();
    Ok(Json(Health {
        status: "healthy",
        native_kernel: true,
        model: model.name().to_owned(),
        isa: model.isa.clone(),
        threads: model.threads,
        running: stats.running,
        waiting: stats.waiting,
    }))
}

/// Reports that the process runs.
#[utoipa::path(get, path = "/livez", tag = "Operations", responses(
    (status = 200, description = "The process runs", body = String, content_type = "text/plain"),
    (status = "default", description = "Error", body = ErrorBody),
))]
pub(super) async fn livez() -> &'static str {
    "ok"
}

/// Returns Prometheus metrics.
#[utoipa::path(get, path = "/metrics", tag = "Operations", responses(
    (status = 200, description = "Counters, gauges and histograms", body = String,
     content_type = "application/openmetrics-text"),
    (status = "default", description = "Error", body = ErrorBody),
))]
pub(super) async fn metrics(State(app): State<App>) -> Result<Response, ApiError> {
    if !app.options.metrics {
        let message = "metrics are disabled on this server";
        return Err(ApiError::status(StatusCode::NOT_FOUND, "not_found", message));
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], app.metrics.text()).into_response())
}
