//! Wire types of OpenAI's responses API.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use wf_api::wire::{
    Content, FlatResponseFormat, FunctionDefinition, JsonObject, Seed, TokenLogprob, ToolChoiceMode,
};

/// Request for a response.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub(in crate::dialects) struct ResponsesRequest {
    /// Name of the model; the first model if absent.
    #[serde(rename = "model")]
    pub(super) _model: Option<String>,
    /// Conversation so far.
    #[schema(required = true, nullable = false)]
    pub(super) input: Option<ResponsesInput>,
    /// System prompt.
    pub(super) instructions: Option<String>,
    /// Maximum number of tokens to generate.
    #[schema(minimum = 1)]
    pub(super) max_output_tokens: Option<u32>,
    /// Sampling temperature; 0 is greedy.
    #[schema(minimum = 0.0, maximum = 100.0)]
    pub(super) temperature: Option<f32>,
    /// Samples among the most likely tokens that together have this probability.
    #[schema(exclusive_minimum = 0.0, maximum = 1.0)]
    pub(super) top_p: Option<f32>,
    /// Seed of the random numbers, which OpenAI's own endpoint does not have.
    #[schema(value_type = Option<i64>)]
    pub(super) seed: Option<Seed>,
    /// Streams the response as it is generated.
    pub(super) stream: Option<bool>,
    /// Tools that the model may call.
    #[schema(value_type = Option<Vec<ResponsesTool>>, max_items = 128)]
    pub(super) tools: Option<Vec<JsonObject>>,
    /// `none`, `auto` (default), `required`, or an object that names a tool.
    #[schema(value_type = Option<ResponsesToolChoice>)]
    pub(super) tool_choice: Option<Value>,
    /// Allows several calls in one response; `true` by default.
    pub(super) parallel_tool_calls: Option<bool>,
    /// Number of most likely tokens to return at each position, with the logprobs of all tokens.
    #[schema(minimum = 0, maximum = 20)]
    pub(super) top_logprobs: Option<u32>,
    /// Labels, which the response repeats.
    #[schema(value_type = Option<Object>)]
    pub(super) metadata: Option<JsonObject>,
    /// Fields without a type of their own.
    #[serde(flatten)]
    #[schema(value_type = ResponsesStructuredFields)]
    pub(super) extra: JsonObject,
}

/// Conversation so far.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a string or a list of messages")]
pub(super) enum ResponsesInput {
    /// One message of the user.
    Text(String),
    /// A list of messages, calls and results of calls.
    Items(Vec<InputItem>),
}

/// An item of a conversation.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub(super) struct InputItem {
    /// `message` (default), `reasoning`, `function_call` or `function_call_output`.
    #[serde(rename = "type")]
    #[schema(example = "message")]
    pub(super) kind: Option<String>,
    /// Author of a message.
    #[schema(example = "user")]
    #[serde(default)]
    pub(super) role: String,
    /// Text of a message, or parts of type `input_text` or `output_text`.
    pub(super) content: Option<Content>,
    /// Other fields: `id`, `status`, `call_id`, `name`, `arguments`, `output`, `summary`, `encrypted_content`.
    #[serde(flatten)]
    #[schema(ignore)]
    pub(super) extra: JsonObject,
}

/// A response. Fields of OpenAI's that have only one value here are present with it.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct ResponseObject {
    pub(super) id: String,
    pub(super) object: String,
    /// Creation time in seconds since 1970.
    pub(super) created_at: u64,
    /// `in_progress`, `completed`, `incomplete` or `failed`.
    pub(super) status: String,
    /// The error of a failed response.
    pub(super) error: Option<ResponseError>,
    /// The reason of an incomplete response.
    pub(super) incomplete_details: Option<IncompleteDetails>,
    /// System prompt of the request.
    pub(super) instructions: Option<String>,
    /// Limit of the request.
    pub(super) max_output_tokens: Option<u32>,
    pub(super) model: String,
    pub(super) output: Vec<OutputItem>,
    pub(super) parallel_tool_calls: bool,
    /// Always null: nothing is stored.
    pub(super) previous_response_id: Option<String>,
    /// Always false: nothing is stored.
    pub(super) store: bool,
    pub(super) temperature: f32,
    /// Format of the request.
    pub(super) text: ResponseText,
    #[schema(value_type = ResponsesToolChoice)]
    pub(super) tool_choice: Value,
    #[schema(value_type = Vec<Object>)]
    pub(super) tools: Vec<JsonObject>,
    pub(super) top_p: f32,
    /// `disabled`.
    pub(super) truncation: String,
    /// Token counts, at the end.
    pub(super) usage: Option<ResponseUsage>,
    #[schema(value_type = Object)]
    pub(super) metadata: JsonObject,
    /// Seed of the request, or the one drawn for it.
    #[schema(value_type = i64)]
    pub(super) seed: Seed,
    /// Equal requests with equal fingerprints get equal responses.
    pub(super) system_fingerprint: String,
}

