//! `POST /api/embed`, and `/api/embeddings` as it was before.

use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::{Extension, Json};
use tokio::task::spawn_blocking;
use wf_client::wire::{
    OllamaEmbedRequest, OllamaEmbedResponse, OllamaEmbeddingsRequest, OllamaEmbeddingsResponse,
    OllamaError, OllamaOptions, OneOrMany,
};
use wf_engine::ModelText;

use super::{IGNORED_OPTIONS, REFUSED_OPTIONS, check_name};
use crate::app::{App, ServedModel};
use crate::asked::check_rest_by;
use crate::auth::Caller;
use crate::body::read_json;
use crate::embeddings::{Text, Wanted, embed};
use crate::error::ApiError;
use crate::request_id::RequestId;

/// Fields that are read by nobody: the model is always there.
const IGNORED: [&str; 1] = ["keep_alive"];

/// Turn texts into vectors.
#[utoipa::path(post, path = "/api/embed", tag = "Ollama", request_body = OllamaEmbedRequest,
    operation_id = "ollama_embed",
    responses(
        (status = 200, description = "A vector for each text", body = OllamaEmbedResponse),
        (status = "default", description = "What is wrong", body = OllamaError),
    ))]
pub(crate) async fn embed_texts(
    State(app): State<App>,
    Extension(id): Extension<RequestId>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Json<OllamaEmbedResponse>, ApiError> {
    let begun = Instant::now();
    let model = app.model_for_work()?;
    let request: OllamaEmbedRequest = read_json(request, &app.options.limits).await?;
    check_name(model, request.model.as_deref())?;
    check_rest_by(&IGNORED, &[], &request.rest)?;
    check_options(request.options)?;
    let wanted = Wanted {
        dimensions: request.dimensions.filter(|len| *len > 0).map(|len| len as usize),
        cache_salt: app.salt(caller, None),
        ..Wanted::default()
    };
    wanted.check_dimensions(model)?;
    // Without a text, Ollama answers with nothing, as programs do that only load a model.
    let inputs: Vec<String> = match request.input {
        None => Vec::new(),
        Some(OneOrMany::One(text)) if text.is_empty() => Vec::new(),
        Some(input) => input.into(),
    };
    let most = app.options.limits.inputs;
    if inputs.len() > most {
        let count = inputs.len();
        let message = format!("input: {count} texts in one request, at most {most} are allowed");
        return Err(ApiError::field("input", message));
    }
    let cut = request.truncate.unwrap_or(true);
    let (embeddings, tokens) = vectors(&app, model, &id, (inputs, "input", cut), wanted).await?;
    Ok(Json(OllamaEmbedResponse {
        model: model.name().to_owned(),
        embeddings,
        total_duration: begun.elapsed().as_nanos() as u64,
        load_duration: 0,
        prompt_eval_count: tokens as u32,
    }))
}

/// Turn a text into a vector, as it was done before `/api/embed`.
#[utoipa::path(post, path = "/api/embeddings", tag = "Ollama",
    request_body = OllamaEmbeddingsRequest, operation_id = "ollama_embeddings",
    responses(
        (status = 200, description = "The vector", body = OllamaEmbeddingsResponse),
        (status = "default", description = "What is wrong", body = OllamaError),
    ))]
pub(crate) async fn embed_prompt(
    State(app): State<App>,
    Extension(id): Extension<RequestId>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Json<OllamaEmbeddingsResponse>, ApiError> {
    let model = app.model_for_work()?;
    let request: OllamaEmbeddingsRequest = read_json(request, &app.options.limits).await?;
    check_name(model, request.model.as_deref())?;
    check_rest_by(&IGNORED, &[], &request.rest)?;
    check_options(request.options)?;
    let prompt = request.prompt.filter(|prompt| !prompt.is_empty());
    let wanted = Wanted { cache_salt: app.salt(caller, None), ..Wanted::default() };
    let texts = (prompt.into_iter().collect(), "prompt", true);
    let (vectors, _) = vectors(&app, model, &id, texts, wanted).await?;
    Ok(Json(OllamaEmbeddingsResponse { embedding: vectors.into_iter().next().unwrap_or_default() }))
}

/// Options say how tokens are drawn, and none are.
fn check_options(options: Option<OllamaOptions>) -> Result<(), ApiError> {
    let rest = options.map(|options| options.rest).unwrap_or_default();
    check_rest_by(&IGNORED_OPTIONS, &REFUSED_OPTIONS, &rest)
}

/// The vectors of the texts in a field, and how many tokens they have. Texts that the context cannot
/// hold may be cut.
async fn vectors(
    app: &App,
    model: &ServedModel,
    id: &RequestId,
    (inputs, field, cut): (Vec<String>, &'static str, bool),
    wanted: Wanted,
) -> Result<(Vec<Vec<f32>>, usize), ApiError> {
    let (frontend, most) = (model.frontend.clone(), model.frontend.context_len());
    let encoded = spawn_blocking(move || {
        let encode = |(at, text): (usize, &String)| Text {
            field: format!("{field}[{at}]"),
            tokens: ids(frontend.text(), text, cut.then_some(most)),
        };
        inputs.iter().enumerate().map(encode).collect::<Vec<_>>()
    });
    let texts = encoded.await.map_err(|_| ApiError::internal())?;
    let tokens = texts.iter().map(|text| text.tokens.len()).sum();
    Ok((embed(app, model, id.as_str(), texts, wanted).await?, tokens))
}

/// The token numbers of a text, at most so many. What is cut off is text, not the end token.
fn ids(model: &ModelText, text: &str, most: Option<usize>) -> Vec<u32> {
    let mut ids = model.embed_ids(text);
    let end = model.tokenizer.prompt_suffix();
    if let Some(most) = most.filter(|most| ids.len() > *most) {
        ids.truncate(most.saturating_sub(end.len()));
        ids.extend_from_slice(end);
    }
    ids
}
