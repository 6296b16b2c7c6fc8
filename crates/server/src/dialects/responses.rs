//! OpenAI's newer API, `POST /v1/responses`, where nothing is kept between requests.

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::json;
use wf_client::sse;
use wf_client::wire::{
    Content, ErrorBody, IncompleteDetails, InputItem, NamedEvent, OutputMessage, OutputText,
    ResponseEvent, ResponseFault, ResponseNews, ResponseObject, ResponseUsage, ResponsesInput,
    ResponsesRequest, Sampling, TextPlace,
};
use wf_engine::{ChatOptions, Finish, FinishReason, Piece};
use wf_text::ChatMessage;

use crate::app::{App, ServedModel, now};
use crate::asked::{Asked, RefusedField, check_count, check_rest_by};
use crate::auth::Caller;
use crate::body::read_json;
use crate::decoding::read_carried;
use crate::error::ApiError;
use crate::replies::Replies;
use crate::request_id::RequestId;
use crate::routes::chat;
use crate::stream::{self, Writer, usage};
use crate::structured::{self, dialects::RESPONSES};

/// Fields that are read by nobody: labels, hints, and what would be kept.
const IGNORED: [&str; 14] = [
    "store",
    "user",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "parallel_tool_calls",
    "max_tool_calls",
    "stream_options",
    "reasoning",
    "moderation",
    "access_programs",
    "image",
];

