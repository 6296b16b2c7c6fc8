//! OpenAI's responses API: `POST /v1/responses`. Nothing is stored between requests.

mod input;
mod reasoning;
pub(super) mod wire;
mod write;

use serde_json::{Value, json};
use wf_api::wire::{ErrorBody, JsonObject, NamedEvent, Sampling};
use wf_core::SamplingOverrides;
use wf_engine::{ChatOptions, DecodeSettings};

use super::openai::logprobs;
use super::{Dialect, Registration};
use crate::app::now;
use crate::error::ApiError;
use crate::generation::constraint::nested_format;
use crate::generation::decoding::add_forwarded;
use crate::generation::thinking;
use crate::generation::{
    Context, FieldRules, Generation, Prompt, Sequences, ToolSyntax, Tools, read_openai_choice,
};
use crate::http::body::{Names, RequestBody};
use crate::http::raw_fields::FieldUse;
use crate::http::routes::{Doc, Routes};
use input::conversation;
use wire::{ResponseObject, ResponseText, ResponsesRequest};
use write::ResponseWriter;

pub(super) const DIALECT: Registration = Registration {
    routes: || {
        let response = "The response; with `stream`, server-sent events";
        Routes::new::<ErrorBody>("OpenAI").generate::<Responses, ResponseObject, NamedEvent>(
            "/v1/responses",
            Doc("responses", "Generates a response.", response),
        )
    },
    errors: None,
};

