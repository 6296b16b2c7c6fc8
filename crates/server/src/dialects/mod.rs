//! API dialects: the JSON of other servers for the same work.
//!
//! A dialect is a folder. Its requests are read into a [`Generation`], and its [`Writer`] turns the events of
//! sequences into frames of a stream, and into a response that is not streamed. One handler (`handler.rs`) does
//! everything else. To add a dialect, add its folder and its line in [`DIALECTS`].

mod anthropic;
mod handler;
mod late;
mod ollama;
mod openai;
mod openai_chat;
mod openai_completions;
mod openai_responses;
mod sglang;
mod suggest;

use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use axum::middleware::Next;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;
use wf_api::sse;
use wf_api::wire::ErrorBody;

use crate::error::ApiError;
use crate::generation::{Context, Generation, SequenceEvent, Sequences};
use crate::http::body::RequestBody;
use crate::http::request_id;
use crate::http::routes::Routes;

pub(crate) use openai::CHAT_TOOLS;

const DIALECTS: &[Registration] = &[
    openai_chat::DIALECT,
    openai_completions::DIALECT,
    openai_responses::DIALECT,
    anthropic::DIALECT,
    ollama::DIALECT,
    sglang::DIALECT,
];

/// Routes of a dialect, and the shape of its errors.
struct Registration {
    routes: fn() -> Routes,
    /// Renders an error under these paths, if it has another shape than OpenAI's.
    errors: Option<ErrorFormat>,
}

/// Shape of the errors of all requests below a path.
struct ErrorFormat {
    path: &'static str,
    body: fn(&ApiError, request_id: String) -> Vec<u8>,
}

impl ErrorFormat {
    fn applies_to(&self, path: &str) -> bool {
        let below = path.strip_prefix(self.path);
        below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
    }
}

/// A request type that generates text.
trait Dialect: Sized + Send + 'static {
    /// JSON body of a request.
    type Request: RequestBody + ToSchema;

    /// Writer of the responses.
    type Writer: Writer;

    /// Reads a request. `Self` keeps the values that the writer needs.
    fn read(request: Self::Request, cx: &Context) -> Result<(Self, Generation), ApiError>;

    /// Creates the writer of the response to a request whose sequences have been started.
    fn writer(self, cx: &Context, generation: &Generation, sequences: &Sequences) -> Self::Writer;
}

/// Turns events of sequences into frames of a stream, and into a response that is not streamed.
trait Writer: Send + 'static {
    /// Unit of a stream.
    type Frame: Serialize + Send;

    /// Response that is not streamed.
    type Response: Serialize + Send;

    /// Media type of the stream.
    const CONTENT_TYPE: &'static str = "text/event-stream";

    /// Bytes that end every stream.
    const END: &'static str = "data: [DONE]\n\n";

    /// Returns a response with the head of a stream.
    fn stream(body: Body) -> Response {
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(Self::CONTENT_TYPE));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // Buffering proxies would hold tokens back.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    /// Returns the frames before the first event.
    fn start(&mut self, _sequences: &Sequences) -> Vec<Self::Frame> {
        Vec::new()
    }

    /// Returns the frames of an event of the sequence at index `at`.
    fn event(&mut self, sequences: &Sequences, at: usize, event: SequenceEvent)
    -> Vec<Self::Frame>;

    /// Returns the frames after the last event.
    fn end(&mut self, _sequences: &Sequences) -> Vec<Self::Frame> {
        Vec::new()
    }

    /// Adds a frame to the response. A writer whose frames repeat what it keeps itself has nothing to add.
    fn fold(&mut self, _frame: Self::Frame) {}

    /// Returns the response to which all frames have been added.
    fn response(self) -> Self::Response;

    /// Returns the bytes of a frame.
    fn encode(&self, frame: &Self::Frame) -> String {
        sse::json_event(frame)
    }

    /// Returns the bytes that report an error inside a stream.
    fn error(&mut self, error: &ApiError) -> String {
        Self::refusal(error)
    }

    /// Returns the bytes that report an error in a stream that has nothing else.
    fn refusal(error: &ApiError) -> String {
        sse::json_event(&error.body())
    }

    /// Returns bytes that carry no data, for a stream that waits until its model is loaded.
    fn waiting(_model: &str) -> String {
        sse::comment("the model is loading")
    }

    /// Returns bytes that carry no data and keep the connection open.
    fn keep_alive(&self) -> String {
        sse::comment("keep-alive")
    }
}

/// Returns the routes of all dialects.
pub(crate) fn routes() -> Routes {
    let none = Routes::new::<ErrorBody>("");
    DIALECTS.iter().fold(none, |all, dialect| all.merge((dialect.routes)()))
}

