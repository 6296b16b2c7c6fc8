//! OpenAI's newer API, `POST /v1/responses`, where nothing is kept between requests.

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::json;
use wf_client::sse;
use wf_client::wire::{
    ErrorBody, IncompleteDetails, InputItem, NamedEvent, ResponseEvent, ResponseFault,
    ResponseNews, ResponseObject, ResponseUsage, ResponsesInput, ResponsesRequest, Sampling,
};
use wf_engine::{ChatOptions, Finish, FinishReason, Piece};
use wf_text::{CallPart, ChatMessage};

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
use crate::tools::items::{self, Items, News};
use crate::tools::{self, Parts, Tools};

/// Fields that are read by nobody: labels, hints, and what would be kept.
const IGNORED: [&str; 13] = [
    "store",
    "user",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "max_tool_calls",
    "stream_options",
    "reasoning",
    "moderation",
    "access_programs",
    "image",
];

/// Fields that would change the answer, with the values that would not.
const REFUSED: [RefusedField; 8] = [
    ("previous_response_id", &[]),
    ("conversation", &[]),
    ("prompt", &[]),
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
    let (choice, parallel) = (request.tool_choice.as_ref(), request.parallel_tool_calls);
    let tools = tools::read::of_responses(request.tools.clone(), choice, parallel)?;
    let mut asked = Asked { structured, tools, ..asked };
    let messages = conversation(&app, request.instructions.as_deref(), request.input.take())?;
    let tools = asked.tools.as_ref().map(Tools::for_template).unwrap_or_default();
    let options = ChatOptions { add_generation_prompt: true, tools, ..ChatOptions::default() };
    let prompts = vec![chat::prompt_ids(model, messages, options).await?];
    asked.check_room(model, &prompts, "input").map_err(in_our_words)?;
    asked.compile(model).await?;
    let mut replies = Replies::start(&app, model, id.as_str(), prompts, 1, &asked.generate)?;
    let mut writer = ResponseWriter::new(model, &id, &asked, request);
    writer.response.text.format = form.unwrap_or_else(|| json!({"type": "text"}));
    if asked.stream {
        return Ok(stream::respond(&app, replies, writer));
    }
    stream::collect(&app, &mut replies, |replies, _, piece| drop(writer.take(replies, piece)))
        .await?;
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
            let mut said = Vec::with_capacity(items.len());
            for (at, item) in items.into_iter().enumerate() {
                match item.kind.as_deref() {
                    Some("function_call" | "function_call_output") => {
                        items::add_to(&mut said, at, &item)?;
                    }
                    _ => said.push(message(at, item)?),
                }
            }
            said
        }
    };
    let instructions = instructions.map(|text| ChatMessage::new("system", text));
    Ok(instructions.into_iter().chain(said).collect())
}

fn message(at: usize, item: InputItem) -> Result<ChatMessage, ApiError> {
    if let Some(kind) = item.kind.filter(|kind| kind != "message") {
        let param = format!("input[{at}].type");
        let message = format!(
            "{param} is {kind:?}: message, function_call and \
                               function_call_output are allowed"
        );
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
    let content = item
        .content
        .ok_or_else(|| ApiError::field(field.clone(), format!("{field}: a text is needed")))?;
    Ok(ChatMessage::new(role, chat::text_of(&field, items::plain(content))?))
}

/// Keeps the answer as it is written.
struct ResponseWriter {
    response: ResponseObject,
    /// What is said, which is part of the answer once that has ended.
    items: Items,
    parts: Parts,
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
            parallel_tool_calls: request.parallel_tool_calls.unwrap_or(true),
            tool_choice: request.tool_choice.unwrap_or_else(|| "auto".into()),
            tools: request.tools.unwrap_or_default(),
            top_p: sampling.top_p,
            truncation: "disabled".into(),
            metadata: request.metadata.unwrap_or_default(),
            seed: asked.seed,
            system_fingerprint: model.fingerprint(),
            ..ResponseObject::default()
        };
        let items = Items::new(format!("msg_{}", id.as_str()));
        let parts = Parts::new(asked, model.frontend.text().tool_format(), 1);
        Self { response, items, parts, sent: 0 }
    }

    /// Adds a piece to the answer, and says so.
    fn take(&mut self, replies: &Replies, piece: Piece) -> Vec<News> {
        match piece {
            Piece::Started { .. } => self.begin_message(),
            Piece::Text { text, .. } => {
                let parts = self.parts.push(0, text);
                self.add(parts)
            }
            Piece::Done(finish) => {
                let parts = self.parts.finish(0);
                let news = self.add(parts);
                news.into_iter().chain(self.finish(replies, &finish)).collect()
            }
            Piece::Progress { .. } | Piece::Preview(_) | Piece::PromptLogprobs(_) => Vec::new(),
        }
    }

    /// Without tools there is a message, if an empty one.
    fn begin_message(&mut self) -> Vec<News> {
        match self.parts.have_tools() {
            true => Vec::new(),
            false => self.items.begin_message(),
        }
    }

    fn add(&mut self, parts: Vec<CallPart>) -> Vec<News> {
        parts.into_iter().flat_map(|part| self.items.add(part)).collect()
    }

    fn finish(&mut self, replies: &Replies, finish: &Finish) -> Vec<News> {
        let cut = match finish.reason {
            FinishReason::Stop => None,
            FinishReason::Length => Some("max_output_tokens"),
            reason => Some(reason.name()),
        };
        let status = if cut.is_some() { "incomplete" } else { "completed" };
        let news = self.items.end_message(status);
        let counted = usage(replies, 1);
        let response = &mut self.response;
        response.status = status.to_owned();
        response.incomplete_details =
            cut.map(|reason| IncompleteDetails { reason: reason.to_owned() });
        response.output = self.items.output.clone();
        response.usage = Some(ResponseUsage {
            input_tokens: counted.prompt_tokens,
            input_tokens_details: counted.prompt_tokens_details.unwrap_or_default(),
            output_tokens: counted.completion_tokens,
            total_tokens: counted.total_tokens,
            ..ResponseUsage::default()
        });
        news
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

    fn events(&mut self, news: Vec<News>) -> String {
        news.into_iter().map(|(kind, news)| self.event(kind, news)).collect()
    }
}

impl Writer for ResponseWriter {
    fn begin(&mut self, _replies: &Replies) -> String {
        self.all("response.created") + &self.all("response.in_progress")
    }

    fn piece(&mut self, replies: &Replies, _at: usize, piece: Piece) -> String {
        let news = self.take(replies, piece);
        self.events(news)
    }

    fn end(&mut self, _replies: &Replies) -> String {
        let kind = format!("response.{}", self.response.status);
        self.all(&kind)
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
