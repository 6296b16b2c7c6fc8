//! Whether the server can be used: `/health`, `/livez`, `/metrics`.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use wf_client::wire::ErrorBody;

use crate::app::App;
use crate::error::ApiError;

/// How the server is.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// `healthy`.
    status: &'static str,
    /// Always true: there is no slow way to fall back to.
    native_kernel: bool,
    /// The model served.
    model: String,
    /// The instruction set in use.
    isa: String,
    /// Threads at work.
    threads: usize,
    /// Replies being computed.
    running: usize,
    /// Replies that wait for their turn.
    waiting: usize,
}

/// Whether requests are answered: 503 while the model is loaded and while the server stops.
#[utoipa::path(get, path = "/health", tag = "Operations", responses(
    (status = 200, description = "They are", body = Health),
    (status = 503, description = "Not now", body = ErrorBody),
    (status = "default", description = "What is wrong", body = ErrorBody),
))]
pub(crate) async fn health(State(app): State<App>) -> Result<Json<Health>, ApiError> {
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

/// Whether the process lives.
#[utoipa::path(get, path = "/livez", tag = "Operations", responses(
    (status = 200, description = "It does", body = String, content_type = "text/plain"),
    (status = "default", description = "What is wrong", body = ErrorBody),
))]
pub(crate) async fn livez() -> &'static str {
    "ok"
}

/// Everything counted, as Prometheus reads it.
#[utoipa::path(get, path = "/metrics", tag = "Operations", responses(
    (status = 200, description = "Counters, gauges and histograms", body = String,
     content_type = "application/openmetrics-text"),
    (status = "default", description = "What is wrong", body = ErrorBody),
))]
pub(crate) async fn metrics(State(app): State<App>) -> Result<Response, ApiError> {
    if !app.options.metrics {
        let message = "metrics are turned off here";
        return Err(ApiError::status(StatusCode::NOT_FOUND, "not_found", message));
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], app.metrics.text()).into_response())
}
