//! Ollama's API: `/api/chat` and `/api/generate` here, vectors in `embed.rs`, what it tells of models in
//! `models.rs`.

mod date;
pub(crate) mod embed;
pub(crate) mod models;
mod write;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use tokio::task::spawn_blocking;
use wf_client::wire::{
    OllamaChatRequest, OllamaError, OllamaGenerateRequest, OllamaOptions, OllamaReply, Rest,
    Sampling,
};
use wf_engine::{ChatOptions, Input, TokenId};
use wf_text::ChatMessage;

use crate::app::{App, ServedModel};
use crate::asked::{Asked, RefusedField, check_rest_by};
use crate::auth::Caller;
use crate::body::read_json;
use crate::error::ApiError;
use crate::replies::Replies;
use crate::request_id::RequestId;
use crate::routes::chat;
use crate::stream;
use crate::structured::{self, dialects::OLLAMA};
use crate::tools::{self, Parts, Tools};

use write::{Kind, OllamaWriter, Said};

/// Fields that are read by nobody: the model is always there.
const IGNORED: [&str; 3] = ["keep_alive", "truncate", "shift"];

/// Fields that would change the answer, with the values that would not.
const REFUSED: [RefusedField; 11] = [
    ("tools", &["[]"]),
    ("think", &["false"]),
    ("logprobs", &["false"]),
    ("top_logprobs", &["0"]),
    ("suffix", &[r#""""#]),
    ("template", &[r#""""#]),
    ("context", &["[]"]),
    ("images", &["[]"]),
    ("width", &["0"]),
    ("height", &["0"]),
    ("steps", &["0"]),
];

/// Options that say how to compute, not what. The context is the server's to decide.
const IGNORED_OPTIONS: [&str; 16] = [
    "num_ctx",
    "num_batch",
    "num_gpu",
    "main_gpu",
    "num_thread",
    "num_keep",
    "numa",
    "low_vram",
    "f16_kv",
    "logits_all",
    "vocab_only",
    "use_mmap",
    "use_mlock",
    "embedding_only",
    "mirostat_tau",
    "mirostat_eta",
];

/// Options that would change the answer, with the values that would not.
const REFUSED_OPTIONS: [RefusedField; 5] = [
    ("mirostat", &["0"]),
    ("tfs_z", &["1", "1.0"]),
    ("typical_p", &["1", "1.0"]),
    ("repeat_last_n", &["-1"]),
    ("penalize_newline", &["true"]),
];

/// Continue a conversation.
#[utoipa::path(post, path = "/api/chat", tag = "Ollama", request_body = OllamaChatRequest,
    operation_id = "ollama_chat",
    responses(
        (status = 200, description = "The reply, in lines of JSON unless `stream` is false",
         content((OllamaReply = "application/x-ndjson"), (OllamaReply = "application/json"))),
        (status = "default", description = "What is wrong", body = OllamaError),
    ))]
pub(crate) async fn chat(
    State(app): State<App>,
    Extension(id): Extension<RequestId>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let model = app.model_for_work()?;
    let mut request: OllamaChatRequest = read_json(request, &app.options.limits).await?;
    check_name(model, request.model.as_deref())?;
    let structured = structured::take_by(OLLAMA, &mut request.rest)?;
    check_rest_by(&IGNORED, &REFUSED, &request.rest)?;
    let asked = asked(&app, model, caller, request.options, request.stream)?;
    let tools = tools::read::of_chat(request.tools, None, None)?;
    let asked = Asked { structured, tools, ..asked };
    let Some(mut messages) = request.messages.filter(|messages| !messages.is_empty()) else {
        return Ok(write::nothing(model, Kind::Chat));
    };
    for (at, message) in messages.iter_mut().enumerate() {
        check_images(&format!("messages[{at}].images"), &message.rest)?;
        if let Some(name) = message.rest.remove("tool_name") {
            message.rest.insert("name".into(), name);
        }
    }
    let messages = chat::messages(&app, messages)?;
    let tools = asked.tools.as_ref().map(Tools::for_template).unwrap_or_default();
    let options = ChatOptions { tools, ..answer() };
    let prompt = chat::prompt_ids(model, messages, options).await?;
    respond(&app, model, &id, asked, prompt, Kind::Chat).await
}

/// Answer a text, or continue it.
#[utoipa::path(post, path = "/api/generate", tag = "Ollama", request_body = OllamaGenerateRequest,
    operation_id = "ollama_generate",
    responses(
        (status = 200, description = "The reply, in lines of JSON unless `stream` is false",
         content((OllamaReply = "application/x-ndjson"), (OllamaReply = "application/json"))),
        (status = "default", description = "What is wrong", body = OllamaError),
    ))]
