//! Schemas of the fields that constrain the output. The server reads them as JSON, because each may have several
//! types.

use serde_json::Value;
use utoipa::ToSchema;

/// Constraint on the output: at most one of these.
#[derive(ToSchema)]
#[schema(as = Structured)]
pub struct StructuredFields {
    /// OpenAI's response format.
    pub response_format: Option<ResponseFormat>,
    /// JSON schema that the output follows, as an object or in a string.
    #[schema(value_type = Option<Object>)]
    pub json_schema: Option<Value>,
    /// Regular expression that matches the whole output.
    pub regex: Option<String>,
    /// Grammar of the output, in GBNF or Lark.
    pub ebnf: Option<String>,
    /// As `ebnf`.
    pub grammar: Option<String>,
    /// Texts of which the output is one.
    #[schema(min_items = 1)]
    pub choice: Option<Vec<String>>,
    /// Constraint in vLLM's format.
    pub structured_outputs: Option<StructuredOutputs>,
    /// As `json_schema`.
    #[schema(value_type = Option<Object>)]
    pub guided_json: Option<Value>,
    /// As `regex`.
    pub guided_regex: Option<String>,
    /// As `choice`.
    #[schema(min_items = 1)]
    pub guided_choice: Option<Vec<String>>,
    /// As `grammar`.
    pub guided_grammar: Option<String>,
}

/// OpenAI's response format.
#[derive(ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Unconstrained text.
    Text,
    /// A JSON object.
    JsonObject {
        /// Schema of the object.
        #[schema(value_type = Option<Object>)]
        schema: Option<Value>,
    },
    /// JSON that follows a schema.
    JsonSchema {
        /// The JSON schema.
        json_schema: NamedSchema,
    },
}

/// A named JSON schema.
#[derive(ToSchema)]
pub struct NamedSchema {
    /// Name of the schema, which is ignored.
    pub name: Option<String>,
    /// Description of the schema, which is ignored.
    pub description: Option<String>,
    /// The JSON schema.
    #[schema(value_type = Object)]
    pub schema: Value,
    /// Ignored: schemas are always followed strictly.
    pub strict: Option<bool>,
}

/// Constraint in vLLM's format: at most one of these.
#[derive(ToSchema)]
pub struct StructuredOutputs {
    /// JSON schema that the output follows.
    #[schema(value_type = Option<Object>)]
    pub json: Option<Value>,
    /// Regular expression that matches the whole output.
    pub regex: Option<String>,
    /// Texts of which the output is one.
    #[schema(min_items = 1)]
    pub choice: Option<Vec<String>>,
    /// Grammar of the output.
    pub grammar: Option<String>,
    /// Requires a JSON object.
    pub json_object: Option<bool>,
}

/// Response format with the schema beside the type.
#[derive(ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FlatResponseFormat {
    /// Unconstrained text.
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON that follows a schema.
    JsonSchema {
        /// Name of the schema, which is ignored.
        name: Option<String>,
        /// The JSON schema.
        #[schema(value_type = Object)]
        schema: Value,
        /// Ignored: schemas are always followed strictly.
        strict: Option<bool>,
    },
}
