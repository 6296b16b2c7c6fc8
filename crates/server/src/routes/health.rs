//! Health and metrics: `/health`, `/livez`, `/metrics`.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
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
    /// Name of the first model.
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
    let models = app.models()?;
    let (model, stats) = (models.first_profile(), models.total_stats());
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

pub(super) async fn metrics(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if !app.options.metrics {
        let message = "metrics are disabled on this server";
        return Err(ApiError::status(StatusCode::NOT_FOUND, "not_found", message));
    }
    let open = app.metrics.text();
    let (kind, text) = match wants_plain_text(&headers) {
        true => ("text/plain; version=0.0.4; charset=utf-8", plain_text(&open)),
        false => ("application/openmetrics-text; version=1.0.0; charset=utf-8", open),
    };
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// True for a client that accepts plain text and does not know OpenMetrics.
fn wants_plain_text(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let accepted: Vec<&str> = accepted.flat_map(|accept| accept.split(',')).collect();
    let accepts = |kind: &str| accepted.iter().any(|one| one.trim().starts_with(kind));
    accepts("text/plain") && !accepts("application/openmetrics-text") && !accepts("*/*")
}

/// Converts OpenMetrics to the older text format of Prometheus, in which the name of a counter has its suffix
/// everywhere and nothing marks the end.
fn plain_text(open_metrics: &str) -> String {
    let is_counter = |name: &str| open_metrics.contains(&format!("# TYPE {name} counter\n"));
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => continue,
            (Some("#"), Some(what), Some(name), Some(rest)) if is_counter(name) => {
                text.push_str(&format!("# {what} {name}_total {rest}"));
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(accept: &str) -> bool {
        wants_plain_text(&HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]))
    }

    #[test]
    fn only_clients_without_open_metrics_get_plain_text() {
        assert!(wants("text/plain") && wants("text/html, text/plain;version=0.0.4;q=0.3"));
        assert!(!wants("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"));
        assert!(!wants("*/*") && !wants("text/plain, */*;q=0.1"));
        assert!(!wants_plain_text(&HeaderMap::new()));
    }

    #[test]
    fn counters_have_their_suffix_in_plain_text() {
        let open = "# HELP a A thing.\n# TYPE a counter\na_total{x=\"# y\"} 1\n# TYPE b gauge\n# UNIT b seconds\nb 2\n# EOF\n";
        let plain = "# HELP a_total A thing.\n# TYPE a_total counter\na_total{x=\"# y\"} 1\n# TYPE b gauge\nb 2\n";
        assert_eq!(plain_text(open), plain);
    }
}
