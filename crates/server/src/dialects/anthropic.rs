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
    Sampling,
};
use wf_engine::{ChatOptions, Finish, FinishReason, Piece, StoppedAt};
use wf_text::{CallPart, ChatMessage};

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
use crate::tools::blocks::{Blocks, messages_of};
use crate::tools::{self, Parts, Tools};

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
const REFUSED: [RefusedField; 4] = [
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
    let tools = tools::read::of_messages(request.tools, request.tool_choice.as_ref())?;
    let (messages, mut options) = conversation(&app, request.system, request.messages)?;
    options.tools = tools.as_ref().map(Tools::for_template).unwrap_or_default();
    let mut asked = Asked { structured, tools, ..asked };
    let prompts = vec![chat::prompt_ids(model, messages, options).await?];
    asked.check_room(model, &prompts, "messages")?;
    asked.compile(model).await?;
    let mut replies = Replies::start(&app, model, id.as_str(), prompts, 1, &asked.generate)?;
    let stream = asked.stream;
    let mut writer = MessageWriter::new(model, &id, asked);
    if stream {
        return Ok(stream::respond(&app, replies, writer));
    }
    stream::collect(&app, &mut replies, |_, _, piece| drop(writer.take(piece))).await?;
    let usage = writer.counted(&replies);
    Ok(Json(Message { usage, content: writer.blocks.content, ..writer.message }).into_response())
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
    let tools = tools::read::of_messages(request.tools, request.tool_choice.as_ref())?;
    let (messages, mut options) = conversation(&app, request.system, request.messages)?;
    options.tools = tools.as_ref().map(Tools::for_template).unwrap_or_default();
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
    chat::check_messages(app, messages.len())?;
    let mut all = Vec::with_capacity(messages.len() + 1);
    if let Some(system) = system {
        all.push(ChatMessage::new("system", chat::text_of("system", system)?));
    }
    for (at, message) in messages.into_iter().enumerate() {
        all.extend(messages_of(at, message)?);
    }
    Ok((all, options))
}

/// Keeps the reply as it is written.
struct MessageWriter {
    message: Message,
    blocks: Blocks,
    parts: Parts,
    stops: Vec<String>,
}

impl MessageWriter {
    fn new(model: &ServedModel, id: &RequestId, asked: Asked) -> Self {
        let message = Message {
            id: format!("msg_{}", id.as_str()),
            kind: "message".into(),
            role: "assistant".into(),
            model: model.name().to_owned(),
            content: Vec::new(),
            end: MessageEnd::default(),
            usage: MessageUsage::default(),
        };
        let parts = Parts::new(&asked, model.frontend.text().tool_format(), 1);
        Self { message, blocks: Blocks::default(), parts, stops: asked.generate.stop }
    }

    /// Adds a piece to the reply, and says so.
    fn take(&mut self, piece: Piece) -> Vec<MessageEvent> {
        match piece {
            // Without tools it is a text, if an empty one.
            Piece::Started { .. } if !self.parts.have_tools() => vec![self.blocks.begin_text()],
            Piece::Text { text, .. } => {
                let parts = self.parts.push(0, text);
                self.add(parts)
            }
            Piece::Done(finish) => {
                let parts = self.parts.finish(0);
                let mut events = self.add(parts);
                events.extend(self.blocks.end());
                self.message.end = end(&self.stops, &finish, self.blocks.have_calls());
                events
            }
            Piece::Started { .. }
            | Piece::Progress { .. }
            | Piece::Preview(_)
            | Piece::PromptLogprobs(_) => Vec::new(),
        }
    }

    fn add(&mut self, parts: Vec<CallPart>) -> Vec<MessageEvent> {
        parts.into_iter().flat_map(|part| self.blocks.add(part)).collect()
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
        let message = Message { usage, ..self.message.clone() };
        event(&MessageEvent::MessageStart { message })
    }
}

fn end(stops: &[String], finish: &Finish, has_calls: bool) -> MessageEnd {
    let (reason, stop_sequence) = match (finish.reason, &finish.stopped_at) {
        (FinishReason::Stop, Some(StoppedAt::Text(at))) => {
            ("stop_sequence", Some(stops[*at].clone()))
        }
        (FinishReason::Length, _) => ("max_tokens", None),
        // What has been written may be sent back to be continued.
        (FinishReason::Deadline, _) => ("pause_turn", None),
        _ if has_calls => ("tool_use", None),
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
        let begun = match &piece {
            Piece::Started { cached } => Some(self.start(replies, *cached)),
            _ => None,
        };
        let is_done = matches!(piece, Piece::Done(_));
        let events: String = self.take(piece).iter().map(event).collect();
        if let Some(begun) = begun {
            return begun + &events + &event(&MessageEvent::Ping);
        }
        if is_done {
            let (delta, usage) = (self.message.end.clone(), self.counted(replies));
            let ended = event(&MessageEvent::MessageDelta { delta, usage });
            return events + &ended + &event(&MessageEvent::MessageStop);
        }
        events
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
