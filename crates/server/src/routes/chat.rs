//! `POST /v1/chat/completions`.

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use tokio::task::spawn_blocking;
use wf_client::sse;
use wf_client::wire;
use wf_client::wire::{
    ChatChoice, ChatChunk, ChatChunkChoice, ChatCompletion, ChatLogprobs, ChatRequest, Content,
    ContentPart, Delta, ErrorBody, Progress, ReplyMessage,
};
use wf_engine::{ChatOptions, Picked, Piece, TokenId};
use wf_text::{CallPart, ChatMessage};

use crate::app::{App, ServedModel};
use crate::asked::{Asked, check_count, check_rest};
use crate::auth::Caller;
use crate::body::read_json;
use crate::decoding::read_carried;
use crate::error::ApiError;
use crate::form::Form;
use crate::logprobs::of_chat;
use crate::replies::Replies;
use crate::request_id::RequestId;
use crate::stream::{self, Writer, longest_timings, timings, usage};
use crate::structured;
use crate::tools::{self, Parts, Tools};

/// Continue a conversation.
#[utoipa::path(
    post,
    path = "/v1/chat/completions",
    tag = "OpenAI",
    request_body = ChatRequest,
    responses(
        (status = 200, description = "The replies; with `stream`, as server-sent events of ChatChunk",
         content((ChatCompletion = "application/json"), (ChatChunk = "text/event-stream"))),
        (status = "default", description = "What is wrong", body = ErrorBody),
    )
)]
pub(crate) async fn chat(
    State(app): State<App>,
    Extension(id): Extension<RequestId>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let model = app.model_for_work()?;
    let request: ChatRequest = read_json(request, &app.options.limits).await?;
    let (mut asked, messages, options) = check(&app, model, caller, request)?;
    let prompt = prompt_ids(model, messages, options).await?;
    let prompts = vec![prompt];
    asked.check_room(model, &prompts, "messages")?;
    asked.compile(model).await?;
    let replies =
        Replies::start(&app, model, id.as_str(), prompts, asked.choices, &asked.generate)?;
    let form = Form::new(&app, model, "chatcmpl", &id, &asked);
    let parts = Parts::new(&asked, model.frontend.text().tool_format(), replies.len());
    if asked.stream {
        let counted = vec![tools::chat::Counted::default(); replies.len()];
        return Ok(stream::respond(&app, replies, ChatWriter { form, parts, counted }));
    }
    whole(&app, model, &form, replies, parts).await.map(|whole| Json(whole).into_response())
}

type Checked = (Asked, Vec<ChatMessage>, ChatOptions);

fn check(
    app: &App,
    model: &ServedModel,
    caller: Caller,
    mut request: ChatRequest,
) -> Result<Checked, ApiError> {
    model.check_name(request.model.as_deref())?;
    let structured = structured::take(&mut request.rest)?;
    check_rest(&request.rest)?;
    if let Some(most) = request.max_completion_tokens {
        request.sampling.max_tokens = Some(most);
    }
    if request.sampling.max_tokens == Some(0) {
        return Err(ApiError::field("max_tokens", "max_tokens is 0: at least 1 is needed"));
    }
    let limits = &app.options.limits;
    let kwargs = request.chat_template_kwargs.as_ref();
    read_carried(&mut request.sampling, &request.rest, kwargs)?;
    let choice = request.tool_choice.as_ref();
    let tools = tools::read::of_chat(request.tools, choice, request.parallel_tool_calls)?;
    let asked = Asked::new(app, model, caller, request.sampling)?;
    let mut asked = Asked { structured, tools, ..asked };
    let top = request.top_logprobs;
    if top.is_some_and(|top| top > limits.top_logprobs) {
        let message = format!("top_logprobs: 0 to {} is allowed", limits.top_logprobs);
        return Err(ApiError::field("top_logprobs", message));
    }
    let logprobs = request.logprobs.unwrap_or(false);
    if top.is_some_and(|top| top > 0) && !logprobs {
        return Err(ApiError::field("top_logprobs", "top_logprobs needs logprobs to be true"));
    }
    asked.generate.logprobs = logprobs.then(|| top.unwrap_or(0) as usize);
    let options = ChatOptions {
        add_generation_prompt: request.add_generation_prompt.unwrap_or(true),
        continue_final: request.continue_final_message.unwrap_or(false),
        tools: asked.tools.as_ref().map(Tools::for_template).unwrap_or_default(),
        extra: request.chat_template_kwargs.unwrap_or_default(),
    };
    check_options(&options, request.add_generation_prompt)?;
    Ok((asked, messages(app, request.messages)?, options))
}

/// Refuses what contradicts itself.
pub(crate) fn check_options(
    options: &ChatOptions,
    add_generation_prompt: Option<bool>,
) -> Result<(), ApiError> {
    if options.continue_final && add_generation_prompt == Some(true) {
        let message = "continue_final_message goes on with the last message, so there is no place \
                       for add_generation_prompt";
        return Err(ApiError::field("continue_final_message", message));
    }
    Ok(())
}