/// Fields that would change the answer, with the values that would not.
const REFUSED: [RefusedField; 10] = [
    ("previous_response_id", &[]),
    ("conversation", &[]),
    ("prompt", &[]),
    ("tools", &["[]"]),
    ("tool_choice", &[r#""none""#, r#""auto""#]),
    ("include", &["[]"]),
    ("background", &["false"]),
    ("truncation", &[r#""disabled""#]),
    ("top_logprobs", &["0"]),
    ("context_management", &["[]"]),
];

/// Answer what was said.
#[utoipa::path(
    post,
    path = "/v1/responses",
    tag = "OpenAI",
    request_body = ResponsesRequest,
    responses(
        (status = 200, description = "The answer; with `stream`, as server-sent events",
         content((ResponseObject = "application/json"), (NamedEvent = "text/event-stream"))),
        (status = "default", description = "What is wrong", body = ErrorBody),
    )
)]
pub(crate) async fn responses(
    State(app): State<App>,
    Extension(id): Extension<RequestId>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let model = app.model_for_work()?;
    let mut request: ResponsesRequest = read_json(request, &app.options.limits).await?;
    model.check_name(request.model.as_deref())?;
    let form = request.rest.get("text").and_then(|text| text.get("format"));
    let form = form.filter(|form| !form.is_null()).cloned();
    let structured = structured::take_by(RESPONSES, &mut request.rest)?;
    check_rest_by(&IGNORED, &REFUSED, &request.rest)?;
    let asked = Asked::new(&app, model, caller, sampling(&request)?)?;
    let mut asked = Asked { structured, ..asked };
    let messages = conversation(&app, request.instructions.as_deref(), request.input.take())?;
    let options = ChatOptions { add_generation_prompt: true, ..ChatOptions::default() };
    let prompts = vec![chat::prompt_ids(model, messages, options).await?];
    asked.check_room(model, &prompts, "input").map_err(in_our_words)?;
    asked.compile(model).await?;
    let mut replies = Replies::start(&app, model, id.as_str(), prompts, 1, &asked.generate)?;
    let mut writer = ResponseWriter::new(model, &id, &asked, request);
    writer.response.text.format = form.unwrap_or_else(|| json!({"type": "text"}));
    if asked.stream {
        return Ok(stream::respond(&app, replies, writer));
    }
    stream::collect(&app, &mut replies, |replies, _, piece| writer.take(replies, piece)).await?;
    Ok(Json(writer.response).into_response())
}

/// An error that names this API's field.
fn in_our_words(error: ApiError) -> ApiError {
    ApiError { message: error.message.replace("max_tokens", "max_output_tokens"), ..error }
}

/// The settings under the names of chats.
fn sampling(request: &ResponsesRequest) -> Result<Sampling, ApiError> {
    if request.max_output_tokens == Some(0) {
        let message = "max_output_tokens is 0: at least 1 is needed";
        return Err(ApiError::field("max_output_tokens", message));
    }
    let mut sampling = Sampling {
        temperature: request.temperature,
        top_p: request.top_p,
        max_tokens: request.max_output_tokens,
        seed: request.seed,
        stream: request.stream,
        ..Sampling::default()
    };
    read_carried(&mut sampling, &request.rest, request.metadata.as_ref())?;
    Ok(sampling)
}

/// The conversation as a template sees it.
fn conversation(
    app: &App,
    instructions: Option<&str>,
    input: Option<ResponsesInput>,
) -> Result<Vec<ChatMessage>, ApiError> {
    let said = match input {
        None => return Err(ApiError::field("input", "input: a text or a list is needed")),
        Some(ResponsesInput::Text(text)) => vec![ChatMessage::new("user", text)],
        Some(ResponsesInput::Items(items)) if items.is_empty() => {
            return Err(ApiError::field("input", "input: at least one message is needed"));
        }
        Some(ResponsesInput::Items(items)) => {
            check_count("input", items.len(), app.options.limits.messages)?;
            let all = items.into_iter().enumerate();
            all.map(|(at, item)| message(at, item)).collect::<Result<_, _>>()?
        }
    };
    let instructions = instructions.map(|text| ChatMessage::new("system", text));
    Ok(instructions.into_iter().chain(said).collect())
}

fn message(at: usize, item: InputItem) -> Result<ChatMessage, ApiError> {
    if let Some(kind) = item.kind.filter(|kind| kind != "message") {
        let param = format!("input[{at}].type");
        let message = format!("{param} is {kind:?}: items of type message are allowed");
        return Err(ApiError::unsupported(param, message));
    }
    let role = match item.role.as_str() {
        "user" | "assistant" | "system" => item.role.as_str(),
        "developer" => "system",
        _ => {
            let param = format!("input[{at}].role");
            let message = format!("{param}: use one of user, assistant, system, developer");
            return Err(ApiError::field(param, message));
        }
    };
    let field = format!("input[{at}].content");
    let mut content = item
        .content
        .ok_or_else(|| ApiError::field(field.clone(), format!("{field}: a text is needed")))?;
    if let Content::Parts(parts) = &mut content {
        // What was asked and what was answered have names of their own.
        let texts = parts
            .iter_mut()
            .filter(|part| matches!(part.kind.as_str(), "input_text" | "output_text"));
        texts.for_each(|part| part.kind = "text".to_owned());
    }
    Ok(ChatMessage::new(role, chat::text_of(&field, content)?))
}

/// Keeps the answer as it is written.
struct ResponseWriter {
    response: ResponseObject,
    /// The message, which is part of the answer once it has ended.
    message: OutputMessage,
    sent: u64,
}

impl ResponseWriter {
    fn new(model: &ServedModel, id: &RequestId, asked: &Asked, request: ResponsesRequest) -> Self {
        let sampling = &asked.generate.sampling;
        let response = ResponseObject {
            id: format!("resp_{}", id.as_str()),
            object: "response".into(),
            created_at: now(),
            status: "in_progress".into(),
            instructions: request.instructions,
            max_output_tokens: request.max_output_tokens,
            model: model.name().to_owned(),
            temperature: sampling.temperature,
            tool_choice: "none".into(),
            top_p: sampling.top_p,
            truncation: "disabled".into(),
            metadata: request.metadata.unwrap_or_default(),
            seed: asked.seed,
            system_fingerprint: model.fingerprint(),
            ..ResponseObject::default()
        };
        let message = OutputMessage {
            id: format!("msg_{}", id.as_str()),
            status: "in_progress".into(),
            role: "assistant".into(),
            content: Vec::new(),
        };
        Self { response, message, sent: 0 }
    }

    /// Adds a piece to the answer.
    fn take(&mut self, replies: &Replies, piece: Piece) {
        match piece {
            Piece::Text { text, .. } => self.text().text.push_str(&text),
            Piece::Done(finish) => self.finish(replies, &finish),
            Piece::Started { .. }
            | Piece::Progress { .. }
            | Piece::Preview(_)
            | Piece::PromptLogprobs(_) => {}
        }
    }

    /// The text so far.
    fn text(&mut self) -> &mut OutputText {
        if self.message.content.is_empty() {
            self.message.content.push(OutputText::default());
        }
        &mut self.message.content[0]
    }

    fn finish(&mut self, replies: &Replies, finish: &Finish) {
        let cut = match finish.reason {
            FinishReason::Stop => None,
            FinishReason::Length => Some("max_output_tokens"),
            reason => Some(reason.name()),
        };
        let status = if cut.is_some() { "incomplete" } else { "completed" };
        self.text();
        self.message.status = status.to_owned();
        let counted = usage(replies, 1);
        let response = &mut self.response;
        response.status = status.to_owned();
        response.incomplete_details =
            cut.map(|reason| IncompleteDetails { reason: reason.to_owned() });
        response.output = vec![self.message.clone()];
        response.usage = Some(ResponseUsage {
            input_tokens: counted.prompt_tokens,
            input_tokens_details: counted.prompt_tokens_details.unwrap_or_default(),
            output_tokens: counted.completion_tokens,
            total_tokens: counted.total_tokens,
            ..ResponseUsage::default()
        });
    }

    fn event(&mut self, kind: &str, news: ResponseNews) -> String {
        let event = ResponseEvent { kind: kind.to_owned(), sequence_number: self.sent, news };
        self.sent += 1;
        sse::named_event(kind, &event)
    }

    /// An event with all of the answer.
    fn all(&mut self, kind: &str) -> String {
        let response = Box::new(self.response.clone());
        self.event(kind, ResponseNews::Response { response })
    }

    fn item(&mut self, kind: &str) -> String {
        let item = self.message.clone();
        self.event(kind, ResponseNews::Item { output_index: 0, item })
    }

    fn place(&self) -> TextPlace {
        TextPlace { item_id: self.message.id.clone(), output_index: 0, content_index: 0 }
    }

    fn part(&mut self, kind: &str) -> String {
        let (place, part) = (self.place(), self.text().clone());
        self.event(kind, ResponseNews::Part { place, part })
    }
}

impl Writer for ResponseWriter {
    fn begin(&mut self, _replies: &Replies) -> String {
        let events = self.all("response.created") + &self.all("response.in_progress");
        let events = events + &self.item("response.output_item.added");
        events + &self.part("response.content_part.added")
    }

    fn piece(&mut self, replies: &Replies, _at: usize, piece: Piece) -> String {
        let events = match &piece {
            Piece::Text { text, .. } if !text.is_empty() => {
                let (place, delta) = (self.place(), text.clone());
                let news = ResponseNews::Delta { place, delta, logprobs: Vec::new() };
                self.event("response.output_text.delta", news)
            }
            _ => String::new(),
        };
        self.take(replies, piece);
        events
    }

    fn end(&mut self, _replies: &Replies) -> String {
        let (place, text) = (self.place(), self.text().text.clone());
        let news = ResponseNews::Text { place, text, logprobs: Vec::new() };
        let events = self.event("response.output_text.done", news);
        let events = events + &self.part("response.content_part.done");
        let events = events + &self.item("response.output_item.done");
        let kind = format!("response.{}", self.response.status);
        events + &self.all(&kind)
    }

    fn close(&self) -> String {
        String::new()
    }

    fn error(&mut self, error: &ApiError) -> String {
        let (code, message) = (error.code.to_owned(), error.message.clone());
        let param = error.param.clone();
        self.response.status = "failed".to_owned();
        self.response.error = Some(ResponseFault { code: code.clone(), message: message.clone() });
        let events = self.event("error", ResponseNews::Error { code, message, param });
        events + &self.all("response.failed")
    }
}
