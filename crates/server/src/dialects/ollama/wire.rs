//! Wire types of Ollama's API.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use wf_api::wire::{ChatMessage, JsonObject, OneOrMany, Seed, TokenLogprob, ToolDefinition};
use wf_core::SamplingOverrides;

/// Request for a chat message.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub(in crate::dialects) struct OllamaChatRequest {
    /// Name of the model; the first model if absent.
    #[serde(rename = "model")]
    pub(super) _model: Option<String>,
    /// Messages of the conversation. Without any, nothing is generated.
    #[schema(max_items = 4096)]
    pub(super) messages: Option<Vec<ChatMessage>>,
    /// Streams the response as it is generated; `true` by default.
    pub(super) stream: Option<bool>,
    /// Sampling and limits.
    pub(super) options: Option<OllamaOptions>,
    /// Tools that the model may call.
    #[schema(value_type = Option<Vec<ToolDefinition>>, max_items = 128)]
    pub(super) tools: Option<Vec<JsonObject>>,
    /// Fields without a type of their own.
    #[serde(flatten)]
    #[schema(value_type = OllamaStructuredFields)]
    pub(super) extra: JsonObject,
}

/// Request to answer a text, or with `raw` to continue it.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub(in crate::dialects) struct OllamaGenerateRequest {
    /// Name of the model; the first model if absent.
    #[serde(rename = "model")]
    pub(super) _model: Option<String>,
    /// The prompt. Without one, nothing is generated.
    pub(super) prompt: Option<String>,
    /// System prompt.
    pub(super) system: Option<String>,
    /// Passes the prompt to the model without the chat template.
    pub(super) raw: Option<bool>,
    /// Streams the response as it is generated; `true` by default.
    pub(super) stream: Option<bool>,
    /// Sampling and limits.
    pub(super) options: Option<OllamaOptions>,
    /// Fields without a type of their own.
    #[serde(flatten)]
    #[schema(value_type = OllamaStructuredFields)]
    pub(super) extra: JsonObject,
}

/// Request for embeddings.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub(in crate::dialects) struct OllamaEmbedRequest {
    /// Name of the model; the first model if absent.
    #[serde(rename = "model")]
    pub(super) _model: Option<String>,
    /// A text or a list of texts. Without any, there are no vectors.
    pub(super) input: Option<OneOrMany>,
    /// Truncates texts that exceed the context; `true` by default. Otherwise they are rejected.
    pub(super) truncate: Option<bool>,
    /// Number of leading dimensions to keep; the vector is scaled to length 1 again. 0 keeps all.
    pub(super) dimensions: Option<u32>,
    /// Accepted; no option changes a vector.
    pub(super) options: Option<OllamaOptions>,
    /// Fields without a type of their own.
    #[serde(flatten)]
    #[schema(ignore)]
    pub(super) extra: JsonObject,
}

/// Embeddings of texts.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct OllamaEmbedResponse {
    pub(super) model: String,
    /// One vector of length 1 per text.
    pub(super) embeddings: Vec<Vec<f32>>,
    /// Nanoseconds from the request to the last vector.
    pub(super) total_duration: u64,
    /// Always 0: the model is loaded.
    pub(super) load_duration: u64,
    /// Number of tokens of all texts.
    pub(super) prompt_eval_count: u32,
}

/// Request for one embedding, in the format before `/api/embed`.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub(in crate::dialects) struct OllamaEmbeddingsRequest {
    /// Name of the model; the first model if absent.
    #[serde(rename = "model")]
    pub(super) _model: Option<String>,
    /// The text. Without one, the vector is empty.
    pub(super) prompt: Option<String>,
    /// Accepted; no option changes a vector.
    pub(super) options: Option<OllamaOptions>,
    /// Fields without a type of their own.
    #[serde(flatten)]
    #[schema(ignore)]
    pub(super) extra: JsonObject,
}

/// Embedding of a text.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct OllamaEmbeddingsResponse {
    /// Vector of length 1.
    pub(super) embedding: Vec<f32>,
}

/// Sampling and limits.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub(super) struct OllamaOptions {
    /// Sampling parameters.
    #[serde(flatten)]
    pub(super) params: SamplingOverrides,
    /// Seed of the random numbers; -1 draws one.
    #[schema(value_type = Option<i64>)]
    pub(super) seed: Option<Seed>,
    /// Maximum number of tokens to generate. Values over the room in the context, 0 and negative values mean as
    /// many as fit.
    pub(super) num_predict: Option<i64>,
    /// Strings that end the response, which does not include them.
    pub(super) stop: Option<OneOrMany>,
    /// Fields without a type of their own.
    #[serde(flatten)]
    #[schema(ignore)]
    pub(super) extra: JsonObject,
}

/// A response, or its new part in a stream.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct OllamaResponse {
    pub(super) model: String,
    /// Creation time by RFC 3339.
    pub(super) created_at: String,
    /// The message, in `/api/chat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<OllamaMessage>,
    /// Thinking before the text, in `/api/generate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking: Option<String>,
    /// The text, in `/api/generate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response: Option<String>,
    /// Logprobs of the tokens of the text, with `logprobs`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) logprobs: Vec<TokenLogprob>,
    /// True in the last part.
    pub(super) done: bool,
    /// Finish reason: `stop`, `length`, `deadline`, or `load` for a request without a prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) done_reason: Option<String>,
    /// Token counts and durations, in the last part.
    #[serde(flatten)]
    pub(super) metrics: OllamaMetrics,
}

/// A message of the assistant.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct OllamaMessage {
    pub(super) role: String,
    pub(super) content: String,
    /// Thinking before the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<OllamaCall>,
}

/// A tool call.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct OllamaCall {
    pub(super) function: OllamaCalledFunction,
}

/// A called function.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct OllamaCalledFunction {
    pub(super) name: String,
    #[schema(value_type = Object)]
    pub(super) arguments: JsonObject,
}

/// Token counts, and durations in nanoseconds. All fields are set in the last part, and none before.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub(super) struct OllamaMetrics {
    /// Time from the request to the last token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total_duration: Option<u64>,
    /// Always 0: the model is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) load_duration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_eval_count: Option<u32>,
    /// Time of prefill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_eval_duration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) eval_count: Option<u32>,
    /// Time from the first token to the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) eval_duration: Option<u64>,
}

/// Body of an error response.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct OllamaError {
    /// Description of the problem, and of the values allowed.
    pub(super) error: String,
}

/// Constraint on the output.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[schema(as = OllamaStructured)]
pub(super) struct OllamaStructuredFields {
    /// Format of the output.
    pub(super) format: Option<OllamaFormat>,
    /// Thinking before the text: `true`, `false`, or an effort such as `low`.
    #[schema(value_type = Option<Object>)]
    pub(super) think: Option<Value>,
    /// Returns the logprob of each token of the text.
    pub(super) logprobs: Option<bool>,
    /// Number of most likely tokens to return at each position. Needs `logprobs`.
    #[schema(minimum = 0, maximum = 20)]
    pub(super) top_logprobs: Option<u32>,
}

/// Format of the output.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[serde(untagged)]
pub(super) enum OllamaFormat {
    /// `json` for a JSON object; empty for unconstrained text.
    Name(String),
    /// JSON schema that the output follows.
    #[schema(value_type = Object)]
    Schema(Value),
}
