//! Reads tool definitions and tool choices from requests.

use serde_json::{Value, json};
use wf_api::wire::JsonObject;

use super::{Tool, ToolChoice};
use crate::error::ApiError;

const MAX_NAME_LEN: usize = 128;

/// Spelling of a tool definition in a dialect.
pub(crate) struct ToolSyntax {
    /// The one `type` that is supported.
    pub(crate) kind: &'static str,
    /// Field that holds the definition, if it is nested.
    pub(crate) nested: Option<&'static str>,
    /// Field that holds the schema of the arguments.
    pub(crate) schema: &'static str,
}

impl ToolSyntax {
    pub(crate) fn read(&self, tools: Option<Vec<JsonObject>>) -> Result<Vec<Tool>, ApiError> {
        let tools = tools.unwrap_or_default().into_iter().enumerate();
        tools.map(|(at, tool)| self.read_tool(&format!("tools[{at}]"), &tool)).collect()
    }

    fn read_tool(&self, field: &str, tool: &JsonObject) -> Result<Tool, ApiError> {
        match tool.get("type") {
            None | Some(Value::Null) => {}
            Some(Value::String(kind)) if kind == self.kind => {}
            Some(kind) => {
                let field = format!("{field}.type");
                let message = format!("{field} is {kind}: must be \"{}\"", self.kind);
                return Err(ApiError::unsupported(field, message));
            }
        }
        let Some(nested) = self.nested else { return self.read_definition(field, tool) };
        let field = format!("{field}.{nested}");
        match tool.get(nested) {
            Some(Value::Object(definition)) => self.read_definition(&field, definition),
            _ => Err(ApiError::at(field, "must be an object with the name of the function")),
        }
    }

    fn read_definition(&self, field: &str, tool: &JsonObject) -> Result<Tool, ApiError> {
        let of = |name: &str| tool.get(name).filter(|value| !value.is_null());
        let name = of("name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() || name.len() > MAX_NAME_LEN || name.chars().any(char::is_control) {
            let what = format!("must have 1 to {MAX_NAME_LEN} bytes and no control characters");
            return Err(ApiError::at(format!("{field}.name"), &what));
        }
        let wrong = |name: &str, what: &str| ApiError::at(format!("{field}.{name}"), what);
        let text = |value: &Value| {
            let text = value.as_str().map(str::to_owned);
            text.ok_or_else(|| wrong("description", "must be a string"))
        };
        let flag =
            |value: &Value| value.as_bool().ok_or_else(|| wrong("strict", "must be true or false"));
        let description = of("description").map(text).transpose()?;
        let strict = of("strict").map(flag).transpose()?.unwrap_or(false);
        let parameters = match of(self.schema) {
            None => json!({"type": "object", "properties": {}}),
            Some(Value::Object(schema)) if schema.get("type").is_none_or(|t| t == "object") => {
                let mut schema = schema.clone();
                schema.insert("type".to_owned(), json!("object"));
                Value::Object(schema)
            }
            Some(Value::Object(_)) => {
                let field = format!("{}.type", self.schema);
                return Err(wrong(&field, "must be \"object\", as arguments are"));
            }
            Some(_) => return Err(wrong(self.schema, "must be a JSON schema, which is an object")),
        };
        let field = format!("{field}.{}", self.schema);
        Ok(Tool { name: name.to_owned(), description, parameters, strict, field })
    }
}

/// Reads `none`, `auto`, `required`, or an object that names a function with `name`.
pub(crate) fn read_openai_choice<'a>(
    choice: Option<&'a Value>,
    name: fn(&'a Value) -> Option<&'a Value>,
) -> Result<ToolChoice, ApiError> {
    let Some(choice) = choice else { return Ok(ToolChoice::Auto) };
    match (choice.as_str(), choice.get("type").and_then(Value::as_str)) {
        (Some("none"), _) => Ok(ToolChoice::None),
        (Some("auto"), _) => Ok(ToolChoice::Auto),
        (Some("required"), _) => Ok(ToolChoice::Required),
        (None, Some("function")) => match name(choice).and_then(Value::as_str) {
            Some(name) => Ok(ToolChoice::Named(name.to_owned())),
            None => Err(ApiError::at("tool_choice", "must name a function")),
        },
        _ => Err(ApiError::at(
            "tool_choice",
            "must be none, auto, required, or an object that names a function",
        )),
    }
}
