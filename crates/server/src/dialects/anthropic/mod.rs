//! Anthropic's messages API: `POST /v1/messages` and `/v1/messages/count_tokens`.

pub(super) mod wire;
mod write;

use axum::http::StatusCode;
use serde_json::{Value, json};
use wf_api::wire::{
    ChatMessage, Content, ContentPart, JsonObject, NamedEvent, OneOrMany, Sampling,
};
use wf_core::SamplingOverrides;
use wf_engine::{ChatOptions, DecodeSettings};

use super::{Dialect, ErrorFormat, Registration};
use crate::app::App;
use crate::error::ApiError;
use crate::generation::constraint::{flat_format, nested_format};
use crate::generation::conversation::{check_message_count, read_message, read_part, read_text};
use crate::generation::decoding::add_forwarded;
use crate::generation::fields::check_range;
use crate::generation::thinking;
use crate::generation::{
    Context, Encoded, FieldRules, Generation, Prompt, Sequences, Thinking, ToolChoice, ToolSyntax,
    Tools,
};
use crate::http::body::{Names, RequestBody};
use crate::http::raw_fields::FieldUse;
use crate::http::routes::{Doc, Routes};
use crate::http::type_errors::in_json_terms;
use wire::{
    CountTokensRequest, CountTokensResponse, Message, MessageStopInfo, MessageUsage, MessagesError,
    MessagesErrorDetail, MessagesRequest,
};
use write::MessageWriter;

pub(super) const DIALECT: Registration = Registration {
    routes: || {
        let response = "The message; with `stream`, server-sent events";
        Routes::new::<MessagesError>("Anthropic")
            .generate::<Messages, Message, NamedEvent>(
                "/v1/messages",
                Doc("messages", "Generates a message.", response),
            )
            .post(
                "/v1/messages/count_tokens",
                Doc("count_tokens", "Counts the tokens of a conversation.", "The number of tokens"),
                count_tokens,
            )
    },
    errors: Some(ErrorFormat { path: "/v1/messages", body: error_body }),
};

pub(super) const FIELDS: FieldRules = FieldRules {
    ignored: "metadata service_tier cache_control inference_geo speed diagnostics user_profile_id \
              workspace_id context_management",
    unsupported: &[("mcp_servers", &["[]"]), ("container", &[])],
    constraints: &[
        ("output_config", |value| nested_format(value, "effort")),
        // The field's former name.
        ("output_format", flat_format),
    ],
};

/// `{"name", "description", "input_schema"}`.
const TOOLS: ToolSyntax =
    ToolSyntax { kind: "custom", nested: None, schema: "input_schema", is_foreign: is_vendor_tool };

/// True for tools that Anthropic defines, such as `web_search_20250305`: their types end with a date.
fn is_vendor_tool(kind: &str) -> bool {
    let is_date = |text: &str| text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    kind == "mcp_toolset" || kind.rsplit_once('_').is_some_and(|(_, date)| is_date(date))
}

async fn count_tokens(
    cx: Context,
    mut request: CountTokensRequest,
) -> Result<CountTokensResponse, ApiError> {
    // Constraints are not part of the prompt.
    let thinking = take_thinking(&mut request.extra)?.enabled;
    FIELDS.read(&mut request.extra, &cx.unknown_fields)?;
    let tools = read_tools(&cx, request.tools.as_deref(), request.tool_choice.as_ref())?;
    let (system, messages) = (request.system, request.messages);
    let prompt = conversation(&cx.app, system, messages, tools.as_ref(), thinking)?;
    let Encoded { prompts, .. } = prompt.tokenize(&cx.model).await?;
    Ok(CountTokensResponse { input_tokens: prompts.iter().map(Vec::len).sum::<usize>() as u32 })
}

impl RequestBody for CountTokensRequest {
    fn use_of(field: &str) -> FieldUse {
        FIELDS.use_of(field)
    }
}

impl RequestBody for MessagesRequest {
    const OWN_NAMES: Names = &[("stop", "stop_sequences")];

    fn use_of(field: &str) -> FieldUse {
        FIELDS.use_of(field)
    }
}

struct Messages {
    /// Maximum number of tokens, as requested.
    max_tokens: u32,
}

impl Dialect for Messages {
    type Request = MessagesRequest;
    type Writer = MessageWriter;

