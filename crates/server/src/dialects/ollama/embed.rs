//! Embeddings in Ollama's API: `POST /api/embed`, and the older `/api/embeddings`.

use std::time::Instant;

use wf_api::wire::{OneOrMany, Prompt};
use wf_engine::{EmbeddingRequest, ModelText};

use super::OPTIONS;
use super::wire::{
    OllamaEmbedRequest, OllamaEmbedResponse, OllamaEmbeddingsRequest, OllamaEmbeddingsResponse,
    OllamaOptions,
};
use crate::error::ApiError;
use crate::generation::embed::{Embedded, embed};
use crate::generation::{Context, FieldRules};
use crate::http::body::RequestBody;
use crate::http::raw_fields::FieldUse;

const FIELDS: FieldRules = FieldRules { ignored: "keep_alive", unsupported: &[], constraints: &[] };

impl RequestBody for OllamaEmbedRequest {
    fn use_of(field: &str) -> FieldUse {
        use_of(field)
    }
}

impl RequestBody for OllamaEmbeddingsRequest {
    fn use_of(field: &str) -> FieldUse {
        use_of(field)
    }
}

fn use_of(field: &str) -> FieldUse {
    match field {
        "options" => FieldUse::ReadFields(|field| !OPTIONS.ignores(field)),
        _ => FIELDS.use_of(field),
    }
}

pub(super) async fn embed_texts(
    cx: Context,
    request: OllamaEmbedRequest,
) -> Result<OllamaEmbedResponse, ApiError> {
    let start = Instant::now();
    FIELDS.check(&request.extra, &cx.unknown_fields)?;
    check_options(request.options, &cx)?;
    // Clients that only load the model send no text, and get no vectors.
    let texts: Vec<String> = match request.input {
        None => Vec::new(),
        Some(OneOrMany::One(text)) if text.is_empty() => Vec::new(),
        Some(input) => input.into(),
    };
    let template = EmbeddingRequest {
        dimensions: request.dimensions.filter(|len| *len > 0).map(|len| len as usize),
        ..EmbeddingRequest::new(Vec::new())
    };
    let truncates = request.truncate.unwrap_or(true);
    let Embedded { vectors, tokens } = vectors(&cx, "input", texts, truncates, template).await?;
    Ok(OllamaEmbedResponse {
        model: cx.model.name().to_owned(),
        embeddings: vectors,
        total_duration: start.elapsed().as_nanos() as u64,
        load_duration: 0,
        prompt_eval_count: tokens,
    })
}

pub(super) async fn embed_prompt(
    cx: Context,
    request: OllamaEmbeddingsRequest,
) -> Result<OllamaEmbeddingsResponse, ApiError> {
    FIELDS.check(&request.extra, &cx.unknown_fields)?;
    check_options(request.options, &cx)?;
    let prompt = request.prompt.filter(|prompt| !prompt.is_empty()).into_iter().collect();
    let template = EmbeddingRequest::new(Vec::new());
    let Embedded { vectors, .. } = vectors(&cx, "prompt", prompt, true, template).await?;
    Ok(OllamaEmbeddingsResponse { embedding: vectors.into_iter().next().unwrap_or_default() })
}

/// Rejects unknown options. Those that are known change how tokens are sampled, and none are.
fn check_options(options: Option<OllamaOptions>, cx: &Context) -> Result<(), ApiError> {
    let options = options.map(|options| options.extra).unwrap_or_default();
    OPTIONS.check(&options, &cx.unknown_fields)
}

/// Computes the vectors of the texts of a field. Texts that the context cannot hold are truncated or rejected.
async fn vectors(
    cx: &Context,
    field: &'static str,
    texts: Vec<String>,
    truncates: bool,
    template: EmbeddingRequest,
) -> Result<Embedded, ApiError> {
    let max_len = if truncates { cx.max_len() } else { usize::MAX };
    let to_ids = move |model: &ModelText, text: &str| {
        let mut ids = model.embed_ids(text);
        let end = model.tokenizer.prompt_suffix();
        // Truncation removes text and keeps the end tokens.
        if ids.len() > max_len {
            ids.truncate(max_len.saturating_sub(end.len()));
            ids.extend_from_slice(end);
        }
        ids
    };
    let cache_salt = cx.app.salt(&cx.caller, None);
    embed(cx, field, Prompt::Texts(texts), to_ids, EmbeddingRequest { cache_salt, ..template })
        .await
}
