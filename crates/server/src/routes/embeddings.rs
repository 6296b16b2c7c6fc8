//! `POST /v1/embeddings`.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use tokio::task::spawn_blocking;
use wf_api::wire::{
    EmbeddingItem, EmbeddingRequest, EmbeddingResponse, EmbeddingUsage, ErrorBody, Prompt, Vector,
};
use wf_engine::{ModelText, Pooling};

use crate::app::App;
use crate::error::ApiError;
use crate::generation::Context;
use crate::generation::embed::{EmbedOptions, Text, embed};
use crate::generation::fields::FieldRules;
use crate::http::body::read_json;

const FIELDS: FieldRules = FieldRules {
    ignored: &["user", "rid", "no_logs", "log_metrics", "background", "custom_labels"],
    unsupported: &[
        ("normalize", &["true"]),
        ("embd_normalize", &["2"]),
        ("embed_dtype", &[r#""float32""#]),
        ("truncate_prompt_tokens", &[]),
        ("messages", &[]),
        ("lora_path", &[]),
    ],
};

/// Computes embeddings.
#[utoipa::path(post, path = "/v1/embeddings", tag = "OpenAI", request_body = EmbeddingRequest,
    responses(
        (status = 200, description = "One vector per text", body = EmbeddingResponse),
        (status = "default", description = "Error", body = ErrorBody),
    ))]
pub(super) async fn embeddings(
    State(app): State<App>,
    request: Request<Body>,
) -> Result<Json<EmbeddingResponse>, ApiError> {
    let cx = Context::new(&app, &request)?;
    let request: EmbeddingRequest = read_json(request, &app.options.limits).await?;
    cx.model.check_name(request.model.as_deref())?;
    FIELDS.check(&request.extra)?;
    let options = EmbedOptions {
        pooling: request.pooling.as_deref().map(pooling).transpose()?,
        dimensions: request.dimensions.map(|dimensions| dimensions as usize),
        cache_salt: app.salt(cx.caller, request.cache_salt.as_deref()),
        priority: request.priority.unwrap_or(0),
    };
    options.check_dimensions(cx.model)?;
    let input = request.input.ok_or_else(|| ApiError::required("input"))?;
    check_input(&input, app.options.limits.embedding_inputs)?;
    let frontend = cx.model.frontend.clone();
    let add_specials = request.add_special_tokens.unwrap_or(true);
    let texts = spawn_blocking(move || texts(frontend.text(), input, add_specials));
    let texts = texts.await.map_err(|_| ApiError::internal())?;
    let prompt_tokens = texts.iter().map(|text| text.tokens.len()).sum::<usize>() as u32;
    let vectors = embed(&cx, texts, options).await?;
    let format = request.encoding_format.unwrap_or_default();
    let item = |(index, vector)| EmbeddingItem {
        object: "embedding".into(),
        index,
        embedding: Vector::new(vector, format),
    };
    Ok(Json(EmbeddingResponse {
        object: "list".into(),
        data: vectors.into_iter().enumerate().map(item).collect(),
        model: cx.model.name().to_owned(),
        usage: EmbeddingUsage { prompt_tokens, total_tokens: prompt_tokens },
    }))
}

fn pooling(name: &str) -> Result<Pooling, ApiError> {
    Pooling::from_name(name).ok_or_else(|| {
        let names = Pooling::ALL.map(Pooling::name).join(", ");
        ApiError::field("pooling", format!("pooling is {name:?}: must be one of {names}"))
    })
}

/// Rejects lists that are empty or too long, and empty texts.
fn check_input(input: &Prompt, max: usize) -> Result<(), ApiError> {
    let (count, empty) = match input {
        Prompt::Text(text) => (1, text.is_empty().then_some("input".to_owned())),
        // An empty list is parsed as a list of tokens.
        Prompt::Ids(ids) => (usize::from(!ids.is_empty()), None),
        Prompt::Texts(texts) => (texts.len(), path_of_empty(texts.iter().map(String::is_empty))),
        Prompt::ManyIds(many) => (many.len(), path_of_empty(many.iter().map(Vec::is_empty))),
    };
    if count == 0 {
        return Err(ApiError::at("input", "must not be empty"));
    }
    if count > max {
        let message = format!("input has {count} texts: must have at most {max}");
        return Err(ApiError::field("input", message));
    }
    match empty {
        Some(field) => Err(ApiError::at(field, "must not be empty")),
        None => Ok(()),
    }
}

fn path_of_empty(mut is_empty: impl Iterator<Item = bool>) -> Option<String> {
    is_empty.position(|is_empty| is_empty).map(path)
}

/// Returns the path of a text in the request.
fn path(at: usize) -> String {
    format!("input[{at}]")
}

/// Tokenizes each text, with the tokenizer's begin and end tokens if `add_specials` is set.
fn texts(model: &ModelText, input: Prompt, add_specials: bool) -> Vec<Text> {
    let ids = |text: &str| match add_specials {
        true => model.embed_ids(text),
        false => model.text_ids(text, false, true),
    };
    let named = |(at, tokens)| Text { field: path(at), tokens };
    match input {
        Prompt::Text(text) => vec![Text { field: "input".into(), tokens: ids(&text) }],
        Prompt::Ids(tokens) => vec![Text { field: "input".into(), tokens }],
        Prompt::Texts(texts) => texts.iter().map(|t| ids(t)).enumerate().map(named).collect(),
        Prompt::ManyIds(many) => many.into_iter().enumerate().map(named).collect(),
    }
}