    fn read(mut request: MessagesRequest, cx: &Context) -> Result<(Self, Generation), ApiError> {
        let thinking = take_thinking(&mut request.extra)?;
        let constraint = FIELDS.read(&mut request.extra, &cx.unknown_fields)?;
        let sampling = sampling(&request)?;
        let max_tokens = sampling.max_tokens.unwrap_or_default();
        let params = SamplingOverrides {
            temperature: request.temperature,
            top_p: request.top_p,
            top_k: request.top_k.map(i64::from),
            ..SamplingOverrides::default()
        };
        let tools = read_tools(cx, request.tools.as_deref(), request.tool_choice.as_ref())?;
        let (system, messages) = (request.system, request.messages);
        let prompt = conversation(&cx.app, system, messages, tools.as_ref(), thinking.enabled)?;
        let decode = add_forwarded(DecodeSettings::default(), &request.extra, None)?;
        let generation = Generation::new(cx, &params, sampling, &decode, "messages", prompt)?;
        // Clients ask for more than a small context holds by default.
        let generation =
            Generation { constraint, tools, thinking, clamp_max_tokens: true, ..generation };
        Ok((Self { max_tokens }, generation))
    }

    fn writer(self, cx: &Context, generation: &Generation, _: &Sequences) -> MessageWriter {
        let message = Message {
            id: format!("msg_{}", cx.request_id),
            kind: "message".into(),
            role: "assistant".into(),
            model: cx.model.name().to_owned(),
            content: Vec::new(),
            stop: MessageStopInfo::default(),
            usage: MessageUsage::default(),
        };
        let stop_strings = generation.settings.stop.clone();
        let has_room = generation.settings.max_tokens >= Some(self.max_tokens as usize);
        let at_length = if has_room { "max_tokens" } else { "model_context_window_exceeded" };
        let may_think = generation.may_think();
        MessageWriter::new(message, stop_strings, generation.tools.is_some(), may_think, at_length)
    }
}

fn sampling(request: &MessagesRequest) -> Result<Sampling, ApiError> {
    match request.max_tokens {
        Some(1..) => {}
        Some(0) => {
            return Err(ApiError::field("max_tokens", "max_tokens is 0: must be at least 1"));
        }
        None => return Err(ApiError::required("max_tokens")),
    }
    check_range("temperature", request.temperature.unwrap_or(0.0), 0.0..=1.0)?;
    Ok(Sampling {
        max_tokens: request.max_tokens,
        stop: request.stop_sequences.clone().map(OneOrMany::Many),
        seed: request.seed,
        stream: request.stream,
        ..Sampling::default()
    })
}

/// Reads tools, and `{"type": "auto" | "any" | "tool" | "none", "name", "disable_parallel_tool_use"}`.
fn read_tools(
    cx: &Context,
    tools: Option<&[JsonObject]>,
    choice: Option<&JsonObject>,
) -> Result<Option<Tools>, ApiError> {
    let field = |name: &str| choice.and_then(|choice| choice.get(name));
    let is_single = field("disable_parallel_tool_use").and_then(Value::as_bool).unwrap_or(false);
    let chosen = match (choice, field("type").and_then(Value::as_str)) {
        (None, _) | (_, Some("auto")) => ToolChoice::Auto,
        (_, Some("any")) => ToolChoice::Required,
        (_, Some("none")) => ToolChoice::None,
        (_, Some("tool")) => match field("name").and_then(Value::as_str) {
            Some(name) => ToolChoice::Named(name.to_owned()),
            None => return Err(ApiError::at("tool_choice.name", "must be the name of a tool")),
        },
        _ => return Err(ApiError::at("tool_choice.type", "must be auto, any, tool or none")),
    };
    Tools::new(TOOLS.read(tools, &cx.unknown_fields)?, chosen, !is_single)
}

/// Takes `thinking` out of the untyped fields. Without it, a message has no thinking.
fn take_thinking(extra: &mut JsonObject) -> Result<Thinking, ApiError> {
    match extra.remove("thinking").filter(|thinking| !thinking.is_null()) {
        Some(value @ Value::Object(_)) => thinking::budget("thinking", &value),
        Some(_) => Err(ApiError::at("thinking", "must be an object")),
        None => Ok(Thinking::OFF),
    }
}

fn conversation(
    app: &App,
    system: Option<Content>,
    messages: Vec<ChatMessage>,
    tools: Option<&Tools>,
    thinking: Option<bool>,
) -> Result<Prompt, ApiError> {
    let is_known =
        |message: &ChatMessage| matches!(&*message.role, "user" | "assistant" | "system");
    if let Some(at) = messages.iter().position(|message| !is_known(message)) {
        let what = "must be user, assistant or system";
        return Err(ApiError::at(format!("messages[{at}].role"), what));
    }
    check_message_count(app, messages.len())?;
    let options = ChatOptions {
        add_generation_prompt: true,
        continue_final: messages.last().is_some_and(|last| last.role == "assistant"),
        tools: Tools::for_template(tools),
        thinking,
        ..ChatOptions::default()
    };
    let mut all = Vec::with_capacity(messages.len() + 1);
    if let Some(system) = system {
        all.push(wf_text::ChatMessage::new("system", read_text("system", system)?));
    }
    for (at, message) in messages.into_iter().enumerate() {
        all.extend(read_blocks(at, message)?);
    }
    Ok(Prompt::Chat { messages: all, options })
}

