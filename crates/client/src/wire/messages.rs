//! `POST /v1/messages`: Anthropic's API.

use serde::{Deserialize, Serialize};

use super::{ChatMessage, Content, Rest};

/// A conversation to continue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct MessagesRequest {
    /// Which model; the only one there is if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What was said so far, by `user` and `assistant`. A last message of the assistant is continued.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 4096, required = true))]
    pub messages: Vec<ChatMessage>,
    /// What the model is told first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<Content>,
    /// The most tokens to write.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, required = true, nullable = false))]
    pub max_tokens: Option<u32>,
    /// 0 takes the likeliest token each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0.0, maximum = 1.0))]
    pub temperature: Option<f32>,
    /// Choose among the likeliest tokens that together have this probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 1.0))]
    pub top_p: Option<f32>,
    /// Choose among this many of the likeliest tokens; 0 is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub top_k: Option<u32>,
    /// Texts that end the reply. They are not part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_sequences: Option<Vec<String>>,
    /// The same seed draws the same tokens. Anthropic's own API has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Send the reply while it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// The tools that may be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema",
        schema(value_type = Option<Vec<super::MessagesTool>>, max_items = 128))]
    pub tools: Option<Vec<Rest>>,
    /// `{"type": "auto" | "any" | "tool" | "none"}`, with the `name` of a tool and
    /// `disable_parallel_tool_use`; auto if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<super::MessagesToolChoice>))]
    pub tool_choice: Option<Rest>,
    /// Fields without a type.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(value_type = super::MessagesStructuredFields))]
    pub rest: Rest,
}

/// A conversation whose tokens are to be counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct CountTokensRequest {
    /// Which model; the only one there is if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What was said so far.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 4096, required = true))]
    pub messages: Vec<ChatMessage>,
    /// What the model is told first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<Content>,
    /// The tools that may be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema",
        schema(value_type = Option<Vec<super::MessagesTool>>, max_items = 128))]
    pub tools: Option<Vec<Rest>>,
    /// Whether tools are called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<super::MessagesToolChoice>))]
    pub tool_choice: Option<Rest>,
    /// Fields without a type.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(value_type = super::MessagesStructuredFields))]
    pub rest: Rest,
}

/// The tokens of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CountTokensResponse {
    /// How many there are, those of the template among them.
    pub input_tokens: u32,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Message {
    /// Its name.
    pub id: String,
    /// `message`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `assistant`.
    pub role: String,
    /// The model that wrote it.
    pub model: String,
    /// What was said: texts and calls of tools.
    pub content: Vec<ReplyBlock>,
    /// How it ended.
    #[serde(flatten)]
    pub end: MessageEnd,
    /// The tokens counted.
    pub usage: MessageUsage,
}

/// A part of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReplyBlock {
    /// A text.
    Text {
        /// The text.
        text: String,
    },
    /// A call of a tool.
    ToolUse {
        /// Its name, for the block with what it gave.
        id: String,
        /// The tool's name.
        name: String,
        /// Its arguments.
        #[cfg_attr(feature = "schema", schema(value_type = Object))]
        input: Rest,
    },
}

/// More of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BlockDelta {
    /// Of a text.
    TextDelta {
        /// The text.
        text: String,
    },
    /// Of the arguments of a call.
    InputJsonDelta {
        /// A piece of JSON.
        partial_json: String,
    },
}

/// How a reply ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MessageEnd {
    /// `end_turn`, `tool_use`, `max_tokens`, `stop_sequence`, or `pause_turn` when the time was up.
    pub stop_reason: Option<String>,
    /// The text that ended it, if one did.
    pub stop_sequence: Option<String>,
}

/// The tokens of a request. The prompt's are the sum of all but the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MessageUsage {
    /// Tokens of the prompt that were computed.
    pub input_tokens: u32,
    /// Always 0: keeping a prompt costs nothing extra.
    pub cache_creation_input_tokens: u32,
    /// Tokens of the prompt that an earlier one had begun with too.
    pub cache_read_input_tokens: u32,
    /// Tokens of the reply.
    pub output_tokens: u32,
}

/// A part of a reply, in a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessageEvent {
    /// The reply without its text.
    MessageStart {
        /// The reply.
        message: Message,
    },
    /// A part begins.
    ContentBlockStart {
        /// Its place.
        index: u32,
        /// An empty text, or a call without its arguments.
        content_block: ReplyBlock,
    },
    /// The connection is alive.
    Ping,
    /// More of a part.
    ContentBlockDelta {
        /// Its place.
        index: u32,
        /// What is new.
        delta: BlockDelta,
    },
    /// A part ends.
    ContentBlockStop {
        /// Its place.
        index: u32,
    },
    /// The reply ends.
    MessageDelta {
        /// How.
        delta: MessageEnd,
        /// The tokens counted.
        usage: MessageUsage,
    },
    /// Nothing comes after this.
    MessageStop,
    /// Something went wrong, and nothing comes after this.
    Error {
        /// What.
        error: MessagesErrorDetail,
    },
}

impl MessageEvent {
    /// What the event is called.
    pub fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::Ping => "ping",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
            Self::Error { .. } => "error",
        }
    }
}

/// The body of an answer that is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename = "error")]
pub struct MessagesError {
    /// The error.
    pub error: MessagesErrorDetail,
    /// The name of the request.
    pub request_id: String,
}

/// An error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MessagesErrorDetail {
    /// What kind of error: `invalid_request_error`, `authentication_error`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// What is wrong, and what is allowed.
    pub message: String,
}
