//! The fields that ask for a reply of some form, for the description of the API. They are read as they
//! are, because each may be of several kinds.

use serde_json::Value;
use utoipa::ToSchema;

/// What form the reply must have: one of these.
#[derive(ToSchema)]
#[schema(as = Structured)]
pub struct StructuredFields {
    /// OpenAI's.
    pub response_format: Option<ResponseFormat>,
    /// JSON of this schema, which may stand in a string.
    #[schema(value_type = Option<Object>)]
    pub json_schema: Option<Value>,
    /// A text that this regular expression matches as a whole.
    pub regex: Option<String>,
    /// A text of this grammar, in GBNF or Lark.
    pub ebnf: Option<String>,
    /// The same.
    pub grammar: Option<String>,
    /// One of these texts.
    #[schema(min_items = 1)]
    pub choice: Option<Vec<String>>,
    /// The same under vLLM's names.
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

/// What form the reply must have, in OpenAI's words.
#[derive(ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Any text.
    Text,
    /// A JSON object.
    JsonObject {
        /// Of this schema, if there is one.
        #[schema(value_type = Option<Object>)]
        schema: Option<Value>,
    },
    /// JSON of a schema.
    JsonSchema {
        /// The schema.
        json_schema: NamedSchema,
    },
}

/// A schema and its name.
#[derive(ToSchema)]
pub struct NamedSchema {
    /// A label.
    pub name: Option<String>,
    /// A label.
    pub description: Option<String>,
    /// The schema.
    #[schema(value_type = Object)]
    pub schema: Value,
    /// Schemas are always followed strictly.
    pub strict: Option<bool>,
}

/// What form the reply must have, in vLLM's words: one of these.
#[derive(ToSchema)]
pub struct StructuredOutputs {
    /// JSON of this schema.
    #[schema(value_type = Option<Object>)]
    pub json: Option<Value>,
    /// A text that this regular expression matches as a whole.
    pub regex: Option<String>,
    /// One of these texts.
    #[schema(min_items = 1)]
    pub choice: Option<Vec<String>>,
    /// A text of this grammar.
    pub grammar: Option<String>,
    /// A JSON object.
    pub json_object: Option<bool>,
}

/// What form the answer must have, in `/v1/responses`.
#[derive(ToSchema)]
#[schema(as = ResponsesStructured)]
pub struct ResponsesStructuredFields {
    /// How the answer is written.
    pub text: Option<FlatFormats>,
}

/// How an answer is written.
#[derive(ToSchema)]
pub struct FlatFormats {
    /// Its form.
    pub format: Option<FlatFormat>,
    /// A hint that is read by nobody.
    pub verbosity: Option<String>,
}

/// What form a reply must have, with the schema beside the type.
#[derive(ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FlatFormat {
    /// Any text.
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON of a schema.
    JsonSchema {
        /// A label.
        name: Option<String>,
        /// The schema.
        #[schema(value_type = Object)]
        schema: Value,
        /// Schemas are always followed strictly.
        strict: Option<bool>,
    },
}

/// What form the reply must have, in `/v1/messages`.
#[derive(ToSchema)]
#[schema(as = MessagesStructured)]
pub struct MessagesStructuredFields {
    /// How the reply is written.
    pub output_config: Option<OutputConfig>,
    /// The older place of its form.
    pub output_format: Option<FlatFormat>,
}

/// How a reply is written.
#[derive(ToSchema)]
pub struct OutputConfig {
    /// Its form.
    pub format: Option<FlatFormat>,
    /// A hint that is read by nobody.
    pub effort: Option<String>,
}

/// What form the reply must have, in Ollama's API.
#[derive(ToSchema)]
#[schema(as = OllamaStructured)]
pub struct OllamaStructuredFields {
    /// The form.
    pub format: Option<OllamaFormat>,
}

/// What form a reply must have, in Ollama's words.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum OllamaFormat {
    /// `json` for a JSON object; empty for any text.
    Name(String),
    /// JSON of this schema.
    #[schema(value_type = Object)]
    Schema(Value),
}
