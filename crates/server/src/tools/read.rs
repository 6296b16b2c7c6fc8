//! What requests say of tools, in the words of each dialect.

use serde_json::{Map, Value, json};
use wf_client::wire::Rest;

use super::{Choice, LONGEST_NAME, Tool, Tools};
use crate::error::ApiError;

/// OpenAI's chats: `{"type": "function", "function": {"name", "description", "parameters", "strict"}}`, and a
/// choice of `none`, `auto`, `required` or `{"type": "function", "function": {"name"}}`.
pub(crate) fn of_chat(
    tools: Option<Vec<Rest>>,
    choice: Option<&Value>,
    parallel: Option<bool>,
) -> Result<Option<Tools>, ApiError> {
    let read = |(at, tool): (usize, Rest)| {
        let field = format!("tools[{at}]");
        check_kind(&field, &tool, "function")?;
        let field = format!("{field}.function");
        match tool.get("function") {
            Some(Value::Object(function)) => definition(&field, function, "parameters"),
            _ => Err(wrong(field, "an object with the name of the function is needed")),
        }
    };
    let offered = tools.unwrap_or_default().into_iter().enumerate().map(read);
    let choice = of_openai(choice, |choice| choice.get("function")?.get("name"))?;
    Tools::new(offered.collect::<Result<_, _>>()?, choice, parallel.unwrap_or(true))
}

/// OpenAI's responses: the same without the inner object.
pub(crate) fn of_responses(
    tools: Option<Vec<Rest>>,
    choice: Option<&Value>,
    parallel: Option<bool>,
) -> Result<Option<Tools>, ApiError> {
    let read = |(at, tool): (usize, Rest)| {
        let field = format!("tools[{at}]");
        check_kind(&field, &tool, "function")?;
        definition(&field, &tool, "parameters")
    };
    let offered = tools.unwrap_or_default().into_iter().enumerate().map(read);
    let choice = of_openai(choice, |choice| choice.get("name"))?;
    Tools::new(offered.collect::<Result<_, _>>()?, choice, parallel.unwrap_or(true))
}

/// Anthropic's: `{"name", "description", "input_schema"}`, and a choice of
/// `{"type": "auto" | "any" | "tool" | "none", "name", "disable_parallel_tool_use"}`.
pub(crate) fn of_messages(
    tools: Option<Vec<Rest>>,
    choice: Option<&Rest>,
) -> Result<Option<Tools>, ApiError> {
    let read = |(at, tool): (usize, Rest)| {
        let field = format!("tools[{at}]");
        check_kind(&field, &tool, "custom")?;
        definition(&field, &tool, "input_schema")
    };
    let offered = tools.unwrap_or_default().into_iter().enumerate().map(read);
    let of_choice = |name: &str| choice.and_then(|choice| choice.get(name));
    let one_only = of_choice("disable_parallel_tool_use").and_then(Value::as_bool);
    let chosen = match (choice, of_choice("type").and_then(Value::as_str)) {
        (None, _) | (_, Some("auto")) => Choice::Auto,
        (_, Some("any")) => Choice::Required,
        (_, Some("none")) => Choice::None,
        (_, Some("tool")) => match of_choice("name").and_then(Value::as_str) {
            Some(name) => Choice::Named(name.to_owned()),
            None => return Err(wrong("tool_choice.name", "the name of a tool is needed")),
        },
        _ => return Err(wrong("tool_choice.type", "use one of auto, any, tool, none")),
    };
    Tools::new(offered.collect::<Result<_, _>>()?, chosen, !one_only.unwrap_or(false))
}

fn wrong(field: impl Into<String>, what: &str) -> ApiError {
    let field = field.into();
    ApiError::field(field.clone(), format!("{field}: {what}"))
}

/// Refuses tools of other kinds than functions.
fn check_kind(field: &str, tool: &Rest, known: &str) -> Result<(), ApiError> {
    match tool.get("type") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(kind)) if kind == known => Ok(()),
        Some(kind) => {
            let field = format!("{field}.type");
            let message = format!("{field} is {kind}: tools of type {known} are allowed");
            Err(ApiError::unsupported(field, message))
        }
    }
}

fn definition(field: &str, tool: &Rest, schema_name: &str) -> Result<Tool, ApiError> {
    let of = |name: &str| tool.get(name).filter(|value| !value.is_null());
    let name = of("name").and_then(Value::as_str).unwrap_or_default();
    let is_plain = |c: char| !c.is_control();
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
        let what = format!("1 to {LONGEST_NAME} bytes without control characters are needed");
        return Err(wrong(format!("{field}.name"), &what));
    }
    let description = match of("description") {
        None => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => return Err(wrong(format!("{field}.description"), "a text is needed")),
    };
    let strict = match of("strict") {
        None => false,
        Some(Value::Bool(strict)) => *strict,
        Some(_) => return Err(wrong(format!("{field}.strict"), "true or false is needed")),
    };
    let field = format!("{field}.{schema_name}");
    let parameters = match of(schema_name) {
        None => json!({"type": "object", "properties": {}}),
        Some(Value::Object(schema)) => object_schema(&field, schema)?,
        Some(_) => return Err(wrong(field, "a JSON schema is an object")),
    };
    Ok(Tool { name: name.to_owned(), description, parameters, strict, field })
}

/// A schema whose values are objects, as arguments are.
fn object_schema(field: &str, schema: &Map<String, Value>) -> Result<Value, ApiError> {
    let mut schema = schema.clone();
    match schema.get("type") {
        None => drop(schema.insert("type".to_owned(), json!("object"))),
        Some(kind) if kind == "object" => {}
        Some(_) => return Err(wrong(format!("{field}.type"), "arguments are an object")),
    }
    Ok(Value::Object(schema))
}

fn of_openai<'a>(
    choice: Option<&'a Value>,
    name: fn(&'a Value) -> Option<&'a Value>,
) -> Result<Choice, ApiError> {
    let Some(choice) = choice else { return Ok(Choice::Auto) };
    match (choice.as_str(), choice.get("type").and_then(Value::as_str)) {
        (Some("none"), _) => Ok(Choice::None),
        (Some("auto"), _) => Ok(Choice::Auto),
        (Some("required"), _) => Ok(Choice::Required),
        (None, Some("function")) => match name(choice).and_then(Value::as_str) {
            Some(name) => Ok(Choice::Named(name.to_owned())),
            None => Err(wrong("tool_choice", "the name of a function is needed")),
        },
        _ => Err(wrong("tool_choice", "use none, auto, required, or name a function")),
    }
}
