//! Embeddings in Ollama's API: `POST /api/embed`, and the older `/api/embeddings`.

use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use tokio::task::spawn_blocking;
use wf_api::wire::OneOrMany;
use wf_engine::ModelText;

use super::wire::{
    OllamaEmbedRequest, OllamaEmbedResponse, OllamaEmbeddingsRequest, OllamaEmbeddingsResponse,
    OllamaError, OllamaOptions,
};
use super::{OPTIONS, check_name};
use crate::app::App;
use crate::error::ApiError;
use crate::generation::Context;
use crate::generation::embed::{EmbedOptions, Text, embed};
use crate::generation::fields::FieldRules;
use crate::http::body::read_json;

const FIELDS: FieldRules = FieldRules { ignored: &["keep_alive"], unsupported: &[] };

/// Computes embeddings.
#[utoipa::path(post, path = "/api/embed", tag = "Ollama", request_body = OllamaEmbedRequest,
    operation_id = "ollama_embed",
    responses(
        (status = 200, description = "One vector per text", body = OllamaEmbedResponse),
        (status = "default", description = "Error", body = OllamaError),
    ))]
pub(super) async fn embed_texts(
    State(app): State<App>,
    request: Request<Body>,
) -> Result<Json<OllamaEmbedResponse>, ApiError> {
    let start = Instant::now();
    let cx = Context::new(&app, &request)?;
    let request: OllamaEmbedRequest = read_json(request, &app.options.limits).await?;
    check_name(cx.model, request.model.as_deref())?;
    FIELDS.check(&request.extra)?;
    check_options(request.options)?;
    let options = EmbedOptions {
        dimensions: request.dimensions.filter(|len| *len > 0).map(|len| len as usize),
        cache_salt: app.salt(cx.caller, None),
        ..EmbedOptions::default()
    };
    options.check_dimensions(cx.model)?;
    // Clients that only load the model send no text, and get no vectors.
    let texts: Vec<String> = match request.input {
        None => Vec::new(),
        Some(OneOrMany::One(text)) if text.is_empty() => Vec::new(),
        Some(input) => input.into(),
    };
    let (count, max) = (texts.len(), app.options.limits.embedding_inputs);
    if count > max {
        let message = format!("input has {count} texts: must have at most {max}");
        return Err(ApiError::field("input", message));
    }
    let texts = tokenize(&cx, texts, "input", request.truncate.unwrap_or(true)).await?;
    let prompt_eval_count = texts.iter().map(|text| text.tokens.len()).sum::<usize>() as u32;
    Ok(Json(OllamaEmbedResponse {
        model: cx.model.name().to_owned(),
        embeddings: embed(&cx, texts, options).await?,
        total_duration: start.elapsed().as_nanos() as u64,
        load_duration: 0,
        prompt_eval_count,
    }))
}

/// Computes one embedding, in the format before `/api/embed`.
#[utoipa::path(post, path = "/api/embeddings", tag = "Ollama",
    request_body = OllamaEmbeddingsRequest, operation_id = "ollama_embeddings",
    responses(
        (status = 200, description = "The vector", body = OllamaEmbeddingsResponse),
        (status = "default", description = "Error", body = OllamaError),
    ))]
pub(super) async fn embed_prompt(
    State(app): State<App>,
    request: Request<Body>,
) -> Result<Json<OllamaEmbeddingsResponse>, ApiError> {
    let cx = Context::new(&app, &request)?;
    let request: OllamaEmbeddingsRequest = read_json(request, &app.options.limits).await?;
    check_name(cx.model, request.model.as_deref())?;
    FIELDS.check(&request.extra)?;
    check_options(request.options)?;
    let prompt = request.prompt.filter(|prompt| !prompt.is_empty());
    let options = EmbedOptions { cache_salt: app.salt(cx.caller, None), ..EmbedOptions::default() };
    let texts = tokenize(&cx, prompt.into_iter().collect(), "prompt", true).await?;
    let vectors = embed(&cx, texts, options).await?;
    Ok(Json(OllamaEmbeddingsResponse { embedding: vectors.into_iter().next().unwrap_or_default() }))
}

/// Rejects unknown options. Those that are known change how tokens are sampled, and none are.
fn check_options(options: Option<OllamaOptions>) -> Result<(), ApiError> {
    OPTIONS.check(&options.map(|options| options.extra).unwrap_or_default())
}

/// Tokenizes the texts of a field, and truncates those that the context cannot hold.
async fn tokenize(
    cx: &Context<'_>,
    texts: Vec<String>,
    field: &'static str,
    truncates: bool,
) -> Result<Vec<Text>, ApiError> {
    let frontend = cx.model.frontend.clone();
    let max_len = truncates.then(|| frontend.context_len());
    let encoded = spawn_blocking(move || {
        let encode = |(at, text): (usize, &String)| Text {
            field: format!("{field}[{at}]"),
            tokens: token_ids(frontend.text(), text, max_len),
        };
        texts.iter().enumerate().map(encode).collect()
    });
    encoded.await.map_err(|_| ApiError::internal())
}

/// Tokenizes a text. Truncation removes text and keeps the end tokens.
fn token_ids(model: &ModelText, text: &str, max_len: Option<usize>) -> Vec<u32> {
    let mut ids = model.embed_ids(text);
    let end = model.tokenizer.prompt_suffix();
    if let Some(max_len) = max_len.filter(|max_len| ids.len() > *max_len) {
        ids.truncate(max_len.saturating_sub(end.len()));
        ids.extend_from_slice(end);
    }
    ids
}
