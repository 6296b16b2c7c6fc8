//! `POST /api/chat`, `/api/generate` and `/api/embed`: Ollama's API.

use serde::{Deserialize, Serialize};

use super::{ChatMessage, OneOrMany, Rest};

/// A conversation to continue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct OllamaChatRequest {
    /// Which model; the only one there is if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The conversation so far. Without any, nothing is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_items = 4096))]
    pub messages: Option<Vec<ChatMessage>>,
    /// Send the reply while it is written; true if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// How to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<OllamaOptions>,
    /// The tools that may be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema",
        schema(value_type = Option<Vec<super::ToolDefinition>>, max_items = 128))]
    pub tools: Option<Vec<Rest>>,
    /// Fields without a type.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(value_type = super::OllamaStructuredFields))]
    pub rest: Rest,
}

/// A text to answer, or with `raw` to continue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct OllamaGenerateRequest {
    /// Which model; the only one there is if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The text. Without any, nothing is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// What the model is told first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Whether the text goes to the model as it is, without a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<bool>,
    /// Send the reply while it is written; true if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// How to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<OllamaOptions>,
    /// Fields without a type.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(value_type = super::OllamaStructuredFields))]
    pub rest: Rest,
}

/// Texts to turn into vectors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct OllamaEmbedRequest {
    /// Which model; the only one there is if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A text, or a list of texts. Without any, there are no vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<OneOrMany>,
    /// Cut off what the context cannot hold; true if absent. If false, such a text is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncate: Option<bool>,
    /// Keep only so many numbers of each vector, scaled to length 1 again; 0 is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<u32>,
    /// How to compute. Nothing of it changes a vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<OllamaOptions>,
    /// Fields without a type.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub rest: Rest,
}

/// The vectors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OllamaEmbedResponse {
    /// The model that made them.
    pub model: String,
    /// One for each text, of length 1.
    pub embeddings: Vec<Vec<f32>>,
    /// Nanoseconds from the request to the last vector.
    pub total_duration: u64,
    /// Always 0: the model is there.
    pub load_duration: u64,
    /// Tokens of the texts.
    pub prompt_eval_count: u32,
}

/// A text to turn into a vector, as it was asked before `/api/embed`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct OllamaEmbeddingsRequest {
    /// Which model; the only one there is if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The text. Without any, the vector is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// How to compute. Nothing of it changes a vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<OllamaOptions>,
    /// Fields without a type.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub rest: Rest,
}

/// The vector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OllamaEmbeddingsResponse {
    /// Its numbers, of length 1.
    pub embedding: Vec<f32>,
}

/// How tokens are chosen, and how many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct OllamaOptions {
    /// 0 takes the likeliest token each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0.0, maximum = 100.0))]
    pub temperature: Option<f32>,
    /// Choose among this many of the likeliest tokens; 0 and -1 are all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = -1))]
    pub top_k: Option<i64>,
    /// Choose among the likeliest tokens that together have this probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 1.0))]
    pub top_p: Option<f32>,
    /// Leave out tokens less likely than this share of the likeliest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0.0, maximum = 1.0))]
    pub min_p: Option<f32>,
    /// Divide the scores of tokens already seen by this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 10.0))]
    pub repeat_penalty: Option<f32>,
    /// Subtract this from the scores of tokens already written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = -2.0, maximum = 2.0))]
    pub presence_penalty: Option<f32>,
    /// Subtract this for each time a token was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = -2.0, maximum = 2.0))]
    pub frequency_penalty: Option<f32>,
    /// The same seed draws the same tokens; -1 draws one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// The most tokens to write; what fits the context if it is more, 0 or less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_predict: Option<i64>,
    /// Texts that end the reply. They are not part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<OneOrMany>,
    /// Fields without a type.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub rest: Rest,
}

/// A reply, or in a stream what is new of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OllamaReply {
    /// The model that wrote it.
    pub model: String,
    /// When, as of RFC 3339.
    pub created_at: String,
    /// What was said, in a chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<OllamaMessage>,
    /// What was said, where it is no chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// Whether this is the end.
    pub done: bool,
    /// Why it ended: `stop`, `length`, `deadline`, or `load` where there was nothing to write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_reason: Option<String>,
    /// What it took, at the end.
    #[serde(flatten)]
    pub cost: OllamaCost,
}

/// What the assistant said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OllamaMessage {
    /// `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
    /// The tools called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<OllamaCall>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OllamaCall {
    /// The function called.
    pub function: OllamaCalledFunction,
}

/// A function called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OllamaCalledFunction {
    /// Its name.
    pub name: String,
    /// Its arguments.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub arguments: Rest,
}

/// Tokens, and times in nanoseconds. All of them are there at the end, and none before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OllamaCost {
    /// From the request to the last token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_duration: Option<u64>,
    /// Always 0: the model is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_duration: Option<u64>,
    /// Tokens of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_eval_count: Option<u32>,
    /// From the start of computing to the first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_eval_duration: Option<u64>,
    /// Tokens of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_count: Option<u32>,
    /// From the first token to the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_duration: Option<u64>,
}

/// The body of an answer that is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OllamaError {
    /// What is wrong, and what is allowed.
    pub error: String,
}
