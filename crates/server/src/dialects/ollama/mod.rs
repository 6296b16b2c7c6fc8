//! Ollama's API: `/api/chat` and `/api/generate` here, embeddings in `embed.rs`, models in `models.rs`.

mod embed;
mod models;
pub(super) mod wire;
mod write;

use axum::routing::get;
use jiff::Timestamp;
use serde_json::Value;
use wf_api::wire::{JsonObject, Sampling, Seed};
use wf_core::SamplingOverrides;
use wf_engine::{ChatOptions, DecodeSettings, GrammarSource};
use wf_text::ChatMessage;

use super::openai::{CHAT_TOOLS, logprobs};
use super::{Dialect, ErrorFormat, Registration};
use crate::error::ApiError;
use crate::generation::constraint::schema;
use crate::generation::conversation::read_messages;
use crate::generation::thinking::switch_or_effort;
use crate::generation::{
    Context, FieldRules, Generation, Prompt, Sequences, Thinking, ToolChoice, Tools,
};
use crate::http::body::{Names, RequestBody};
use crate::http::raw_fields::FieldUse;
use crate::http::routes::{Doc, JSON, Routes};
use models::OllamaModels;
use wire::{OllamaChatRequest, OllamaError, OllamaGenerateRequest, OllamaOptions, OllamaResponse};
use write::OllamaWriter;

pub(super) const DIALECT: Registration = Registration {
    routes,
    errors: Some(ErrorFormat {
        path: "/api",
        body: |error, _| {
            let body = OllamaError { error: error.message.clone() };
            serde_json::to_vec(&body).unwrap_or_default()
        },
    }),
};

fn routes() -> Routes {
    let response = "The response, in lines of JSON unless `stream` is false";
    let older = "Computes one embedding, in the format before `/api/embed`.";
    let version = "Returns the version of the server.";
    Routes::new::<OllamaError>("Ollama")
        .generate::<OllamaChat, OllamaResponse, OllamaResponse>(
            "/api/chat",
            Doc("ollama_chat", "Generates a message.", response),
        )
        .generate::<OllamaGenerate, OllamaResponse, OllamaResponse>(
            "/api/generate",
            Doc("ollama_generate", "Answers a text, or continues it.", response),
        )
        .post(
            "/api/embed",
            Doc("ollama_embed", "Computes embeddings.", "One vector per text"),
            embed::embed_texts,
        )
        .post("/api/embeddings", Doc("ollama_embeddings", older, "The vector"), embed::embed_prompt)
        .route::<OllamaModels>(
            "get",
            "/api/tags",
            Doc("tags", "Lists the models.", "The models that the caller may use"),
            JSON,
            get(models::tags),
        )
        .ask("/api/show", Doc("show", "Describes a model.", "The model"), models::show)
        .ask("/api/pull", Doc("pull", "Accepts a model that is here.", "The result"), models::pull)
        .route::<OllamaModels>(
            "get",
            "/api/ps",
            Doc("ps", "Lists the models in memory.", "Those that the caller may use"),
            JSON,
            get(models::ps),
        )
        .get("/api/version", Doc("ollama_version", version, "The version"), models::version)
}