/// Format of a response.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct ResponseText {
    /// An object whose `type` is `text`, `json_object` or `json_schema`.
    #[schema(value_type = Object)]
    pub(super) format: Value,
}

/// The error of a failed response.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ResponseError {
    pub(super) code: String,
    pub(super) message: String,
}

/// The reason of an incomplete response.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct IncompleteDetails {
    /// `max_output_tokens` or `deadline`.
    pub(super) reason: String,
}

/// An item of a response.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum OutputItem {
    Reasoning(ReasoningItem),
    Message(OutputMessage),
    FunctionCall(OutputCall),
}

/// Thinking before a message or a call.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct ReasoningItem {
    pub(super) id: String,
    /// Always empty: thinking is not summarized.
    #[schema(value_type = Vec<Object>)]
    pub(super) summary: Vec<JsonObject>,
    /// One text, or nothing yet.
    pub(super) content: Vec<ReasoningText>,
    /// The text in base64, if the request includes `reasoning.encrypted_content`.
    pub(super) encrypted_content: Option<String>,
    /// `in_progress`, `completed` or `incomplete`.
    pub(super) status: String,
}

/// Text of the thinking.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(tag = "type", rename = "reasoning_text")]
pub(super) struct ReasoningText {
    pub(super) text: String,
}

/// A tool call.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct OutputCall {
    pub(super) id: String,
    /// Id of the call, which the item with the result refers to.
    pub(super) call_id: String,
    pub(super) name: String,
    /// Arguments: a JSON object in a string.
    pub(super) arguments: String,
    /// `in_progress`, `completed` or `incomplete`.
    pub(super) status: String,
}

/// A message of the assistant.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct OutputMessage {
    pub(super) id: String,
    /// `in_progress`, `completed` or `incomplete`.
    pub(super) status: String,
    pub(super) role: String,
    /// One text, or nothing yet.
    pub(super) content: Vec<OutputText>,
}

/// Text of a message.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(tag = "type", rename = "output_text")]
pub(super) struct OutputText {
    pub(super) text: String,
    /// Always empty.
    #[schema(value_type = Vec<Object>)]
    pub(super) annotations: Vec<JsonObject>,
    /// Logprobs of its tokens, if they are requested.
    pub(super) logprobs: Vec<TokenLogprob>,
}

/// Token counts of a request.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub(super) struct ResponseUsage {
    pub(super) input_tokens: u32,
    /// Details of the prompt tokens.
    pub(super) input_tokens_details: InputTokensDetails,
    pub(super) output_tokens: u32,
    /// Details of the generated tokens.
    pub(super) output_tokens_details: OutputTokensDetails,
    pub(super) total_tokens: u32,
}

/// Details of prompt tokens.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub(super) struct InputTokensDetails {
    /// Tokens found in the prefix cache, which were not computed again.
    pub(super) cached_tokens: u32,
    /// Tokens that were computed. The types of OpenAI's clients require it here.
    pub(super) cache_write_tokens: u32,
}

/// Details of generated tokens.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub(super) struct OutputTokensDetails {
    /// Tokens of thinking, with its tags.
    pub(super) reasoning_tokens: u32,
}

/// Choice of tool calls.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[serde(untagged)]
pub(super) enum ResponsesToolChoice {
    /// A mode.
    Mode(ToolChoiceMode),
    /// The tool to call.
    Named {
        /// `function`.
        #[serde(rename = "type")]
        #[schema(pattern = "^function$")]
        kind: String,
        /// Name of the function.
        name: String,
    },
}

/// A tool that the model may call.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ResponsesTool {
    /// `function`.
    #[serde(rename = "type")]
    #[schema(pattern = "^function$")]
    pub(super) kind: String,
    /// Definition of the function.
    #[serde(flatten)]
    pub(super) function: FunctionDefinition,
}

/// Constraint on the output.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[schema(as = ResponsesStructured)]
pub(super) struct ResponsesStructuredFields {
    /// Format and verbosity.
    pub(super) text: Option<TextConfig>,
    /// `{"effort"}`, and `summary`, which is never written.
    #[schema(value_type = Option<Object>)]
    pub(super) reasoning: Option<JsonObject>,
    /// `reasoning.encrypted_content`, `message.output_text.logprobs`, both or nothing.
    pub(super) include: Option<Vec<String>>,
}

/// Configuration of the output.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct TextConfig {
    /// Format of the output.
    pub(super) format: Option<FlatResponseFormat>,
    /// Ignored.
    pub(super) verbosity: Option<String>,
}
