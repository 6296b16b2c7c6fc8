//! Tools, and calls of them.

use serde::{Deserialize, Serialize};
#[cfg(feature = "schema")]
use serde_json::{Map, Value};

/// A tool that the model may call.
#[cfg(feature = "schema")]
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolDefinition {
    /// `function`.
    #[serde(rename = "type")]
    #[schema(pattern = "^function$")]
    pub kind: String,
    /// The function.
    pub function: FunctionDefinition,
}

/// A function that the model may call.
#[cfg(feature = "schema")]
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FunctionDefinition {
    /// Its name.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The JSON schema of its arguments, which are an object.
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<Map<String, Value>>,
    /// Whether calls follow the schema also where the model may choose to call.
    pub strict: Option<bool>,
}

/// Whether tools are called.
#[cfg(feature = "schema")]
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum ToolChoice {
    /// In a word.
    Word(ToolChoiceWord),
    /// The tool to be called.
    Named {
        /// `function`.
        #[serde(rename = "type")]
        #[schema(pattern = "^function$")]
        kind: String,
        /// The function.
        function: FunctionName,
    },
}

/// Whether tools are called, in a word.
#[cfg(feature = "schema")]
#[derive(Clone, Copy, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoiceWord {
    /// Never.
    None,
    /// As the model likes.
    Auto,
    /// At least one.
    Required,
}

/// Which function.
#[cfg(feature = "schema")]
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FunctionName {
    /// Its name.
    pub name: String,
}

/// Whether tools are called, in the words of `/v1/responses`.
#[cfg(feature = "schema")]
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum ResponsesToolChoice {
    /// In a word.
    Word(ToolChoiceWord),
    /// The tool to be called.
    Named {
        /// `function`.
        #[serde(rename = "type")]
        #[schema(pattern = "^function$")]
        kind: String,
        /// The function's name.
        name: String,
    },
}

/// A tool that the model may call, in Anthropic's words.
#[cfg(feature = "schema")]
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessagesTool {
    /// Its name.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The JSON schema of its arguments, which are an object.
    #[schema(value_type = Option<Object>)]
    pub input_schema: Option<Map<String, Value>>,
}

/// Whether tools are called, in Anthropic's words.
#[cfg(feature = "schema")]
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessagesToolChoice {
    /// `auto`, `any`, `tool` or `none`.
    #[serde(rename = "type")]
    #[schema(pattern = "^(auto|any|tool|none)$")]
    pub kind: String,
    /// The tool's name.
    pub name: Option<String>,
    /// Whether there is at most one call in a reply.
    pub disable_parallel_tool_use: Option<bool>,
}

/// A tool that the model may call, in the words of `/v1/responses`.
#[cfg(feature = "schema")]
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ResponsesTool {
    /// `function`.
    #[serde(rename = "type")]
    #[schema(pattern = "^function$")]
    pub kind: String,
    /// The function.
    #[serde(flatten)]
    pub function: FunctionDefinition,
}

/// A call of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ToolCall {
    /// Its name, for the message with what it gave.
    pub id: String,
    /// `function`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The function called.
    pub function: CalledFunction,
}

/// A function called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CalledFunction {
    /// Its name.
    pub name: String,
    /// Its arguments: a JSON object, in a text.
    pub arguments: String,
}

/// What is new of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ToolCallDelta {
    /// Its place among the calls.
    pub index: u32,
    /// Its name, in its first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `function`, in its first event.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The function called.
    pub function: FunctionDelta,
}

/// What is new of a function called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FunctionDelta {
    /// Its name, in its first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// More of its arguments.
    pub arguments: String,
}