pub(super) const FIELDS: FieldRules = FieldRules {
    ignored: "keep_alive truncate shift",
    unsupported: &[
        ("tools", &["[]"]),
        ("suffix", &[r#""""#]),
        ("template", &[r#""""#]),
        ("context", &["[]"]),
        ("images", &["[]"]),
        ("width", &["0"]),
        ("height", &["0"]),
        ("steps", &["0"]),
    ],
    constraints: &[("format", read_format)],
};

/// Untyped fields of `options`. Those that say how to compute are ignored; the server decides that.
const OPTIONS: FieldRules = FieldRules {
    ignored: "num_ctx num_batch num_gpu main_gpu num_thread num_keep numa low_vram f16_kv logits_all \
              vocab_only use_mmap use_mlock embedding_only mirostat_tau mirostat_eta",
    unsupported: &[
        ("mirostat", &["0"]),
        ("tfs_z", &["1", "1.0"]),
        ("typical_p", &["1", "1.0"]),
        ("penalize_newline", &["true"]),
    ],
    constraints: &[],
};

const OWN_NAMES: Names = &[("repetition_penalty", "repeat_penalty"), ("max_tokens", "num_predict")];

fn use_of(field: &str) -> FieldUse {
    match field {
        "options" => FieldUse::ReadFields(|field| !OPTIONS.ignores(field)),
        _ => FIELDS.use_of(field),
    }
}

impl RequestBody for OllamaChatRequest {
    const OWN_NAMES: Names = OWN_NAMES;
    const STREAMS_BY_DEFAULT: bool = true;

    fn use_of(field: &str) -> FieldUse {
        use_of(field)
    }
}

impl RequestBody for OllamaGenerateRequest {
    const OWN_NAMES: Names = OWN_NAMES;
    const STREAMS_BY_DEFAULT: bool = true;

    fn use_of(field: &str) -> FieldUse {
        use_of(field)
    }
}

fn read_format(value: &Value) -> Result<Option<GrammarSource>, String> {
    match value {
        Value::String(name) if name.is_empty() => Ok(None),
        Value::String(name) if name == "json" => Ok(Some(GrammarSource::json_object())),
        Value::Object(_) => schema(value),
        _ => Err("must be \"json\" or a JSON schema".to_owned()),
    }
}

/// Takes `think` out of the untyped fields: true, false or an effort.
fn take_think(extra: &mut JsonObject) -> Result<Thinking, ApiError> {
    let think = extra.remove("think").filter(|think| !think.is_null());
    let thinking = think.map(|think| switch_or_effort("think", &think));
    Ok(thinking.transpose()?.unwrap_or_default())
}

/// Takes `logprobs` and `top_logprobs` out of the untyped fields: the number of most likely tokens to report.
fn take_logprobs(cx: &Context, extra: &mut JsonObject) -> Result<Option<usize>, ApiError> {
    let mut take = |name: &str| extra.remove(name).filter(|value| !value.is_null());
    let wanted = match take("logprobs") {
        None => false,
        Some(Value::Bool(wanted)) => wanted,
        Some(_) => return Err(ApiError::at("logprobs", "must be true or false")),
    };
    let top = match take("top_logprobs").map(|top| top.as_u64().and_then(|n| u32::try_from(n).ok()))
    {
        None => None,
        Some(None) => return Err(ApiError::at("top_logprobs", "must be a whole number")),
        Some(top) => top,
    };
    logprobs(cx, wanted, top)
}

struct OllamaChat;

impl Dialect for OllamaChat {
    type Request = OllamaChatRequest;
    type Writer = OllamaWriter;

    fn read(mut request: OllamaChatRequest, cx: &Context) -> Result<(Self, Generation), ApiError> {
        let thinking = take_think(&mut request.extra)?;
        let logprobs = take_logprobs(cx, &mut request.extra)?;
        let constraint = FIELDS.read(&mut request.extra, &cx.unknown_fields)?;
        let tools = Tools::new(
            CHAT_TOOLS.read(request.tools.as_deref(), &cx.unknown_fields)?,
            ToolChoice::Auto,
            true,
        )?;
        let mut messages = request.messages.unwrap_or_default();
        for (at, message) in messages.iter_mut().enumerate() {
            check_images(&format!("messages[{at}].images"), &message.extra)?;
            if let Some(name) = message.extra.remove("tool_name") {
                message.extra.insert("name".into(), name);
            }
        }
        let prompt = if messages.is_empty() {
            Prompt::Empty
        } else {
            let tools = Tools::for_template(tools.as_ref());
            let options =
                ChatOptions { add_generation_prompt: true, tools, ..ChatOptions::default() };
            Prompt::Chat { messages: read_messages(&cx.app, messages)?, options }
        };
        let (params, sampling) = sampling(request.options, request.stream, cx)?;
        let decode = DecodeSettings::default();
        let mut generation = Generation::new(cx, &params, sampling, &decode, "messages", prompt)?;
        generation.settings.logprobs = logprobs;
        Ok((Self, Generation { constraint, tools, thinking, clamp_max_tokens: true, ..generation }))
    }

    fn writer(self, cx: &Context, _: &Generation, _: &Sequences) -> OllamaWriter {
        OllamaWriter::new(cx.model.name(), true)
    }
}

struct OllamaGenerate;

impl Dialect for OllamaGenerate {
    type Request = OllamaGenerateRequest;
    type Writer = OllamaWriter;

    fn read(
        mut request: OllamaGenerateRequest,
        cx: &Context,
    ) -> Result<(Self, Generation), ApiError> {
        let thinking = take_think(&mut request.extra)?;
        let logprobs = take_logprobs(cx, &mut request.extra)?;
        let constraint = FIELDS.read(&mut request.extra, &cx.unknown_fields)?;
        let system = request.system.filter(|system| !system.is_empty());
        let prompt = match request.prompt.filter(|text| !text.is_empty()) {
            None => Prompt::Empty,
            Some(_) if request.raw == Some(true) && system.is_some() => {
                return Err(ApiError::at("system", "cannot be combined with raw"));
            }
            Some(text) if request.raw == Some(true) => {
                Prompt::Texts { texts: vec![text], add_bos: true }
            }
            Some(text) => {
                let system = system.map(|system| ChatMessage::new("system", system));
                let messages = system.into_iter().chain([ChatMessage::new("user", text)]).collect();
                Prompt::Chat { messages, options: ChatOptions::default() }
            }
        };
        let (params, sampling) = sampling(request.options, request.stream, cx)?;
        let decode = DecodeSettings::default();
        let mut generation = Generation::new(cx, &params, sampling, &decode, "prompt", prompt)?;
        generation.settings.logprobs = logprobs;
        Ok((Self, Generation { constraint, thinking, clamp_max_tokens: true, ..generation }))
    }

    fn writer(self, cx: &Context, _: &Generation, _: &Sequences) -> OllamaWriter {
        OllamaWriter::new(cx.model.name(), false)
    }
}

fn check_images(field: &str, message: &JsonObject) -> Result<(), ApiError> {
    match message.get("images") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Array(images)) if images.is_empty() => Ok(()),
        Some(_) => Err(ApiError::unsupported(field, format!("{field}: images are not supported"))),
    }
}

fn sampling(
    options: Option<OllamaOptions>,
    stream: Option<bool>,
    cx: &Context,
) -> Result<(SamplingOverrides, Sampling), ApiError> {
    let o = options.unwrap_or_default();
    OPTIONS.check(&o.extra, &cx.unknown_fields)?;
    let max_tokens = o.num_predict.filter(|max| *max > 0);
    let sampling = Sampling {
        seed: o.seed.filter(|&seed| seed != Seed::from(-1_i64)),
        max_tokens: max_tokens.map(|max| u32::try_from(max).unwrap_or(u32::MAX)),
        stop: o.stop,
        stream: Some(stream.unwrap_or(true)),
        ..Sampling::default()
    };
    Ok((o.params, sampling))
}

/// Formats a time in seconds since 1970 by RFC 3339.
fn rfc3339(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_by_rfc_3339() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), date);
        }
    }
}
