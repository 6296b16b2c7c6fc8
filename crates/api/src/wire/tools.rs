//! Tools and tool calls.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A tool that the model may call.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ToolDefinition {
    /// `function`.
    #[serde(rename = "type")]
    #[schema(pattern = "^function$")]
    pub kind: String,
    /// Definition of the function.
    pub function: FunctionDefinition,
}

/// A function that the model may call.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FunctionDefinition {
    /// Name of the function.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// Description for the model.
    pub description: Option<String>,
    /// JSON schema of the arguments, which are an object.
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<Map<String, Value>>,
    /// Makes calls follow the schema even if the model may choose to call.
    pub strict: Option<bool>,
}

/// Choice of tool calls.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ToolChoice {
    /// A mode.
    Mode(ToolChoiceMode),
    /// The tool to call.
    Named {
        /// `function`.
        #[serde(rename = "type")]
        #[schema(pattern = "^function$")]
        kind: String,
        /// Name of the function.
        function: FunctionName,
    },
}

/// Mode of tool calls.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoiceMode {
    /// No calls.
    None,
    /// The model decides.
    Auto,
    /// At least one call.
    Required,
}

/// Name of a function.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FunctionName {
    /// Name of the function.
    pub name: String,
}

/// A tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolCall {
    /// Id, which the message with the result refers to.
    pub id: String,
    /// `function`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The called function.
    pub function: CalledFunction,
}

/// A called function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CalledFunction {
    /// Name of the function.
    pub name: String,
    /// Arguments: a JSON object in a string.
    pub arguments: String,
}

/// New part of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolCallDelta {
    /// Index among the calls.
    pub index: u32,
    /// Id, in the first chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `function`, in the first chunk.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// New part of the called function.
    pub function: FunctionDelta,
}

/// New part of a called function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionDelta {
    /// Name, in the first chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// New part of the arguments.
    pub arguments: String,
}
