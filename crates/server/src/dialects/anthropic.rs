//! Anthropic's API: `POST /v1/messages` and `/v1/messages/count_tokens`.

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use wf_client::sse;
use wf_client::wire::{
    self, Content, CountTokensRequest, CountTokensResponse, Message, MessageEnd, MessageEvent,
    MessageUsage, MessagesError, MessagesErrorDetail, MessagesRequest, NamedEvent, OneOrMany,
    Sampling, TextBlock, TextDelta,
};
use wf_engine::{ChatOptions, Finish, FinishReason, Piece, StoppedAt};
use wf_text::ChatMessage;

use crate::app::{App, ServedModel};
use crate::asked::{Asked, RefusedField, check_rest_by};
use crate::auth::Caller;
use crate::body::read_json;
use crate::decoding::read_carried;
use crate::error::ApiError;
use crate::replies::Replies;
use crate::request_id::RequestId;
use crate::routes::chat;
use crate::stream::{self, Writer, usage};
use crate::structured::{self, dialects::MESSAGES};

/// Fields that are read by nobody: labels and hints.
const IGNORED: [&str; 8] = [
    "metadata",
    "service_tier",
    "cache_control",
    "inference_geo",
    "speed",
    "diagnostics",
    "user_profile_id",
    "workspace_id",
];

/// Fields that would change the answer, with the values that would not.
const REFUSED: [RefusedField; 6] = [
    ("tools", &["[]"]),
    ("tool_choice", &[r#"{"type":"none"}"#, r#"{"type":"auto"}"#]),
    ("thinking", &[r#"{"type":"disabled"}"#]),
    ("mcp_servers", &["[]"]),
    ("container", &[]),
    ("context_management", &["{}"]),
];

/// Continue a conversation.
#[utoipa::path(
    post,
    path = "/v1/messages",
    tag = "Anthropic",
    request_body = MessagesRequest,
    responses(
        (status = 200, description = "The reply; with `stream`, as server-sent events",
         content((Message = "application/json"), (NamedEvent = "text/event-stream"))),
        (status = "default", description = "What is wrong", body = MessagesError),
    )
)]
pub(crate) async fn messages(
    State(app): State<App>,
    Extension(id): Extension<RequestId>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let model = app.model_for_work()?;
    let mut request: MessagesRequest = read_json(request, &app.options.limits).await?;
    model.check_name(request.model.as_deref())?;
    let structured = structured::take_by(MESSAGES, &mut request.rest)?;
    check_rest_by(&IGNORED, &REFUSED, &request.rest)?;
    let mut sampling = sampling(&request)?;
    read_carried(&mut sampling, &request.rest, None)?;
    let asked = Asked::new(&app, model, caller, sampling)
        .map_err(|error| error.renamed("stop", "stop_sequences"))?;
    let mut asked = Asked { structured, ..asked };
    let (messages, options) = conversation(&app, request.system, request.messages)?;
    let prompts = vec![chat::prompt_ids(model, messages, options).await?];
    asked.check_room(model, &prompts, "messages")?;
    asked.compile(model).await?;
    let mut replies = Replies::start(&app, model, id.as_str(), prompts, 1, &asked.generate)?;
    let mut writer = MessageWriter::new(model, &id, asked.generate.stop);
    if asked.stream {
        return Ok(stream::respond(&app, replies, writer));
    }
    stream::collect(&app, &mut replies, |_, _, piece| writer.take(piece)).await?;
    let usage = writer.counted(&replies);
    Ok(Json(Message { usage, ..writer.message }).into_response())
}

/// Count the tokens of a conversation.
#[utoipa::path(
    post,
    path = "/v1/messages/count_tokens",
    tag = "Anthropic",
    request_body = CountTokensRequest,
    responses(
        (status = 200, description = "How many there are", body = CountTokensResponse),
        (status = "default", description = "What is wrong", body = MessagesError),
    )
)]
pub(crate) async fn count_tokens(
    State(app): State<App>,
    request: Request<Body>,
) -> Result<Json<CountTokensResponse>, ApiError> {
    let model = app.model()?;
    let mut request: CountTokensRequest = read_json(request, &app.options.limits).await?;
    model.check_name(request.model.as_deref())?;
    // The form of a reply is no part of the prompt.
    structured::take_by(MESSAGES, &mut request.rest)?;
    check_rest_by(&IGNORED, &REFUSED, &request.rest)?;
    let (messages, options) = conversation(&app, request.system, request.messages)?;
    let ids = chat::prompt_ids(model, messages, options).await?;
    Ok(Json(CountTokensResponse { input_tokens: ids.len() as u32 }))
}

/// The settings under OpenAI's names.
fn sampling(request: &MessagesRequest) -> Result<Sampling, ApiError> {
    match request.max_tokens {
        Some(1..) => {}
        Some(0) => {
            return Err(ApiError::field("max_tokens", "max_tokens is 0: at least 1 is needed"));
        }
        None => return Err(ApiError::field("max_tokens", "max_tokens is needed: 1 or more")),
    }
    if let Some(temperature) = request.temperature.filter(|t| !(0.0..=1.0).contains(t)) {
        let message = format!("temperature is {temperature}: 0 to 1 is allowed");
        return Err(ApiError::field("temperature", message));
    }
    Ok(Sampling {
        temperature: request.temperature,
        top_p: request.top_p,
        top_k: request.top_k.map(i64::from),
        max_tokens: request.max_tokens,
        stop: request.stop_sequences.clone().map(OneOrMany::Many),
        seed: request.seed,
        stream: request.stream,
        ..Sampling::default()
    })
}