pub(crate) async fn generate(
    State(app): State<App>,
    Extension(id): Extension<RequestId>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let model = app.model_for_work()?;
    let mut request: OllamaGenerateRequest = read_json(request, &app.options.limits).await?;
    check_name(model, request.model.as_deref())?;
    let structured = structured::take_by(OLLAMA, &mut request.rest)?;
    check_rest_by(&IGNORED, &REFUSED, &request.rest)?;
    let asked = asked(&app, model, caller, request.options, request.stream)?;
    let asked = Asked { structured, ..asked };
    let Some(text) = request.prompt.filter(|text| !text.is_empty()) else {
        return Ok(write::nothing(model, Kind::Text));
    };
    let system = request.system.filter(|system| !system.is_empty());
    let prompt = if request.raw.unwrap_or(false) {
        if system.is_some() {
            let message = "system: a raw prompt is all there is, so there is no place for it";
            return Err(ApiError::field("system", message));
        }
        let (frontend, input) = (model.frontend.clone(), Input::RawWithSpecials(text));
        let encoded = spawn_blocking(move || frontend.text().prompt_ids(&input));
        encoded.await.map_err(|_| ApiError::internal())??
    } else {
        let system = system.map(|system| ChatMessage::new("system", system));
        let messages = system.into_iter().chain([ChatMessage::new("user", text)]).collect();
        chat::prompt_ids(model, messages, answer()).await?
    };
    respond(&app, model, &id, asked, prompt, Kind::Text).await
}

/// Options of a prompt that ends where the answer begins.
fn answer() -> ChatOptions {
    ChatOptions { add_generation_prompt: true, ..ChatOptions::default() }
}

/// Refuses the name of another model. Clients may name its latest version.
fn check_name(model: &ServedModel, name: Option<&str>) -> Result<(), ApiError> {
    let plain = name.map(|name| name.strip_suffix(":latest").unwrap_or(name));
    model.check_name(name).or_else(|_| model.check_name(plain))
}

fn check_images(field: &str, rest: &Rest) -> Result<(), ApiError> {
    match rest.get("images") {
        None | Some(serde_json::Value::Null) => Ok(()),
        Some(serde_json::Value::Array(images)) if images.is_empty() => Ok(()),
        Some(_) => {
            Err(ApiError::unsupported(field, format!("{field}: this model reads text alone")))
        }
    }
}

/// The settings under OpenAI's names.
fn asked(
    app: &App,
    model: &ServedModel,
    caller: Caller,
    options: Option<OllamaOptions>,
    stream: Option<bool>,
) -> Result<Asked, ApiError> {
    let o = options.unwrap_or_default();
    check_rest_by(&IGNORED_OPTIONS, &REFUSED_OPTIONS, &o.rest)?;
    let most = o.num_predict.filter(|most| *most > 0);
    let sampling = Sampling {
        temperature: o.temperature,
        top_k: o.top_k,
        top_p: o.top_p,
        min_p: o.min_p,
        repetition_penalty: o.repeat_penalty,
        presence_penalty: o.presence_penalty,
        frequency_penalty: o.frequency_penalty,
        seed: o.seed.filter(|seed| *seed != -1),
        max_tokens: most.map(|most| u32::try_from(most).unwrap_or(u32::MAX)),
        stop: o.stop,
        stream: Some(stream.unwrap_or(true)),
        ..Sampling::default()
    };
    Asked::new(app, model, caller, sampling)
}

async fn respond(
    app: &App,
    model: &ServedModel,
    id: &RequestId,
    mut asked: Asked,
    prompt: Vec<TokenId>,
    kind: Kind,
) -> Result<Response, ApiError> {
    // More than there is room for means all of it.
    let room = model.frontend.context_len().saturating_sub(prompt.len()).max(1);
    asked.generate.max_tokens = asked.generate.max_tokens.map(|most| most.min(room));
    let prompts = vec![prompt];
    let param = if kind == Kind::Chat { "messages" } else { "prompt" };
    asked.check_room(model, &prompts, param)?;
    asked.compile(model).await?;
    let mut replies = Replies::start(app, model, id.as_str(), prompts, 1, &asked.generate)
        .map_err(|error| error.renamed("repetition_penalty", "repeat_penalty"))?;
    let parts = Parts::new(&asked, model.frontend.text().tool_format(), 1);
    let mut writer = OllamaWriter::new(model, kind, parts);
    if asked.stream {
        return Ok(stream::respond(app, replies, writer));
    }
    let mut whole = writer.part(Said::default());
    stream::collect(app, &mut replies, |_, _, piece| writer.add(&mut whole, piece)).await?;
    Ok(axum::Json(whole).into_response())
}

/// An error in Ollama's form.
pub(crate) fn error_body(error: &ApiError) -> Vec<u8> {
    serde_json::to_vec(&OllamaError { error: error.message.clone() }).unwrap_or_default()
}