pub(super) const FIELDS: FieldRules = FieldRules {
    ignored: "store user service_tier safety_identifier prompt_cache_key prompt_cache_retention \
              prompt_cache_options max_tool_calls stream_options moderation access_programs \
              image client_metadata",
    unsupported: &[
        ("previous_response_id", &[]),
        ("conversation", &[]),
        ("prompt", &[]),
        ("background", &["false"]),
        ("truncation", &[r#""disabled""#]),
        ("context_management", &["[]"]),
    ],
    constraints: &[("text", |value| nested_format(value, "verbosity"))],
};

/// `{"type": "function", "name", "description", "parameters", "strict"}`.
const TOOLS: ToolSyntax = ToolSyntax {
    kind: "function",
    nested: None,
    schema: "parameters",
    is_foreign: |kind| OTHER_TOOLS.contains(&kind),
};

/// Types of tools that a server would have to run itself, or that are no functions.
const OTHER_TOOLS: [&str; 14] = [
    "web_search",
    "web_search_preview",
    "file_search",
    "code_interpreter",
    "image_generation",
    "computer",
    "computer_use_preview",
    "mcp",
    "local_shell",
    "shell",
    "apply_patch",
    "custom",
    "namespace",
    "tool_search",
];

impl RequestBody for ResponsesRequest {
    const OWN_NAMES: Names = &[("max_tokens", "max_output_tokens")];

    fn use_of(field: &str) -> FieldUse {
        FIELDS.use_of(field)
    }
}

/// The response with the fields of the request that it repeats.
struct Responses {
    response: ResponseObject,
    includes: Includes,
}

/// Parts that a response includes on request.
#[derive(Clone, Copy, Debug, Default)]
struct Includes {
    encoded_reasoning: bool,
    logprobs: bool,
}

/// Reads a list of parts to include.
fn read_include(include: Option<Value>) -> Result<Includes, ApiError> {
    let parts = match include {
        None | Some(Value::Null) => return Ok(Includes::default()),
        Some(Value::Array(parts)) => parts,
        Some(_) => return Err(ApiError::at("include", "must be a list of names")),
    };
    let mut includes = Includes::default();
    for part in &parts {
        match part.as_str() {
            Some("reasoning.encrypted_content") => includes.encoded_reasoning = true,
            Some("message.output_text.logprobs") => includes.logprobs = true,
            _ => {
                let message = format!(
                    "include has {part}: must be \"reasoning.encrypted_content\" or \
                     \"message.output_text.logprobs\""
                );
                return Err(ApiError::unsupported("include", message));
            }
        }
    }
    Ok(includes)
}

impl Dialect for Responses {
    type Request = ResponsesRequest;
    type Writer = ResponseWriter;

    fn read(mut request: ResponsesRequest, cx: &Context) -> Result<(Self, Generation), ApiError> {
        let includes = read_include(request.extra.remove("include"))?;
        let format = request.extra.get("text").and_then(|text| text.get("format"));
        let format = format.filter(|format| !format.is_null()).cloned();
        let thinking = request.extra.remove("reasoning").filter(|value| !value.is_null());
        let thinking = thinking.map(|value| thinking::reasoning("reasoning", &value));
        let thinking = thinking.transpose()?.unwrap_or_default();
        let constraint = FIELDS.read(&mut request.extra, &cx.unknown_fields)?;
        let top_logprobs = request.top_logprobs.filter(|top| *top > 0);
        let logprobs = logprobs(cx, includes.logprobs || top_logprobs.is_some(), top_logprobs)?;
        let choice = request.tool_choice.as_ref();
        let choice = read_openai_choice(choice, |choice| choice.get("name"))?;
        let parallel = request.parallel_tool_calls.unwrap_or(true);
        let tools = TOOLS.read(request.tools.as_deref(), &cx.unknown_fields)?;
        let tools = Tools::new(tools, choice, parallel)?;
        let messages = conversation(cx, request.instructions.as_deref(), request.input)?;
        let options = ChatOptions {
            add_generation_prompt: true,
            tools: Tools::for_template(tools.as_ref()),
            ..ChatOptions::default()
        };
        let prompt = Prompt::Chat { messages, options };
        let params = SamplingOverrides {
            temperature: request.temperature,
            top_p: request.top_p,
            ..SamplingOverrides::default()
        };
        if request.max_output_tokens == Some(0) {
            let message = "max_output_tokens is 0: must be at least 1";
            return Err(ApiError::field("max_output_tokens", message));
        }
        let sampling = Sampling {
            max_tokens: request.max_output_tokens,
            seed: request.seed,
            stream: request.stream,
            ..Sampling::default()
        };
        let decode =
            add_forwarded(DecodeSettings::default(), &request.extra, request.metadata.as_ref())?;
        let mut generation = Generation::new(cx, &params, sampling, &decode, "input", prompt)?;
        generation.settings.logprobs = logprobs;
        let response = ResponseObject {
            instructions: request.instructions,
            max_output_tokens: request.max_output_tokens,
            text: ResponseText { format: format.unwrap_or_else(|| json!({"type": "text"})) },
            tools: request.tools.map_or_else(Vec::new, functions_only),
            tool_choice: request.tool_choice.unwrap_or_else(|| "auto".into()),
            parallel_tool_calls: parallel,
            metadata: request.metadata.unwrap_or_default(),
            ..ResponseObject::default()
        };
        let responses = Self { response, includes };
        Ok((responses, Generation { constraint, tools, thinking, ..generation }))
    }

    fn writer(self, cx: &Context, generation: &Generation, _: &Sequences) -> ResponseWriter {
        let sampling = &generation.settings.sampling;
        let response = ResponseObject {
            id: format!("resp_{}", cx.request_id),
            object: "response".into(),
            created_at: now(),
            status: "in_progress".into(),
            model: cx.model.name().to_owned(),
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            truncation: "disabled".into(),
            seed: generation.seed,
            system_fingerprint: cx.model.fingerprint(),
            ..self.response
        };
        // Otherwise the message is the first item, even before it has text.
        let begins_with_text = generation.tools.is_none() && !generation.may_think();
        let mut writer = ResponseWriter::new(response, cx.request_id.clone());
        writer.begins_with_text = begins_with_text;
        writer.has_tools = generation.tools.is_some();
        writer.encodes_reasoning = self.includes.encoded_reasoning;
        writer
    }
}

/// Returns the tools that are in use.
fn functions_only(mut tools: Vec<JsonObject>) -> Vec<JsonObject> {
    tools.retain(|tool| TOOLS.foreign_type(tool).is_none());
    tools
}
