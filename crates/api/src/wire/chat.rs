//! `POST /v1/chat/completions`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use wf_core::SamplingOverrides;

use super::{
    CalledFunction, FunctionDelta, JsonObject, Progress, Sampling, Seed, Timings, TokenId,
    ToolCall, ToolCallDelta, Usage,
};

/// Request for a chat completion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatRequest {
    /// Name of the model; the first model if absent.
    pub model: Option<String>,
    /// The conversation so far.
    #[schema(min_items = 1, max_items = 4096, required = true)]
    #[serde(default)]
    pub messages: Vec<ChatMessage>,
    /// Sampling parameters.
    #[serde(flatten)]
    pub params: SamplingOverrides,
    /// Limits, streaming and decoding.
    #[serde(flatten)]
    pub sampling: Sampling,
    /// Newer name of `max_tokens`.
    #[schema(minimum = 1)]
    pub max_completion_tokens: Option<u32>,
    /// Returns the logprob of each token.
    pub logprobs: Option<bool>,
    /// Number of most likely tokens to return at each position. Needs `logprobs`.
    #[schema(minimum = 0, maximum = 20)]
    pub top_logprobs: Option<u32>,
    /// Ends the prompt where the assistant's message begins; `true` by default.
    pub add_generation_prompt: Option<bool>,
    /// Continues the last message instead of answering it.
    pub continue_final_message: Option<bool>,
    /// Additional variables for the chat template.
    #[schema(value_type = Option<Object>)]
    pub chat_template_kwargs: Option<JsonObject>,
    /// Tools that the model may call.
    #[schema(value_type = Option<Vec<super::ToolDefinition>>, max_items = 128)]
    pub tools: Option<Vec<JsonObject>>,
    /// `none`, `auto` (default), `required`, or an object that names a tool.
    #[schema(value_type = Option<super::ToolChoice>)]
    pub tool_choice: Option<Value>,
    /// Allows several calls in one message; `true` by default.
    pub parallel_tool_calls: Option<bool>,
    /// Fields without a type of their own.
    #[serde(flatten)]
    #[schema(value_type = super::ChatFields)]
    pub extra: JsonObject,
}

/// A message of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatMessage {
    /// Author of the message.
    #[schema(example = "user")]
    pub role: String,
    /// Text of the message.
    #[serde(default)]
    pub content: Option<Content>,
    /// Other fields, which the chat template can read.
    #[serde(flatten)]
    #[schema(ignore)]
    pub extra: JsonObject,
}

impl ChatMessage {
    /// Creates a message with text only.
    pub fn new(role: &str, content: &str) -> Self {
        let content = Some(Content::Text(content.to_owned()));
        Self { role: role.to_owned(), content, extra: JsonObject::new() }
    }
}

/// Text, as a string or in parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a string or a list of parts with a type")]
pub enum Content {
    /// A string.
    Text(String),
    /// A list of parts.
    Parts(Vec<ContentPart>),
}

/// A part of a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentPart {
    /// Type of the part; `text` is supported.
    #[serde(rename = "type")]
    #[schema(example = "text")]
    pub kind: String,
    /// Text of the part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Fields of other types of parts.
    #[serde(flatten)]
    #[schema(ignore)]
    pub extra: JsonObject,
}

/// A chat completion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatCompletion {
    /// Id of the completion.
    pub id: String,
    /// `chat.completion`.
    pub object: String,
    /// Creation time in seconds since 1970.
    pub created: u64,
    /// Name of the model.
    pub model: String,
    /// The completions.
    pub choices: Vec<ChatChoice>,
    /// Token counts.
    pub usage: Usage,
    /// Equal requests with equal fingerprints get equal completions.
    pub system_fingerprint: String,
    /// Seed of the request, or the one drawn for it.
    #[schema(value_type = i64)]
    pub seed: Seed,
    /// Time spent, of the choice that took longest.
    pub timings: Timings,
    /// Token ids of the prompt, with `return_token_ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<TokenId>>,
}

/// One completion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatChoice {
    /// Index among the completions.
    pub index: u32,
    /// The message.
    pub message: AssistantMessage,
    /// Logprobs of its tokens, with `logprobs`.
    pub logprobs: Option<ChatLogprobs>,
    /// Finish reason: `stop`, `tool_calls`, `length` or `deadline`.
    pub finish_reason: Option<String>,
    /// Its token ids, with `return_token_ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
}

/// A message of the assistant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AssistantMessage {
    /// `assistant`.
    pub role: String,
    /// Text; null if there are only tool calls.
    pub content: Option<String>,
    /// Thinking before the text, of models that think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// The same under its other name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// The call, if the request has `functions` instead of `tools`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_call: Option<CalledFunction>,
    /// Always null.
    pub refusal: Option<String>,
}

/// Logprobs of a completion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatLogprobs {
    /// One entry per token of the text. Thinking has none.
    pub content: Vec<TokenLogprob>,
    /// Always null.
    pub refusal: Option<Vec<TokenLogprob>>,
}

/// Logprob of a token, and of the most likely tokens at its position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TokenLogprob {
    /// Text of the token; see [`TopLogprob::token`].
    pub token: String,
    /// Natural logarithm of its probability.
    pub logprob: f32,
    /// Bytes of the token.
    pub bytes: Option<Vec<u8>>,
    /// Most likely tokens at this position.
    pub top_logprobs: Vec<TopLogprob>,
}

/// Logprob of a token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopLogprob {
    /// Text of the token, or `bytes:` and its bytes as `\xNN` if they are not UTF-8.
    pub token: String,
    /// Natural logarithm of its probability.
    pub logprob: f32,
    /// Bytes of the token.
    pub bytes: Option<Vec<u8>>,
}

/// A chunk of a streamed chat completion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatChunk {
    /// Id of the completion.
    pub id: String,
    /// `chat.completion.chunk`.
    pub object: String,
    /// Creation time in seconds since 1970.
    pub created: u64,
    /// Name of the model.
    pub model: String,
    /// Equal requests with equal fingerprints get equal completions.
    pub system_fingerprint: String,
    /// New parts of the completions.
    pub choices: Vec<ChatChunkChoice>,
    /// Token counts, with `stream_options.include_usage`; null except in the last chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<Usage>>,
    /// Seed, in the first chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub seed: Option<Seed>,
    /// Token ids of the prompt, in the first chunk, with `return_token_ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<TokenId>>,
    /// Prefill progress, with `return_progress`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_progress: Option<Progress>,
    /// State of the block being denoised, with `diffusion.preview`: text of each token, null for a mask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_preview: Option<Vec<Option<String>>>,
    /// Time spent, in the last chunk of each completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
}

/// New part of one completion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatChunkChoice {
    /// Index among the completions.
    pub index: u32,
    /// New part of the message.
    pub delta: Delta,
    /// Logprobs of its tokens, with `logprobs`.
    pub logprobs: Option<ChatLogprobs>,
    /// Finish reason, in the last chunk.
    pub finish_reason: Option<String>,
    /// Its token ids, with `return_token_ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
}

/// New part of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Delta {
    /// `assistant`, in the first chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// New text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// New text of the thinking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// The same under its other name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// New parts of tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCallDelta>>,
    /// New part of the call, if the request has `functions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_call: Option<FunctionDelta>,
}
