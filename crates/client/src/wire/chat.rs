//! `POST /v1/chat/completions`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Progress, Rest, Sampling, Timings, TokenId, ToolCall, ToolCallDelta, Usage};

/// A conversation to continue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ChatRequest {
    /// Which model; the only one there is if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The conversation so far.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 4096, required = true))]
    pub messages: Vec<ChatMessage>,
    /// How to go on.
    #[serde(flatten)]
    pub sampling: Sampling,
    /// The newer name of `max_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub max_completion_tokens: Option<u32>,
    /// Tell how likely each token was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<bool>,
    /// And how likely this many of the likeliest were in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 20))]
    pub top_logprobs: Option<u32>,
    /// End the prompt where the assistant's answer begins; true if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add_generation_prompt: Option<bool>,
    /// Go on with the last message instead of answering it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_final_message: Option<bool>,
    /// Further variables of the chat template.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub chat_template_kwargs: Option<Rest>,
    /// The tools that may be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema",
        schema(value_type = Option<Vec<super::ToolDefinition>>, max_items = 128))]
    pub tools: Option<Vec<Rest>>,
    /// `none`, `auto` (if absent), `required`, or an object that names a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<super::ToolChoice>))]
    pub tool_choice: Option<Value>,
    /// Whether there may be several calls in a reply; true if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Fields without a type.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(value_type = super::StructuredFields))]
    pub rest: Rest,
}

/// One turn of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChatMessage {
    /// Who speaks.
    #[cfg_attr(feature = "schema", schema(example = "user"))]
    pub role: String,
    /// What was said.
    #[serde(default)]
    pub content: Option<Content>,
    /// Whatever else the template may look at.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub rest: Rest,
}

impl ChatMessage {
    /// A turn of nothing but text.
    pub fn new(role: &str, content: &str) -> Self {
        let content = Some(Content::Text(content.to_owned()));
        Self { role: role.to_owned(), content, rest: Rest::new() }
    }
}

/// A text, whole or in parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "expected a string or a list of parts with a type")]
pub enum Content {
    /// Whole.
    Text(String),
    /// In parts.
    Parts(Vec<ContentPart>),
}

/// A part of a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ContentPart {
    /// `text` is the one kind of part understood.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schema(example = "text"))]
    pub kind: String,
    /// The text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What parts of other kinds have.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub rest: Rest,
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChatCompletion {
    /// Its name.
    pub id: String,
    /// `chat.completion`.
    pub object: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// The model that wrote it.
    pub model: String,
    /// The replies.
    pub choices: Vec<ChatChoice>,
    /// The tokens counted.
    pub usage: Usage,
    /// Equal fingerprints, equal requests: equal answers.
    pub system_fingerprint: String,
    /// The seed given or drawn.
    pub seed: i64,
    /// Where the time went.
    pub timings: Timings,
    /// The prompt's tokens, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<TokenId>>,
}

/// One reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChatChoice {
    /// Its place among the replies.
    pub index: u32,
    /// What was said.
    pub message: ReplyMessage,
    /// How likely its tokens were, if asked for.
    pub logprobs: Option<ChatLogprobs>,
    /// Why it ended: `stop`, `tool_calls`, `length` or `deadline`.
    pub finish_reason: Option<String>,
    /// Its tokens, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
}

/// What the assistant said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReplyMessage {
    /// `assistant`.
    pub role: String,
    /// The text; null where there are calls alone.
    pub content: Option<String>,
    /// The tools called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// Always null: models of this kind do not refuse apart from their text.
    pub refusal: Option<String>,
}

/// How likely the tokens of a reply were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChatLogprobs {
    /// Token by token.
    pub content: Vec<TokenLogprob>,
    /// Always null.
    pub refusal: Option<Vec<TokenLogprob>>,
}

/// How likely a token was, and others in its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TokenLogprob {
    /// Its text; see [`TopLogprob::token`].
    pub token: String,
    /// The natural logarithm of its probability.
    pub logprob: f32,
    /// Its bytes.
    pub bytes: Option<Vec<u8>>,
    /// The likeliest in its place.
    pub top_logprobs: Vec<TopLogprob>,
}

/// How likely a token was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TopLogprob {
    /// Its text, or `bytes:` and its bytes as `\xNN` where they are no text by themselves.
    pub token: String,
    /// The natural logarithm of its probability.
    pub logprob: f32,
    /// Its bytes.
    pub bytes: Option<Vec<u8>>,
}

/// A part of an answer, in a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChatChunk {
    /// The name of the answer.
    pub id: String,
    /// `chat.completion.chunk`.
    pub object: String,
    /// When the answer was begun, in seconds since 1970.
    pub created: u64,
    /// The model that writes it.
    pub model: String,
    /// Equal fingerprints, equal requests: equal answers.
    pub system_fingerprint: String,
    /// What is new of the replies.
    pub choices: Vec<ChatChunkChoice>,
    /// The tokens counted; null but in the last event, absent unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<Usage>>,
    /// The seed given or drawn, in the first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// The prompt's tokens, in the first event, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<TokenId>>,
    /// How far the prompt has been read, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_progress: Option<Progress>,
    /// How the block being filled stands, if asked for: the text of each token, null for a mask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_preview: Option<Vec<Option<String>>>,
    /// Where the time went, with the end of each reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
}

/// What is new of one reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChatChunkChoice {
    /// Its place among the replies.
    pub index: u32,
    /// What was said.
    pub delta: Delta,
    /// How likely its tokens were, if asked for.
    pub logprobs: Option<ChatLogprobs>,
    /// Why it ended, with its last event.
    pub finish_reason: Option<String>,
    /// Its tokens, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
}

/// What is new of what the assistant says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Delta {
    /// `assistant`, in the first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// More text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// More of the tools called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCallDelta>>,
}