/// The conversation as a template sees it.
fn conversation(
    app: &App,
    system: Option<Content>,
    messages: Vec<wire::ChatMessage>,
) -> Result<(Vec<ChatMessage>, ChatOptions), ApiError> {
    let is_known = |message: &wire::ChatMessage| matches!(&*message.role, "user" | "assistant");
    if let Some(at) = messages.iter().position(|message| !is_known(message)) {
        let param = format!("messages[{at}].role");
        let message = format!("{param}: use user or assistant; instructions go into system");
        return Err(ApiError::field(param, message));
    }
    let continue_final = messages.last().is_some_and(|last| last.role == "assistant");
    let options =
        ChatOptions { add_generation_prompt: true, continue_final, ..ChatOptions::default() };
    let mut all = chat::messages(app, messages)?;
    if let Some(system) = system {
        let text = chat::text_of("system", system)?;
        all.insert(0, ChatMessage::new("system", text));
    }
    Ok((all, options))
}

/// Keeps the reply as it is written.
struct MessageWriter {
    message: Message,
    stops: Vec<String>,
}

impl MessageWriter {
    fn new(model: &ServedModel, id: &RequestId, stops: Vec<String>) -> Self {
        let message = Message {
            id: format!("msg_{}", id.as_str()),
            kind: "message".into(),
            role: "assistant".into(),
            model: model.name().to_owned(),
            content: vec![TextBlock { text: String::new() }],
            end: MessageEnd::default(),
            usage: MessageUsage::default(),
        };
        Self { message, stops }
    }

    /// Adds a piece to the reply.
    fn take(&mut self, piece: Piece) {
        match piece {
            Piece::Text { text, .. } => self.message.content[0].text.push_str(&text),
            Piece::Done(finish) => self.message.end = end(&self.stops, &finish),
            Piece::Started { .. }
            | Piece::Progress { .. }
            | Piece::Preview(_)
            | Piece::PromptLogprobs(_) => {}
        }
    }

    fn counted(&self, replies: &Replies) -> MessageUsage {
        let counted = usage(replies, 1);
        let cached = counted.prompt_tokens_details.map_or(0, |details| details.cached_tokens);
        MessageUsage {
            input_tokens: counted.prompt_tokens - cached,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: cached,
            output_tokens: counted.completion_tokens,
        }
    }

    /// The events before the text. What was there of the prompt is known once it is being computed.
    fn start(&self, replies: &Replies, cached: usize) -> String {
        let usage = MessageUsage {
            input_tokens: (replies.stream(0).prompt_ids().len() - cached) as u32,
            cache_read_input_tokens: cached as u32,
            ..MessageUsage::default()
        };
        let message = Message { content: Vec::new(), usage, ..self.message.clone() };
        let content_block = TextBlock { text: String::new() };
        event(&MessageEvent::MessageStart { message })
            + &event(&MessageEvent::ContentBlockStart { index: 0, content_block })
            + &event(&MessageEvent::Ping)
    }
}

fn end(stops: &[String], finish: &Finish) -> MessageEnd {
    let (reason, stop_sequence) = match (finish.reason, &finish.stopped_at) {
        (FinishReason::Stop, Some(StoppedAt::Text(at))) => {
            ("stop_sequence", Some(stops[*at].clone()))
        }
        (FinishReason::Length, _) => ("max_tokens", None),
        // What has been written may be sent back to be continued.
        (FinishReason::Deadline, _) => ("pause_turn", None),
        _ => ("end_turn", None),
    };
    MessageEnd { stop_reason: Some(reason.to_owned()), stop_sequence }
}

fn event(event: &MessageEvent) -> String {
    sse::named_event(event.name(), event)
}

impl Writer for MessageWriter {
    fn begin(&mut self, _replies: &Replies) -> String {
        String::new()
    }

    fn piece(&mut self, replies: &Replies, _at: usize, piece: Piece) -> String {
        match piece {
            Piece::Started { cached } => self.start(replies, cached),
            Piece::Text { text, .. } if !text.is_empty() => {
                event(&MessageEvent::ContentBlockDelta { index: 0, delta: TextDelta { text } })
            }
            Piece::Done(finish) => {
                let (delta, usage) = (end(&self.stops, &finish), self.counted(replies));
                event(&MessageEvent::ContentBlockStop { index: 0 })
                    + &event(&MessageEvent::MessageDelta { delta, usage })
                    + &event(&MessageEvent::MessageStop)
            }
            Piece::Text { .. }
            | Piece::Progress { .. }
            | Piece::Preview(_)
            | Piece::PromptLogprobs(_) => String::new(),
        }
    }

    fn end(&mut self, _replies: &Replies) -> String {
        String::new()
    }

    fn close(&self) -> String {
        String::new()
    }

    fn error(&mut self, error: &ApiError) -> String {
        event(&MessageEvent::Error { error: detail(error) })
    }

    fn keep_alive(&self) -> String {
        event(&MessageEvent::Ping)
    }
}

fn detail(error: &ApiError) -> MessagesErrorDetail {
    let kind = match error.status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
        status if status.is_server_error() => "api_error",
        _ => "invalid_request_error",
    };
    MessagesErrorDetail { kind: kind.to_owned(), message: error.message.clone() }
}

/// An error in Anthropic's form.
pub(crate) fn error_body(error: &ApiError, id: Option<&RequestId>) -> Vec<u8> {
    let request_id = id.map_or_else(String::new, |id| id.as_str().to_owned());
    let body = MessagesError { error: detail(error), request_id };
    serde_json::to_vec(&body).unwrap_or_default()
}
