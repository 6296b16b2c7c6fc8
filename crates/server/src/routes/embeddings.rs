//! `POST /v1/embeddings`.

use wf_api::wire::{self, EmbeddingItem, EmbeddingResponse, EmbeddingUsage, Prompt, Vector};
use wf_engine::{EmbeddingRequest, ModelText, Pooling};

use crate::error::ApiError;
use crate::generation::embed::{Embedded, embed};
use crate::generation::{Context, FieldRules};
use crate::http::body::RequestBody;
use crate::http::raw_fields::FieldUse;

const FIELDS: FieldRules = FieldRules {
    ignored: "user rid no_logs log_metrics background custom_labels",
    unsupported: &[
        ("normalize", &["true"]),
        ("embd_normalize", &["2"]),
        ("embed_dtype", &[r#""float32""#]),
        ("truncate_prompt_tokens", &[]),
        ("messages", &[]),
        ("lora_path", &[]),
    ],
    constraints: &[],
};

impl RequestBody for wire::EmbeddingRequest {
    const TOKEN_LISTS: &'static [&'static str] = &["input"];

    fn use_of(field: &str) -> FieldUse {
        FIELDS.use_of(field)
    }
}

pub(super) async fn embeddings(
    cx: Context,
    request: wire::EmbeddingRequest,
) -> Result<EmbeddingResponse, ApiError> {
    FIELDS.check(&request.extra, &cx.unknown_fields)?;
    let template = EmbeddingRequest {
        pooling: request.pooling.as_deref().map(pooling).transpose()?,
        dimensions: request.dimensions.map(|dimensions| dimensions as usize),
        cache_salt: cx.app.salt(&cx.caller, request.cache_salt.as_deref()),
        priority: request.priority.unwrap_or(0),
        ..EmbeddingRequest::new(Vec::new())
    };
    let input = request.input.ok_or_else(|| ApiError::required("input"))?;
    check_not_empty(&input)?;
    let add_specials = request.add_special_tokens.unwrap_or(true);
    let to_ids = move |model: &ModelText, text: &str| match add_specials {
        true => model.embed_ids(text),
        false => model.text_ids(text, false, true),
    };
    let Embedded { vectors, tokens } = embed(&cx, "input", input, to_ids, template).await?;
    let format = request.encoding_format.unwrap_or_default();
    let item = |(index, vector)| EmbeddingItem {
        object: "embedding".into(),
        index,
        embedding: Vector::new(vector, format),
    };
    Ok(EmbeddingResponse {
        object: "list".into(),
        data: vectors.into_iter().enumerate().map(item).collect(),
        model: cx.model.name().to_owned(),
        usage: EmbeddingUsage { prompt_tokens: tokens, total_tokens: tokens },
    })
}

fn pooling(name: &str) -> Result<Pooling, ApiError> {
    Pooling::from_name(name).ok_or_else(|| {
        let names = Pooling::ALL.map(Pooling::name).join(", ");
        ApiError::field("pooling", format!("pooling is {name:?}: must be one of {names}"))
    })
}

fn check_not_empty(input: &Prompt) -> Result<(), ApiError> {
    let in_list = |at: Option<usize>| at.map(|at| format!("input[{at}]"));
    let whole = |is_empty: bool| is_empty.then(|| "input".to_owned());
    let empty = match input {
        Prompt::Text(text) => whole(text.is_empty()),
        // An empty list is parsed as a list of tokens.
        Prompt::Ids(ids) => whole(ids.is_empty()),
        Prompt::Texts(texts) => in_list(texts.iter().position(String::is_empty)),
        Prompt::ManyIds(many) => in_list(many.iter().position(Vec::is_empty)),
    };
    match empty {
        Some(field) => Err(ApiError::at(field, "must not be empty")),
        None => Ok(()),
    }
}