/// Reads a message. Results of tools become messages of their own, as templates expect them. Earlier thinking is up
/// to the template, most of which leave it out.
fn read_blocks(at: usize, mut message: ChatMessage) -> Result<Vec<wf_text::ChatMessage>, ApiError> {
    let thought = take_thoughts(&mut message);
    let mut messages = read_other_blocks(at, message)?;
    if let (Some(thought), Some(last)) = (thought, messages.last_mut()) {
        last.extra.insert("reasoning_content".into(), thought.into());
    }
    Ok(messages)
}

/// Takes the thinking out of a message of the assistant.
fn take_thoughts(message: &mut ChatMessage) -> Option<String> {
    let Some(Content::Parts(parts)) = &mut message.content else { return None };
    if message.role != "assistant" {
        return None;
    }
    let is_thought =
        |part: &mut ContentPart| matches!(&*part.kind, "thinking" | "redacted_thinking");
    let blocks: Vec<ContentPart> = parts.extract_if(.., is_thought).collect();
    let texts = blocks.iter().filter_map(|block| block.extra.get("thinking")?.as_str());
    Some(texts.collect::<Vec<_>>().join("\n")).filter(|thought| !thought.is_empty())
}

fn read_other_blocks(
    at: usize,
    message: ChatMessage,
) -> Result<Vec<wf_text::ChatMessage>, ApiError> {
    let is_tool = |part: &ContentPart| matches!(&*part.kind, "tool_use" | "tool_result");
    let parts = match message.content {
        Some(Content::Parts(parts)) if parts.iter().any(is_tool) => parts,
        _ => return Ok(vec![read_message(at, message)?]),
    };
    let (mut calls, mut results, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for (part_at, part) in parts.into_iter().enumerate() {
        let field = format!("messages[{at}].content[{part_at}]");
        match (part.kind.as_str(), message.role.as_str()) {
            ("tool_use", "assistant") => calls.push(read_call(&field, &part.extra)?),
            ("tool_result", "user") => results.push(read_result(&field, part.extra)?),
            ("tool_use" | "tool_result", role) => {
                let what = format!("{:?} is not allowed in messages of role {role}", part.kind);
                return Err(ApiError::at(format!("{field}.type"), &what));
            }
            _ => texts.push(read_part(&field, part)?),
        }
    }
    let has_own = !texts.is_empty() || !calls.is_empty();
    let mut own = wf_text::ChatMessage::new(message.role.as_str(), texts.join("\n"));
    if !calls.is_empty() {
        own.extra.insert("tool_calls".into(), calls.into());
    }
    Ok(results.into_iter().chain(has_own.then_some(own)).collect())
}

fn read_call(field: &str, block: &JsonObject) -> Result<Value, ApiError> {
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    let (Some(id), Some(name)) = (text("id"), text("name")) else {
        return Err(ApiError::at(field, "must have an id and a name"));
    };
    let input = block.get("input").cloned().unwrap_or_else(|| json!({}));
    Ok(json!({"id": id, "type": "function", "function": {"name": name, "arguments": input}}))
}

fn read_result(field: &str, mut block: JsonObject) -> Result<wf_text::ChatMessage, ApiError> {
    let Some(Value::String(id)) = block.remove("tool_use_id") else {
        let what = "must be the id of a tool_use block";
        return Err(ApiError::at(format!("{field}.tool_use_id"), what));
    };
    let field = format!("{field}.content");
    let content = match block.remove("content") {
        None | Some(Value::Null) => String::new(),
        Some(content) => {
            let content = serde_json::from_value::<Content>(content)
                .map_err(|error| ApiError::at(&field, &in_json_terms(&error)))?;
            read_text(&field, content)?
        }
    };
    let mut message = wf_text::ChatMessage::new("tool", content);
    message.extra.insert("tool_call_id".into(), id.into());
    Ok(message)
}

fn error_detail(error: &ApiError) -> MessagesErrorDetail {
    let kind = match error.status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
        status if status.is_server_error() => "api_error",
        _ => "invalid_request_error",
    };
    MessagesErrorDetail { kind: kind.to_owned(), message: error.message.clone() }
}

fn error_body(error: &ApiError, request_id: String) -> Vec<u8> {
    let body = MessagesError { error: error_detail(error), request_id };
    serde_json::to_vec(&body).unwrap_or_default()
}
