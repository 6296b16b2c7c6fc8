//! Reads tool definitions and tool choices from requests.

use serde_json::{Value, json};
use wf_api::wire::JsonObject;

use super::{Tool, ToolChoice};
use crate::error::ApiError;
use crate::generation::unknown_fields::UnknownFields;

const MAX_NAME_LEN: usize = 128;

/// Spelling of a tool definition in a dialect.
pub(crate) struct ToolSyntax {
    /// The one `type` that is supported.
    pub(crate) kind: &'static str,
    /// Field that holds the definition, if it is nested.
    pub(crate) nested: Option<&'static str>,
    /// Field that holds the schema of the arguments.
    pub(crate) schema: &'static str,
    /// True for a type of tools that only the vendor's servers run, or that are no functions. Clients offer them to
    /// every server.
    pub(crate) is_foreign: fn(&str) -> bool,
}

impl ToolSyntax {
    /// Reads all tools but those of foreign types, which are reported as ignored.
    pub(crate) fn read(
        &self,
        tools: Option<&[JsonObject]>,
        unknown: &UnknownFields,
    ) -> Result<Vec<Tool>, ApiError> {
        let mut read = Vec::new();
        for (at, tool) in tools.unwrap_or_default().iter().enumerate() {
            match self.foreign_type(tool) {
                Some(kind) => unknown.ignore(&format!("tools[{at}]:{kind}")),
                None => read.push(self.read_tool(&format!("tools[{at}]"), tool)?),
            }
        }
        Ok(read)
    }

    /// Returns the type of a tool if it is a foreign one.
    pub(crate) fn foreign_type<'a>(&self, tool: &'a JsonObject) -> Option<&'a str> {
        tool.get("type").and_then(Value::as_str).filter(|kind| (self.is_foreign)(kind))
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

/// Reads `none`, `auto`, `required`, `any`, or an object that names a function, or several, with `name`.
pub(crate) fn read_openai_choice<'a>(
    choice: Option<&'a Value>,
    name: fn(&'a Value) -> Option<&'a Value>,
) -> Result<ToolChoice, ApiError> {
    let Some(choice) = choice else { return Ok(ToolChoice::Auto) };
    match (choice.as_str(), choice.get("type").and_then(Value::as_str)) {
        (Some("none"), _) => Ok(ToolChoice::None),
        (Some("auto"), _) => Ok(ToolChoice::Auto),
        (Some("required" | "any"), _) => Ok(ToolChoice::Required),
        (None, Some("function")) => match name(choice).and_then(Value::as_str) {
            Some(name) => Ok(ToolChoice::Named(name.to_owned())),
            None => Err(ApiError::at("tool_choice", "must name a function")),
        },
        // In one API, the fields are in an object of their own.
        (None, Some("allowed_tools")) => {
            read_allowed(choice.get("allowed_tools").unwrap_or(choice), name)
        }
        _ => Err(ApiError::at(
            "tool_choice",
            "must be none, auto, required, any, or an object that names functions",
        )),
    }
}

/// Reads `{"mode": "auto" | "required", "tools": […]}`, whose tools have names and nothing else.
fn read_allowed<'a>(
    allowed: &'a Value,
    name: fn(&'a Value) -> Option<&'a Value>,
) -> Result<ToolChoice, ApiError> {
    let is_required = match allowed.get("mode").and_then(Value::as_str) {
        Some("auto") => false,
        Some("required") => true,
        _ => return Err(ApiError::at("tool_choice", "mode must be auto or required")),
    };
    let tools = allowed.get("tools").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let names = tools.iter().map(|tool| Some(name(tool)?.as_str()?.to_owned()));
    match names.collect::<Option<Vec<String>>>().filter(|names| !names.is_empty()) {
        Some(names) => Ok(ToolChoice::Allowed { names, is_required }),
        None => Err(ApiError::at("tool_choice", "tools must be a list of functions with names")),
    }
}
