//! `POST /v1/responses`: OpenAI's newer API.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Content, PromptTokensDetails, Rest};

/// What to answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ResponsesRequest {
    /// Which model; the only one there is if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What was said so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(required = true, nullable = false))]
    pub input: Option<ResponsesInput>,
    /// What the model is told before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The most tokens to write.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub max_output_tokens: Option<u32>,
    /// 0 takes the likeliest token each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0.0, maximum = 100.0))]
    pub temperature: Option<f32>,
    /// Choose among the likeliest tokens that together have this probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 1.0))]
    pub top_p: Option<f32>,
    /// The same seed draws the same tokens. OpenAI's own API has none here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Send the answer while it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// The tools that may be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema",
        schema(value_type = Option<Vec<super::ResponsesTool>>, max_items = 128))]
    pub tools: Option<Vec<Rest>>,
    /// `none`, `auto` (if absent), `required`, or an object that names a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<super::ResponsesToolChoice>))]
    pub tool_choice: Option<Value>,
    /// Whether there may be several calls in an answer; true if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Labels, told again in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub metadata: Option<Rest>,
    /// Fields without a type.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(value_type = super::ResponsesStructuredFields))]
    pub rest: Rest,
}

/// What was said so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "expected a string or a list of messages")]
pub enum ResponsesInput {
    /// By the user, in one text.
    Text(String),
    /// In turns.
    Items(Vec<InputItem>),
}

/// One turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct InputItem {
    /// `message`, which it is if absent; `function_call` or `function_call_output`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(example = "message"))]
    pub kind: Option<String>,
    /// Who speaks.
    #[cfg_attr(feature = "schema", schema(example = "user"))]
    pub role: String,
    /// What was said: a text, or parts of type `input_text` or `output_text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// What items that were answers have, and calls and what they gave: `id`, `status`, `call_id`, `name`,
    /// `arguments`, `output`.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub rest: Rest,
}

/// An answer. Fields of OpenAI's that have one value here are there with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResponseObject {
    /// Its name.
    pub id: String,
    /// `response`.
    pub object: String,
    /// When it was begun, in seconds since 1970.
    pub created_at: u64,
    /// `in_progress`, `completed`, `incomplete` or `failed`.
    pub status: String,
    /// What went wrong.
    pub error: Option<ResponseFault>,
    /// Why it is not complete.
    pub incomplete_details: Option<IncompleteDetails>,
    /// As asked.
    pub instructions: Option<String>,
    /// As asked.
    pub max_output_tokens: Option<u32>,
    /// The model that wrote it.
    pub model: String,
    /// What was said: messages and calls of tools.
    pub output: Vec<OutputItem>,
    /// As asked.
    pub parallel_tool_calls: bool,
    /// Always null: nothing is kept.
    pub previous_response_id: Option<String>,
    /// Always false: nothing is kept.
    pub store: bool,
    /// In use.
    pub temperature: f32,
    /// What form the answer has, as asked.
    #[serde(default)]
    pub text: ResponseText,
    /// As asked.
    #[cfg_attr(feature = "schema", schema(value_type = super::ResponsesToolChoice))]
    pub tool_choice: Value,
    /// As asked.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub tools: Vec<Rest>,
    /// In use.
    pub top_p: f32,
    /// `disabled`.
    pub truncation: String,
    /// The tokens counted, at the end.
    pub usage: Option<ResponseUsage>,
    /// As asked.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub metadata: Rest,
    /// The seed given or drawn.
    pub seed: i64,
    /// Equal fingerprints, equal requests: equal answers.
    pub system_fingerprint: String,
}

/// What form an answer has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResponseText {
    /// An object whose `type` is `text`, `json_object` or `json_schema`.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub format: Value,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResponseFault {
    /// A word for programs.
    pub code: String,
    /// What is wrong.
    pub message: String,
}

/// Why an answer is not complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct IncompleteDetails {
    /// `max_output_tokens`, or `deadline` when the time was up.
    pub reason: String,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputItem {
    /// What the assistant said.
    Message(OutputMessage),
    /// A call of a tool.
    FunctionCall(OutputCall),
}

/// A call of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OutputCall {
    /// The name of the item.
    pub id: String,
    /// The name of the call, for the item with what it gave.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// Its arguments: a JSON object, in a text.
    pub arguments: String,
    /// `in_progress`, `completed` or `incomplete`.
    pub status: String,
}

/// What the assistant said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OutputMessage {
    /// Its name.
    pub id: String,
    /// `in_progress`, `completed` or `incomplete`.
    pub status: String,
    /// `assistant`.
    pub role: String,
    /// One text, or nothing yet.
    pub content: Vec<OutputText>,
}

/// A text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename = "output_text")]
pub struct OutputText {
    /// The text.
    pub text: String,
    /// Always empty.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub annotations: Vec<Rest>,
    /// Always empty.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub logprobs: Vec<Rest>,
}

/// The tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResponseUsage {
    /// Tokens of the prompt.
    pub input_tokens: u32,
    /// More on them.
    pub input_tokens_details: PromptTokensDetails,
    /// Tokens of the answer.
    pub output_tokens: u32,
    /// More on them.
    pub output_tokens_details: OutputTokensDetails,
    /// Both.
    pub total_tokens: u32,
}

/// More on the tokens of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OutputTokensDetails {
    /// Always 0: all of an answer is shown.
    pub reasoning_tokens: u32,
}

/// A part of an answer, in a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResponseEvent {
    /// `response.created`, `response.output_text.delta`, `response.completed`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Its place among the events.
    pub sequence_number: u64,
    /// What is new.
    #[serde(flatten)]
    pub news: ResponseNews,
}

/// What is new of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum ResponseNews {
    /// All of it.
    Response {
        /// The answer.
        response: Box<ResponseObject>,
    },
    /// A message or a call begins or ends.
    Item {
        /// Its place.
        output_index: u32,
        /// The message or the call.
        item: OutputItem,
    },
    /// A text begins or ends.
    Part {
        /// Where it is.
        #[serde(flatten)]
        place: TextPlace,
        /// The text.
        part: OutputText,
    },
    /// More of a text.
    Delta {
        /// Where it is.
        #[serde(flatten)]
        place: TextPlace,
        /// The text.
        delta: String,
        /// Always empty.
        #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
        logprobs: Vec<Rest>,
    },
    /// All of a text.
    Text {
        /// Where it is.
        #[serde(flatten)]
        place: TextPlace,
        /// The text.
        text: String,
        /// Always empty.
        #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
        logprobs: Vec<Rest>,
    },
    /// More of the arguments of a call.
    ArgumentsDelta {
        /// The name of the item.
        item_id: String,
        /// Its place.
        output_index: u32,
        /// A piece of JSON.
        delta: String,
    },
    /// All arguments of a call.
    Arguments {
        /// The name of the item.
        item_id: String,
        /// Its place.
        output_index: u32,
        /// The tool's name.
        name: String,
        /// The arguments.
        arguments: String,
    },
    /// Something went wrong.
    Error {
        /// A word for programs.
        code: String,
        /// What is wrong.
        message: String,
        /// The field at fault, if one is.
        param: Option<String>,
    },
}

/// Where a text is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TextPlace {
    /// The name of its message.
    pub item_id: String,
    /// The place of that.
    pub output_index: u32,
    /// Its place in that.
    pub content_index: u32,
}
