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
    Delta, ErrorBody, Progress, ReplyMessage,
};
use wf_engine::{ChatOptions, Finish, Picked, Piece, TokenId};
use wf_text::ChatMessage;

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
    if asked.stream {
        return Ok(stream::respond(&app, replies, ChatWriter { form }));
    }
    whole(&app, model, &form, replies).await.map(|whole| Json(whole).into_response())
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
    let mut asked = Asked { structured, ..Asked::new(app, model, caller, request.sampling)? };
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
    if messages.is_empty() {
        return Err(ApiError::field("messages", "messages: at least one is needed"));
    }
    check_count("messages", messages.len(), app.options.limits.messages)?;
    messages.into_iter().enumerate().map(|(at, message)| one_message(at, message)).collect()
}

const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

fn one_message(at: usize, message: wire::ChatMessage) -> Result<ChatMessage, ApiError> {
    if !ROLES.contains(&message.role.as_str()) {
        let message = format!("messages[{at}].role: use one of {}", ROLES.join(", "));
        return Err(ApiError::field(format!("messages[{at}].role"), message));
    }
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
        match part.text {
            Some(text) if part.kind == "text" => texts.push(text),
            _ => {
                let param = format!("{field}[{part_at}].type");
                let message = format!("{param}: this model reads parts of type text alone");
                return Err(ApiError::unsupported(param, message));
            }
        }
    }
    Ok(texts.join("\n"))
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
) -> Result<ChatCompletion, ApiError> {
    let tokenizer = model.frontend.tokenizer();
    let logprobs = form.logprobs.then(ChatLogprobs::default);
    let mut choices: Vec<ChatChoice> = (0..replies.len() as u32)
        .map(|index| ChatChoice {
            index,
            message: ReplyMessage {
                role: "assistant".into(),
                content: Some(String::new()),
                refusal: None,
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
                choice.message.content.get_or_insert_default().push_str(&text);
                if let (Some(all), Some(Picked { token, logprobs: Some(one) })) =
                    (&mut choice.logprobs, token)
                {
                    all.content.push(of_chat(tokenizer, token, &one));
                }
            }
            Piece::Done(Finish { reason, .. }) => choice.finish_reason = Some(reason.name().into()),
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
}

impl Writer for ChatWriter {
    fn begin(&mut self, replies: &Replies) -> String {
        let role = |index| ChatChunkChoice {
            index,
            delta: Delta { role: Some("assistant".into()), content: Some(String::new()) },
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
        let index = at as u32;
        match piece {
            Piece::Text { text, token } => self.text(index, text, token),
            Piece::Done(finish) => {
                let finish_reason = Some(finish.reason.name().to_owned());
                let end = ChatChunkChoice { index, finish_reason, ..ChatChunkChoice::default() };
                let timings = Some(timings(&finish.timings));
                sse::json_event(&ChatChunk { timings, ..form.chunk(vec![end]) })
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
    fn text(&self, index: u32, text: String, token: Option<Picked>) -> String {
        let form = &self.form;
        let told = form.logprobs || form.token_ids;
        if text.is_empty() && !(told && token.is_some()) {
            return String::new();
        }
        let token_ids = token.as_ref().map(|token| vec![token.token]).filter(|_| form.token_ids);
        let logprobs = token.and_then(|Picked { token, logprobs }| {
            let model = form.app.model().ok()?;
            let one = of_chat(model.frontend.tokenizer(), token, &logprobs?);
            Some(ChatLogprobs { content: vec![one], refusal: None })
        });
        let choice = ChatChunkChoice {
            index,
            delta: Delta { role: None, content: Some(text) },
            logprobs,
            finish_reason: None,
            token_ids,
        };
        sse::json_event(&form.chunk(vec![choice]))
    }
}