/// Renders errors in the shape that clients of a path expect, wherever they come from.
pub(crate) async fn render_errors(request: Request<Body>, next: Next) -> Response {
    let path = request.uri().path();
    let mut formats = DIALECTS.iter().filter_map(|dialect| dialect.errors.as_ref());
    let Some(format) = formats.find(|format| format.applies_to(path)) else {
        return next.run(request).await;
    };
    let id = request_id::of(request.extensions());
    let mut response = next.run(request).await;
    let Some(error) = response.extensions_mut().remove::<ApiError>() else { return response };
    let (mut head, _) = response.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::from((format.body)(&error, id)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use utoipa::ToSchema;
    use wf_api::wire::{ChatRequest, CompletionRequest, EmbeddingRequest};
    use wf_engine::GrammarSource;

    use super::anthropic::FIELDS as ANTHROPIC;
    use super::ollama::FIELDS as OLLAMA;
    use super::openai_responses::FIELDS as RESPONSES;
    use crate::generation::FieldRules;
    use crate::generation::unknown_fields::UnknownFields;
    use crate::http::body::RequestBody;
    use crate::http::raw_fields::FieldUse;
    use crate::http::routes::{Routes, fields};

    fn taken(by: &FieldRules, fields: &Value) -> Result<Option<GrammarSource>, String> {
        let Value::Object(mut extra) = fields.clone() else { panic!("an object") };
        let taken = by.read(&mut extra, &UnknownFields::default()).map_err(|error| error.message);
        assert!(taken.is_err() || extra.is_empty(), "the field is removed");
        taken.map(|taken| taken.map(|taken| taken.source))
    }

    #[test]
    fn every_dialect_reads_its_constraints() {
        let schema = json!({"type": "integer"});
        let flat = json!({"type": "json_schema", "name": "x", "strict": true, "schema": schema});
        let expected = Ok(Some(GrammarSource::JsonSchema(schema.clone())));
        for (by, fields) in [
            (&OLLAMA, json!({"format": schema})),
            (&RESPONSES, json!({"text": {"format": flat, "verbosity": "low"}})),
            (&ANTHROPIC, json!({"output_config": {"format": flat, "effort": "low"}})),
            (&ANTHROPIC, json!({"output_format": flat})),
        ] {
            assert_eq!(taken(by, &fields), expected, "{fields}");
        }
        let object = Ok(Some(GrammarSource::json_object()));
        assert_eq!(taken(&OLLAMA, &json!({"format": "json"})), object);
        assert_eq!(
            taken(&RESPONSES, &json!({"text": {"format": {"type": "json_object"}}})),
            object
        );
        for (by, fields) in [
            (&OLLAMA, json!({"format": ""})),
            (&RESPONSES, json!({"text": {}})),
            (&RESPONSES, json!({"text": {"format": {"type": "text"}}})),
            (&ANTHROPIC, json!({"output_config": {"effort": "high", "format": null}})),
        ] {
            assert_eq!(taken(by, &fields), Ok(None), "{fields}");
        }
    }

    fn assert_reads_declared_fields<T: RequestBody + ToSchema>() {
        let (_, document) = Routes::new::<T>("").into_parts();
        for (field, _) in fields(&document, &document["components"]["schemas"][&*T::name()]) {
            assert!(!matches!(T::use_of(field), FieldUse::Skip), "{}: {field}", T::name());
        }
    }

    #[test]
    fn every_declared_field_is_read() {
        assert_reads_declared_fields::<ChatRequest>();
        assert_reads_declared_fields::<CompletionRequest>();
        assert_reads_declared_fields::<EmbeddingRequest>();
        assert_reads_declared_fields::<super::anthropic::wire::CountTokensRequest>();
        assert_reads_declared_fields::<super::anthropic::wire::MessagesRequest>();
        assert_reads_declared_fields::<super::ollama::wire::OllamaChatRequest>();
        assert_reads_declared_fields::<super::ollama::wire::OllamaEmbedRequest>();
        assert_reads_declared_fields::<super::ollama::wire::OllamaEmbeddingsRequest>();
        assert_reads_declared_fields::<super::ollama::wire::OllamaGenerateRequest>();
        assert_reads_declared_fields::<super::openai_responses::wire::ResponsesRequest>();
        assert_reads_declared_fields::<super::sglang::wire::GenerateRequest>();
    }

    #[test]
    fn invalid_constraints_are_rejected_by_name() {
        for (by, fields, expected) in [
            (&OLLAMA, json!({"format": "yaml"}), "format: must be \"json\" or a JSON schema"),
            (&RESPONSES, json!({"text": "json"}), "text: must be an object"),
            (
                &RESPONSES,
                json!({"text": {"format": {"type": "xml"}}}),
                "text: format: type must be",
            ),
            (&RESPONSES, json!({"text": {"formats": {}}}), "text: unknown field \"formats\""),
            (&ANTHROPIC, json!({"output_format": {"type": "json_schema"}}), "schema is required"),
        ] {
            let message = taken(by, &fields).unwrap_err();
            assert!(message.contains(expected), "{fields}: {message}");
        }
    }
}
