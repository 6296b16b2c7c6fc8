//! Schemas of the fields that turn thinking on or off or limit it. The server reads them as JSON, because some have
//! several types.

use serde_json::Value;
use utoipa::ToSchema;

use super::{FunctionDefinition, StructuredFields};

/// Untyped fields of a chat request.
#[derive(ToSchema)]
#[schema(as = ChatFields)]
pub struct ChatFields {
    /// Constraint on the output.
    #[serde(flatten)]
    pub structured: StructuredFields,
    /// Thinking before the answer.
    #[serde(flatten)]
    pub thinking: ThinkingFields,
    /// Former name of `tools`: definitions of functions, of which at most one is called.
    pub functions: Option<Vec<FunctionDefinition>>,
    /// Former name of `tool_choice`: `none`, `auto`, or an object with the name of a function.
    #[schema(value_type = Option<Object>)]
    pub function_call: Option<Value>,
}

/// Thinking of models whose chat template declares it. Of several limits, the lowest counts.
#[derive(ToSchema)]
#[schema(as = Thinking)]
pub struct ThinkingFields {
    /// `none` turns it off; `minimal`, `low` and `medium` limit it to 256, 512 and 2,048 tokens; `high` does not.
    pub reasoning_effort: Option<String>,
    /// Turns it on or off.
    pub enable_thinking: Option<bool>,
    /// `true`, `false`, or an effort.
    #[schema(value_type = Option<Object>)]
    pub think: Option<Value>,
    /// `{"type": "enabled" | "adaptive" | "disabled", "budget_tokens"}`.
    #[schema(value_type = Option<Object>)]
    pub thinking: Option<Value>,
    /// Maximum number of tokens, after which the answer begins; 0 turns it off.
    pub thinking_budget: Option<u32>,
    /// `{"effort", "max_tokens", "enabled", "exclude"}`.
    #[schema(value_type = Option<Object>)]
    pub reasoning: Option<Value>,
    /// Returns it; `true` by default.
    pub include_reasoning: Option<bool>,
}
