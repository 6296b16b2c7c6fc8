//! OpenAI's responses API: `POST /v1/responses`. Nothing is stored between requests.

mod wire;
mod write;

use serde_json::{Value, json};
use wf_api::wire::{Content, ErrorBody, NamedEvent, Sampling};
use wf_core::SamplingOverrides;
use wf_engine::{ChatOptions, DecodeSettings};
use wf_text::ChatMessage;

use super::{Dialect, Registration};
use crate::app::{App, now};
use crate::error::ApiError;
use crate::generation::constraint::nested_format;
use crate::generation::conversation::read_text;
use crate::generation::decoding::add_forwarded;
use crate::generation::fields::check_count;
use crate::generation::{
    Context, FieldRules, Generation, Prompt, Sequences, ToolSyntax, Tools, read_openai_choice,
};
use crate::http::routes::{Doc, Routes};
use wire::{InputItem, ResponseObject, ResponseText, ResponsesInput, ResponsesRequest};
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
              prompt_cache_options max_tool_calls stream_options reasoning moderation access_programs \
              image",
    unsupported: &[
        ("previous_response_id", &[]),
        ("conversation", &[]),
        ("prompt", &[]),
        ("include", &["[]"]),
        ("background", &["false"]),
        ("truncation", &[r#""disabled""#]),
        ("top_logprobs", &["0"]),
        ("context_management", &["[]"]),
    ],
    constraints: &[("text", |value| nested_format(value, "verbosity"))],
};

/// `{"type": "function", "name", "description", "parameters", "strict"}`.
const TOOLS: ToolSyntax = ToolSyntax { kind: "function", nested: None, schema: "parameters" };

/// The response with the fields of the request that it repeats.
struct Responses(ResponseObject);

impl Dialect for Responses {
    type Request = ResponsesRequest;
    type Writer = ResponseWriter;

    const ALIASES: &'static [(&'static str, &'static str)] = &[("max_tokens", "max_output_tokens")];

    fn read(mut request: ResponsesRequest, cx: &Context) -> Result<(Self, Generation), ApiError> {
        cx.model.check_name(request.model.as_deref())?;
        let format = request.extra.get("text").and_then(|text| text.get("format"));
        let format = format.filter(|format| !format.is_null()).cloned();
        let constraint = FIELDS.read(&mut request.extra)?;
        let choice = request.tool_choice.as_ref();
        let choice = read_openai_choice(choice, |choice| choice.get("name"))?;
        let parallel = request.parallel_tool_calls.unwrap_or(true);
        let tools = Tools::new(TOOLS.read(request.tools.clone())?, choice, parallel)?;
        let messages = conversation(&cx.app, request.instructions.as_deref(), request.input)?;
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
        let generation = Generation::new(cx, &params, sampling, &decode, "input", prompt)?;
        let response = ResponseObject {
            instructions: request.instructions,
            max_output_tokens: request.max_output_tokens,
            text: ResponseText { format: format.unwrap_or_else(|| json!({"type": "text"})) },
            tools: request.tools.unwrap_or_default(),
            tool_choice: request.tool_choice.unwrap_or_else(|| "auto".into()),
            parallel_tool_calls: parallel,
            metadata: request.metadata.unwrap_or_default(),
            ..ResponseObject::default()
        };
        Ok((Self(response), Generation { constraint, tools, ..generation }))
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
            ..self.0
        };
        let message_id = format!("msg_{}", cx.request_id);
        ResponseWriter::new(response, message_id, generation.tools.is_some())
    }
}

fn conversation(
    app: &App,
    instructions: Option<&str>,
    input: Option<ResponsesInput>,
) -> Result<Vec<ChatMessage>, ApiError> {
    let mut messages: Vec<_> =
        instructions.map(|text| ChatMessage::new("system", text)).into_iter().collect();
    match input {
        None => return Err(ApiError::required("input")),
        Some(ResponsesInput::Text(text)) => messages.push(ChatMessage::new("user", text)),
        Some(ResponsesInput::Items(items)) if items.is_empty() => {
            return Err(ApiError::at("input", "must have at least one item"));
        }
        Some(ResponsesInput::Items(items)) => {
            check_count("input", items.len(), app.options.limits.messages)?;
            for (at, item) in items.into_iter().enumerate() {
                match item.kind.as_deref() {
                    Some("function_call") => read_call(&mut messages, at, &item)?,
                    Some("function_call_output") => messages.push(read_call_output(at, item)?),
                    _ => messages.push(read_message(at, item)?),
                }
            }
        }
    }
    Ok(messages)
}

fn read_message(at: usize, item: InputItem) -> Result<ChatMessage, ApiError> {
    if let Some(kind) = item.kind.filter(|kind| kind != "message") {
        let param = format!("input[{at}].type");
        let message =
            format!("{param} is {kind:?}: must be message, function_call or function_call_output");
        return Err(ApiError::unsupported(param, message));
    }
    let role = match item.role.as_str() {
        "user" | "assistant" | "system" => item.role.as_str(),
        "developer" => "system",
        _ => {
            let param = format!("input[{at}].role");
            let what = format!("{:?} is not one of user, assistant, system, developer", item.role);
            return Err(ApiError::at(param, &what));
        }
    };
    let field = format!("input[{at}].content");
    let content = item.content.ok_or_else(|| ApiError::required(&field))?;
    Ok(ChatMessage::new(role, read_text(&field, plain(content))?))
}

fn text_field(at: usize, item: &InputItem, name: &str) -> Result<String, ApiError> {
    match item.extra.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(ApiError::at(format!("input[{at}].{name}"), "must be a string")),
    }
}

/// Adds a call to the last message of the assistant: calls made together are one message.
fn read_call(messages: &mut Vec<ChatMessage>, at: usize, item: &InputItem) -> Result<(), ApiError> {
    let text = |name: &str| text_field(at, item, name);
    let id = text("call_id")?;
    let function = json!({"name": text("name")?, "arguments": text("arguments")?});
    let call = json!({"id": id, "type": "function", "function": function});
    if messages.last().is_none_or(|last| last.role != "assistant") {
        messages.push(ChatMessage::new("assistant", ""));
    }
    if let Some(last) = messages.last_mut() {
        let calls = last.extra.entry("tool_calls").or_insert_with(|| json!([]));
        calls.as_array_mut().into_iter().for_each(|calls| calls.push(call.clone()));
    }
    Ok(())
}

fn read_call_output(at: usize, mut item: InputItem) -> Result<ChatMessage, ApiError> {
    let id = text_field(at, &item, "call_id")?;
    let field = format!("input[{at}].output");
    let output = serde_json::from_value(item.extra.remove("output").unwrap_or_default())
        .map_err(|_| ApiError::at(&field, "must be a string or a list of parts"))?;
    let mut message = ChatMessage::new("tool", read_text(&field, plain(output))?);
    message.extra.insert("tool_call_id".into(), id.into());
    Ok(message)
}

/// Renames parts of type `input_text` and `output_text` to `text`.
fn plain(mut content: Content) -> Content {
    if let Content::Parts(parts) = &mut content {
        for part in parts {
            if matches!(part.kind.as_str(), "input_text" | "output_text") {
                part.kind = "text".to_owned();
            }
        }
    }
    content
}
