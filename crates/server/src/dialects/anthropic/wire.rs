//! Wire types of Anthropic's messages API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wf_api::wire::{ChatMessage, Content, FlatResponseFormat, JsonObject, Seed};

/// Request for a message.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub(in crate::dialects) struct MessagesRequest {
    /// Name of the model; the first model if absent.
    #[serde(rename = "model")]
    pub(super) _model: Option<String>,
    /// Conversation of `user` and `assistant`. A last message of the assistant is continued.
    #[schema(min_items = 1, max_items = 4096, required = true)]
    #[serde(default)]
    pub(super) messages: Vec<ChatMessage>,
    /// System prompt.
    pub(super) system: Option<Content>,
    /// Maximum number of tokens to generate.
    #[schema(minimum = 1, required = true, nullable = false)]
    pub(super) max_tokens: Option<u32>,
    /// Sampling temperature; 0 is greedy.
    #[schema(minimum = 0.0, maximum = 1.0)]
    pub(super) temperature: Option<f32>,
    /// Samples among the most likely tokens that together have this probability.
    #[schema(exclusive_minimum = 0.0, maximum = 1.0)]
    pub(super) top_p: Option<f32>,
    /// Samples among this many of the most likely tokens; 0 means all.
    #[schema(minimum = 0)]
    pub(super) top_k: Option<u32>,
    /// Strings that end the message, which does not include them.
    pub(super) stop_sequences: Option<Vec<String>>,
    /// Seed of the random numbers, which Anthropic's own API does not have.
    #[schema(value_type = Option<i64>)]
    pub(super) seed: Option<Seed>,
    /// Streams the message as it is generated.
    pub(super) stream: Option<bool>,
    /// Tools that the model may call.
    #[schema(value_type = Option<Vec<MessagesTool>>, max_items = 128)]
    pub(super) tools: Option<Vec<JsonObject>>,
    /// `{"type": "auto" | "any" | "tool" | "none"}`, with the `name` of a tool and
    /// `disable_parallel_tool_use`; `auto` by default.
    #[schema(value_type = Option<MessagesToolChoice>)]
    pub(super) tool_choice: Option<JsonObject>,
    /// Fields without a type of their own.
    #[serde(flatten)]
    #[schema(value_type = MessagesStructuredFields)]
    pub(super) extra: JsonObject,
}

/// Request to count the tokens of a conversation.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub(in crate::dialects) struct CountTokensRequest {
    /// Name of the model; the first model if absent.
    #[serde(rename = "model")]
    pub(super) _model: Option<String>,
    /// Conversation of `user` and `assistant`.
    #[schema(min_items = 1, max_items = 4096, required = true)]
    #[serde(default)]
    pub(super) messages: Vec<ChatMessage>,
    /// System prompt.
    pub(super) system: Option<Content>,
    /// Tools that the model may call.
    #[schema(value_type = Option<Vec<MessagesTool>>, max_items = 128)]
    pub(super) tools: Option<Vec<JsonObject>>,
    /// Choice of tool calls, which does not change the count.
    #[schema(value_type = Option<MessagesToolChoice>)]
    pub(super) tool_choice: Option<JsonObject>,
    /// Fields without a type of their own.
    #[serde(flatten)]
    #[schema(value_type = MessagesStructuredFields)]
    pub(super) extra: JsonObject,
}

/// Token count of a conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CountTokensResponse {
    /// Number of tokens, those of the chat template included.
    pub(super) input_tokens: u32,
}

/// A message of the assistant.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Message {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) role: String,
    pub(super) model: String,
    pub(super) content: Vec<ContentBlock>,
    #[serde(flatten)]
    pub(super) stop: MessageStopInfo,
    pub(super) usage: MessageUsage,
}

/// A block of a message.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentBlock {
    Thinking {
        thinking: String,
        /// Not checked when a client sends the block back.
        signature: String,
    },
    Text {
        text: String,
    },
    ToolUse {
        /// Id, which the block with the result refers to.
        id: String,
        name: String,
        #[schema(value_type = Object)]
        input: JsonObject,
    },
}

/// The end of a message.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct MessageStopInfo {
    /// `end_turn`, `tool_use`, `max_tokens`, `stop_sequence`, or `pause_turn` after the deadline.
    pub(super) stop_reason: Option<String>,
    /// Stop sequence that ended the message, if one did.
    pub(super) stop_sequence: Option<String>,
}

/// Token counts of a request. The prompt has the sum of all but the last.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub(super) struct MessageUsage {
    /// Prompt tokens computed.
    pub(super) input_tokens: u32,
    /// Always 0: caching has no extra cost.
    pub(super) cache_creation_input_tokens: u32,
    /// Prompt tokens found in the prefix cache.
    pub(super) cache_read_input_tokens: u32,
    pub(super) output_tokens: u32,
}

/// Body of an error response.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename = "error")]
pub(super) struct MessagesError {
    pub(super) error: MessagesErrorDetail,
    pub(super) request_id: String,
}

/// Details of an error.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct MessagesErrorDetail {
    /// Type of error: `invalid_request_error`, `authentication_error`, …
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// Description of the problem, and of the values allowed.
    pub(super) message: String,
}

/// A tool that the model may call.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct MessagesTool {
    /// Name of the tool.
    #[schema(min_length = 1, max_length = 128)]
    pub(super) name: String,
    /// Description for the model.
    pub(super) description: Option<String>,
    /// JSON schema of the arguments, which are an object.
    #[schema(value_type = Option<Object>)]
    pub(super) input_schema: Option<JsonObject>,
}

/// Choice of tool calls.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct MessagesToolChoice {
    /// `auto`, `any`, `tool` or `none`.
    #[serde(rename = "type")]
    #[schema(pattern = "^(auto|any|tool|none)$")]
    pub(super) kind: String,
    /// Name of the tool to call.
    pub(super) name: Option<String>,
    /// Allows at most one call in a message.
    pub(super) disable_parallel_tool_use: Option<bool>,
}

/// Constraint on the output.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[schema(as = MessagesStructured)]
pub(super) struct MessagesStructuredFields {
    /// Format and effort.
    pub(super) output_config: Option<OutputConfig>,
    /// Former place of the format.
    pub(super) output_format: Option<FlatResponseFormat>,
    /// `{"type": "enabled" | "adaptive" | "disabled", "budget_tokens"}`; disabled by default.
    #[schema(value_type = Option<Object>)]
    pub(super) thinking: Option<JsonObject>,
}

/// Configuration of the output.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct OutputConfig {
    /// Format of the output.
    pub(super) format: Option<FlatResponseFormat>,
    /// Ignored.
    pub(super) effort: Option<String>,
}
