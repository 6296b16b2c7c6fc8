//! One span per request, from its head to the last byte of its response, for trace collectors.
//!
//! Attributes follow OpenTelemetry's semantic conventions. They hold counts and names that the server made or
//! checked, and nothing of prompts, outputs or keys.

use axum::http::{HeaderMap, Method};
use tracing::field::Empty;
use tracing::{Level, Span, span};

/// Target of these spans, by which a subscriber selects them.
pub const SPANS: &str = "wf_server::spans";

/// Creates the span of a request. It continues the trace named in the request's `traceparent` header.
pub(crate) fn request_span(method: &Method, route: &str, id: &str, headers: &HeaderMap) -> Span {
    // The level is one that logs do not show: each line would be prefixed with all of these fields.
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
        request.id = id,
        gen_ai.request.model = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.response.finish_reasons = Empty,
    );
    continue_trace(headers, &span);
    span
}

pub(crate) fn record_status(span: &Span, status: u16) {
    // Unsigned numbers would be exported as strings.
    span.record("http.response.status_code", i64::from(status));
    // A client's mistake is not a failure of the server.
    if status >= 500 {
        span.record("otel.status_code", "error");
    }
}

/// Records what was generated: the numbers of tokens, and the finish reason of each sequence.
pub(crate) fn record_generation(span: &Span, prompt: u32, completion: u32, reasons: &[&str]) {
    span.record("gen_ai.usage.input_tokens", i64::from(prompt));
    span.record("gen_ai.usage.output_tokens", i64::from(completion));
    span.record("gen_ai.response.finish_reasons", reasons.join(","));
}

#[cfg(feature = "otlp")]
fn continue_trace(headers: &HeaderMap, span: &Span) {
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
    // This fails where no layer exports spans.
    let _ = span.set_parent(parent);
}

#[cfg(not(feature = "otlp"))]
fn continue_trace(_headers: &HeaderMap, _span: &Span) {}