/// The messages as a template sees them.
pub(crate) fn messages(
    app: &App,
    messages: Vec<wire::ChatMessage>,
) -> Result<Vec<ChatMessage>, ApiError> {
    check_messages(app, messages.len())?;
    messages.into_iter().enumerate().map(|(at, message)| one_message(at, message)).collect()
}

/// Refuses conversations of nothing, and too long ones.
pub(crate) fn check_messages(app: &App, count: usize) -> Result<(), ApiError> {
    if count == 0 {
        return Err(ApiError::field("messages", "messages: at least one is needed"));
    }
    check_count("messages", count, app.options.limits.messages)
}

const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

/// A message, the one at this place, as a template sees it.
pub(crate) fn one_message(at: usize, message: wire::ChatMessage) -> Result<ChatMessage, ApiError> {
    if !ROLES.contains(&message.role.as_str()) {
        let message = format!("messages[{at}].role: use one of {}", ROLES.join(", "));
        return Err(ApiError::field(format!("messages[{at}].role"), message));
    }
    tools::check_calls(at, &message.rest)?;
    // The newer name of the same role, which templates do not know.
    let role = if message.role == "developer" { "system" } else { &message.role };
    let content = match message.content {
        Some(content) => text_of(&format!("messages[{at}].content"), content)?,
        // An assistant may have said nothing but called a tool.
        None if message.role == "assistant" => String::new(),
        None => {
            let param = format!("messages[{at}].content");
            return Err(ApiError::field(param.clone(), format!("{param}: a text is needed")));
        }
    };
    Ok(ChatMessage { extra: message.rest, ..ChatMessage::new(role, content) })
}

/// The text of a field that may be in parts.
pub(crate) fn text_of(field: &str, content: Content) -> Result<String, ApiError> {
    let parts = match content {
        Content::Text(text) => return Ok(text),
        Content::Parts(parts) => parts,
    };
    let mut texts = Vec::with_capacity(parts.len());
    for (part_at, part) in parts.into_iter().enumerate() {
        texts.push(text_of_part(&format!("{field}[{part_at}]"), part)?);
    }
    Ok(texts.join("\n"))
}

/// The text of a part.
pub(crate) fn text_of_part(field: &str, part: ContentPart) -> Result<String, ApiError> {
    match part.text {
        Some(text) if part.kind == "text" => Ok(text),
        _ => {
            let param = format!("{field}.type");
            let message = format!("{param}: this model reads parts of type text alone");
            Err(ApiError::unsupported(param, message))
        }
    }
}

/// The tokens of a conversation. Long ones take a while, so this is no work for threads that serve.
pub(crate) async fn prompt_ids(
    model: &ServedModel,
    messages: Vec<ChatMessage>,
    options: ChatOptions,
) -> Result<Vec<TokenId>, ApiError> {
    let frontend = model.frontend.clone();
    let ids = spawn_blocking(move || {
        let prompt = frontend.text().chat_prompt(&messages, options)?;
        Ok::<_, wf_engine::FrontendError>(frontend.tokenizer().encode_prompt(&prompt))
    });
    Ok(ids.await.map_err(|_| ApiError::internal())??)
}

impl Form {
    /// A part of an answer with nothing but what is new of its replies.
    fn chunk(&self, choices: Vec<ChatChunkChoice>) -> ChatChunk {
        ChatChunk {
            id: self.id.clone(),
            object: "chat.completion.chunk".into(),
            created: self.created,
            model: self.model.clone(),
            system_fingerprint: self.fingerprint.clone(),
            choices,
            usage: self.include_usage.then_some(None),
            ..ChatChunk::default()
        }
    }
}

async fn whole(
    app: &App,
    model: &ServedModel,
    form: &Form,
    mut replies: Replies,
    mut parts: Parts,
) -> Result<ChatCompletion, ApiError> {
    let tokenizer = model.frontend.tokenizer();
    let logprobs = form.logprobs.then(ChatLogprobs::default);
    let mut choices: Vec<ChatChoice> = (0..replies.len() as u32)
        .map(|index| ChatChoice {
            index,
            message: ReplyMessage {
                role: "assistant".into(),
                content: Some(String::new()),
                ..ReplyMessage::default()
            },
            logprobs: logprobs.clone(),
            finish_reason: None,
            token_ids: None,
        })
        .collect();
    stream::collect(app, &mut replies, |_, at, piece| {
        let choice = &mut choices[at];
        match piece {
            Piece::Text { text, token } => {
                for part in parts.push(at, text) {
                    tools::chat::add(&mut choice.message, part);
                }
                if let (Some(all), Some(Picked { token, logprobs: Some(one) })) =
                    (&mut choice.logprobs, token)
                {
                    all.content.push(of_chat(tokenizer, token, &one));
                }
            }
            Piece::Done(finish) => {
                for part in parts.finish(at) {
                    tools::chat::add(&mut choice.message, part);
                }
                let reason = tools::chat::end(&mut choice.message, &finish);
                choice.finish_reason = Some(reason.into());
            }
            Piece::Started { .. }
            | Piece::Progress { .. }
            | Piece::Preview(_)
            | Piece::PromptLogprobs(_) => {}
        }
    })
    .await?;
    if form.token_ids {
        for (at, choice) in choices.iter_mut().enumerate() {
            choice.token_ids = Some(replies.stream(at).ids().to_vec());
        }
    }
    Ok(ChatCompletion {
        id: form.id.clone(),
        object: "chat.completion".into(),
        created: form.created,
        model: form.model.clone(),
        choices,
        usage: usage(&replies, form.choices),
        system_fingerprint: form.fingerprint.clone(),
        seed: form.seed,
        timings: longest_timings(&replies),
        prompt_token_ids: form.token_ids.then(|| replies.stream(0).prompt_ids().to_vec()),
    })
}

