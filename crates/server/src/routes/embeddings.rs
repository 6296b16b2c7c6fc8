//! `POST /v1/embeddings`.

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::{Extension, Json};
use tokio::task::spawn_blocking;
use wf_client::wire::{
    EmbeddingItem, EmbeddingRequest, EmbeddingResponse, EmbeddingUsage, ErrorBody, Prompt, Vector,
};
use wf_engine::{ModelText, Pooling};

use crate::app::App;
use crate::asked::{RefusedField, check_rest_by};
use crate::auth::Caller;
use crate::body::read_json;
use crate::embeddings::{Text, Wanted, embed};
use crate::error::ApiError;
use crate::request_id::RequestId;

/// Fields that are read by nobody: labels, and what gateways add of their own accord.
const IGNORED: [&str; 6] = ["user", "rid", "no_logs", "log_metrics", "background", "custom_labels"];

/// Fields that would change the answer, with the values that would not.
const REFUSED: [RefusedField; 6] = [
    ("normalize", &["true"]),
    ("embd_normalize", &["2"]),
    ("embed_dtype", &[r#""float32""#]),
    ("truncate_prompt_tokens", &[]),
    ("messages", &[]),
    ("lora_path", &[]),
];

/// Turn texts into vectors.
#[utoipa::path(post, path = "/v1/embeddings", tag = "OpenAI", request_body = EmbeddingRequest,
    responses(
        (status = 200, description = "A vector for each text", body = EmbeddingResponse),
        (status = "default", description = "What is wrong", body = ErrorBody),
    ))]
pub(crate) async fn embeddings(
    State(app): State<App>,
    Extension(id): Extension<RequestId>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Json<EmbeddingResponse>, ApiError> {
    let model = app.model_for_work()?;
    let request: EmbeddingRequest = read_json(request, &app.options.limits).await?;
    model.check_name(request.model.as_deref())?;
    check_rest_by(&IGNORED, &REFUSED, &request.rest)?;
    let wanted = Wanted {
        pooling: request.pooling.as_deref().map(pooling).transpose()?,
        dimensions: request.dimensions.map(|dimensions| dimensions as usize),
        cache_salt: app.salt(caller, request.cache_salt.as_deref()),
        priority: request.priority.unwrap_or(0),
    };
    wanted.check_dimensions(model)?;
    let input = request.input.ok_or_else(|| {
        ApiError::field("input", "input: a text, tokens, or a list of one of them is needed")
    })?;
    check_input(&input, app.options.limits.inputs)?;
    let (frontend, whole) = (model.frontend.clone(), request.add_special_tokens.unwrap_or(true));
    let texts = spawn_blocking(move || texts(frontend.text(), input, whole));
    let texts = texts.await.map_err(|_| ApiError::internal())?;
    let prompt_tokens = texts.iter().map(|text| text.tokens.len()).sum::<usize>() as u32;
    let vectors = embed(&app, model, id.as_str(), texts, wanted).await?;
    let format = request.encoding_format.unwrap_or_default();
    let item = |(index, vector)| EmbeddingItem {
        object: "embedding".into(),
        index,
        embedding: Vector::new(vector, format),
    };
    Ok(Json(EmbeddingResponse {
        object: "list".into(),
        data: vectors.into_iter().enumerate().map(item).collect(),
        model: model.name().to_owned(),
        usage: EmbeddingUsage { prompt_tokens, total_tokens: prompt_tokens },
    }))
}

fn pooling(name: &str) -> Result<Pooling, ApiError> {
    Pooling::named(name).ok_or_else(|| {
        let names = Pooling::ALL.map(Pooling::name).join(", ");
        ApiError::field("pooling", format!("pooling is {name:?}: allowed are {names}"))
    })
}

/// Refuses lists that are empty or too long, and texts that are empty.
fn check_input(input: &Prompt, most: usize) -> Result<(), ApiError> {
    let (count, empty) = match input {
        Prompt::Text(text) => (1, text.is_empty().then_some("input".to_owned())),
        // A list of nothing is read as one of tokens.
        Prompt::Ids(ids) => (usize::from(!ids.is_empty()), None),
        Prompt::Texts(texts) => (texts.len(), name_of_empty(texts.iter().map(String::is_empty))),
        Prompt::ManyIds(many) => (many.len(), name_of_empty(many.iter().map(Vec::is_empty))),
    };
    if count == 0 {
        return Err(ApiError::field("input", "input: the list is empty"));
    }
    if count > most {
        let message = format!("input: {count} texts in one request, at most {most} are allowed");
        return Err(ApiError::field("input", message));
    }
    match empty {
        Some(field) => Err(ApiError::field(&field, format!("{field}: the text is empty"))),
        None => Ok(()),
    }
}

fn name_of_empty(mut is_empty: impl Iterator<Item = bool>) -> Option<String> {
    is_empty.position(|is_empty| is_empty).map(name)
}

/// What a request calls one of its texts.
fn name(at: usize) -> String {
    format!("input[{at}]")
}

/// The token numbers of each text, with the tokenizer's begin and end unless it is not to be whole.
fn texts(model: &ModelText, input: Prompt, whole: bool) -> Vec<Text> {
    let ids = |text: &str| match whole {
        true => model.embed_ids(text),
        false => model.text_ids(text, false, true),
    };
    let named = |(at, tokens)| Text { field: name(at), tokens };
    match input {
        Prompt::Text(text) => vec![Text { field: "input".into(), tokens: ids(&text) }],
        Prompt::Ids(tokens) => vec![Text { field: "input".into(), tokens }],
        Prompt::Texts(texts) => texts.iter().map(|t| ids(t)).enumerate().map(named).collect(),
        Prompt::ManyIds(many) => many.into_iter().enumerate().map(named).collect(),
    }
}
