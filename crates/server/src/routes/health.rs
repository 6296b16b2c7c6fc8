//! Health and metrics: `/health`, `/livez`, `/metrics`.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

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

pub(super) async fn health(app: App) -> Result<Health, ApiError> {
    app.check_draining()?;
    let model = app.model()?;
    let stats = model.frontend.engine().stats();
    Ok(Health {
        status: "healthy",
        native_kernel: true,
        model: model.name().to_owned(),
        isa: model.isa.clone(),
        threads: model.threads,
        running: stats.running,
        waiting: stats.waiting,
    })
}

pub(super) async fn metrics(State(app): State<App>) -> Result<Response, ApiError> {
    if !app.options.metrics {
        let message = "metrics are disabled on this server";
        return Err(ApiError::status(StatusCode::NOT_FOUND, "not_found", message));
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], app.metrics.text()).into_response())
}