struct ChatWriter {
    form: Form,
    parts: Parts,
    /// The calls of each reply.
    counted: Vec<tools::chat::Counted>,
}

impl Writer for ChatWriter {
    fn begin(&mut self, replies: &Replies) -> String {
        let role = |index| ChatChunkChoice {
            index,
            delta: Delta {
                role: Some("assistant".into()),
                content: Some(String::new()),
                ..Delta::default()
            },
            ..ChatChunkChoice::default()
        };
        let ids = self.form.token_ids.then(|| replies.stream(0).prompt_ids().to_vec());
        let first = ChatChunk {
            seed: Some(self.form.seed),
            prompt_token_ids: ids,
            ..self.form.chunk(vec![role(0)])
        };
        let others = (1..replies.len() as u32).map(|index| self.form.chunk(vec![role(index)]));
        [first].into_iter().chain(others).map(|chunk| sse::json_event(&chunk)).collect()
    }

    fn piece(&mut self, replies: &Replies, at: usize, piece: Piece) -> String {
        let form = &self.form;
        match piece {
            Piece::Text { text, token } => {
                let parts = self.parts.push(at, text);
                self.parts(at, parts, token)
            }
            Piece::Done(finish) => {
                let parts = self.parts.finish(at);
                let last = self.parts(at, parts, None);
                let (index, form) = (at as u32, &self.form);
                let finish_reason = Some(self.counted[at].reason(&finish).to_owned());
                let end = ChatChunkChoice { index, finish_reason, ..ChatChunkChoice::default() };
                let timings = Some(timings(&finish.timings));
                last + &sse::json_event(&ChatChunk { timings, ..form.chunk(vec![end]) })
            }
            Piece::Progress { done, total } if form.progress => {
                let prompt_progress = Some(progress(replies, at, done, total));
                sse::json_event(&ChatChunk { prompt_progress, ..form.chunk(Vec::new()) })
            }
            Piece::Preview(block) => {
                sse::json_event(&ChatChunk { block_preview: Some(block), ..form.chunk(Vec::new()) })
            }
            Piece::Started { .. } | Piece::Progress { .. } | Piece::PromptLogprobs(_) => {
                String::new()
            }
        }
    }

    fn end(&mut self, replies: &Replies) -> String {
        if !self.form.include_usage {
            return String::new();
        }
        let usage = Some(Some(usage(replies, self.form.choices)));
        sse::json_event(&ChatChunk { usage, ..self.form.chunk(Vec::new()) })
    }
}

/// How far a prompt has been read, as it is told.
pub(crate) fn progress(replies: &Replies, at: usize, done: usize, total: usize) -> Progress {
    let cache = replies.stream(at).timings().cached_tokens as u32;
    Progress { total: total as u32, processed: done as u32, cache }
}

impl ChatWriter {
    /// The events of parts of a reply. What is told of a token stands in the first of them.
    fn parts(&mut self, at: usize, parts: Vec<CallPart>, token: Option<Picked>) -> String {
        let counted = &mut self.counted[at];
        let mut deltas: Vec<Delta> =
            parts.into_iter().filter_map(|part| counted.delta(part)).collect();
        let form = &self.form;
        let told = form.logprobs || form.token_ids;
        if deltas.is_empty() && told && token.is_some() {
            deltas.push(Delta { content: Some(String::new()), ..Delta::default() });
        }
        let mut token_ids =
            token.as_ref().map(|token| vec![token.token]).filter(|_| form.token_ids);
        let mut logprobs = token.and_then(|Picked { token, logprobs }| {
            let model = form.app.model().ok()?;
            let one = of_chat(model.frontend.tokenizer(), token, &logprobs?);
            Some(ChatLogprobs { content: vec![one], refusal: None })
        });
        let events = deltas.into_iter().map(|delta| {
            let choice = ChatChunkChoice {
                index: at as u32,
                delta,
                logprobs: logprobs.take(),
                finish_reason: None,
                token_ids: token_ids.take(),
            };
            sse::json_event(&form.chunk(vec![choice]))
        });
        events.collect()
    }
}
