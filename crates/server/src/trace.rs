//! A span around each request, from its head to the last byte of its reply, for whoever collects
//! traces.
//!
//! It has the names of OpenTelemetry's conventions, and in it are counts and names that the server
//! itself gave or checked: nothing of prompts, replies or keys.

use axum::http::{HeaderMap, Method};
use tracing::field::Empty;
use tracing::{Level, Span, span};

use crate::request_id::RequestId;

/// The target of these spans, by which a subscriber takes them and nothing else.
pub const SPANS: &str = "wf_server::spans";

/// The span of a request. It goes on with the trace that the request says it belongs to.
pub(crate) fn request_span(
    method: &Method,
    route: &str,
    id: &RequestId,
    headers: &HeaderMap,
) -> Span {
    // Of a level that the log does not show, where each line would have all of it in front.
    let span = span!(
        target: SPANS,
        Level::TRACE,
        "request",
        otel.name = %format_args!("{method} {route}"),
        otel.kind = "server",
        http.request.method = %method,
        http.route = route,
        http.response.status_code = Empty,
        otel.status_code = Empty,
        request.id = id.as_str(),
        gen_ai.request.model = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.response.finish_reasons = Empty,
    );
    go_on_from(headers, &span);
    span
}

/// Tells how a request was answered.
pub(crate) fn record_status(span: &Span, status: u16) {
    // Numbers without a sign would be exported as text.
    span.record("http.response.status_code", i64::from(status));
    // What a client did wrong is no failure of the server's.
    if status >= 500 {
        span.record("otel.status_code", "error");
    }
}

/// What is told of the replies to a request.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) prompt_tokens: usize,
    pub(crate) reply_tokens: usize,
    /// How each reply ended.
    pub(crate) reasons: Vec<&'static str>,
}

/// Tells what was written.
pub(crate) fn record_written(span: &Span, written: &Written) {
    span.record("gen_ai.usage.input_tokens", written.prompt_tokens as i64);
    span.record("gen_ai.usage.output_tokens", written.reply_tokens as i64);
    span.record("gen_ai.response.finish_reasons", written.reasons.join(","));
}

#[cfg(feature = "otlp")]
fn go_on_from(headers: &HeaderMap, span: &Span) {
    use opentelemetry::propagation::{Extractor, TextMapPropagator};
    use opentelemetry_sdk::propagation::TraceContextPropagator;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    struct Headers<'a>(&'a HeaderMap);

    impl Extractor for Headers<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            self.0.get(key)?.to_str().ok()
        }

        fn keys(&self) -> Vec<&str> {
            self.0.keys().map(|name| name.as_str()).collect()
        }
    }

    if span.is_disabled() || !headers.contains_key("traceparent") {
        return;
    }
    let parent = TraceContextPropagator::new().extract(&Headers(headers));
    // Where nobody exports spans there is nothing to go on with.
    let _ = span.set_parent(parent);
}

#[cfg(not(feature = "otlp"))]
fn go_on_from(_headers: &HeaderMap, _span: &Span) {}
