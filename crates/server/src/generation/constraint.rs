//! Constraints on the shape of the output: JSON schemas, regular expressions, grammars and choices.
//!
//! Each dialect lists the fields it reads constraints from, with one of the readers below.

use serde_json::Value;
use wf_api::wire::JsonObject;
use wf_engine::{Grammar, GrammarError, GrammarSource};

use crate::error::ApiError;
use crate::http::json::parse_inner;
use crate::models::ServedModel;

/// Required shape of the output, with the request field it comes from.
#[derive(Debug, PartialEq)]
pub(crate) struct Constraint {
    pub(crate) field: &'static str,
    pub(crate) source: GrammarSource,
}

/// Reads the value of a field. Values such as `{"type": "text"}` constrain nothing.
pub(crate) type Reader = fn(&Value) -> Result<Option<GrammarSource>, String>;

/// Name of a field, and its reader.
pub(crate) type ConstraintField = (&'static str, Reader);

/// Removes the constraint from the untyped fields of a request. There may be one at most.
pub(crate) fn take(
    fields: &[ConstraintField],
    extra: &mut JsonObject,
) -> Result<Option<Constraint>, ApiError> {
    let mut found: Option<Constraint> = None;
    for &(field, read) in fields {
        let Some(value) = extra.remove(field).filter(|value| !value.is_null()) else { continue };
        let wrong = |what: String| ApiError::at(field, &what);
        let Some(source) = read(&value).map_err(wrong)? else { continue };
        match &found {
            // Some clients send a constraint under the names of several servers.
            Some(other) if other.source == source => {}
            Some(Constraint { field: other, .. }) => {
                return Err(wrong(format!(
                    "cannot be combined with {other}: a request has at most one constraint"
                )));
            }
            None => found = Some(Constraint { field, source }),
        }
    }
    Ok(found)
}

impl Constraint {
    /// Compiles the grammar.
    pub(crate) async fn compile(self, model: &ServedModel) -> Result<Grammar, ApiError> {
        let Self { field, source } = self;
        let compiled = model.run(move |frontend| frontend.compile(&source)).await?;
        compiled.map_err(|error| grammar_error(field, error))
    }
}

pub(crate) fn grammar_error(field: &str, error: GrammarError) -> ApiError {
    match error {
        GrammarError::Invalid(what) => ApiError::at(field, &what),
        GrammarError::Busy(_) => ApiError::busy(error.to_string()),
    }
}

/// Reads a JSON schema, or one in a string.
pub(crate) fn schema(value: &Value) -> Result<Option<GrammarSource>, String> {
    let schema = match value {
        Value::String(text) => parse_inner(text)?,
        value => value.clone(),
    };
    match schema {
        Value::Object(_) | Value::Bool(_) => Ok(Some(GrammarSource::JsonSchema(schema))),
        _ => Err("must be a JSON schema, which is an object".to_owned()),
    }
}

/// Reads a format whose schema is a field beside its type.
pub(crate) fn flat_format(value: &Value) -> Result<Option<GrammarSource>, String> {
    match value.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(GrammarSource::json_object())),
        Some("json_schema") => schema(value.get("schema").ok_or("schema is required")?),
        _ => Err("type must be text, json_object or json_schema".to_owned()),
    }
}

/// Reads an object with a `format` and one ignored hint.
pub(crate) fn nested_format(value: &Value, hint: &str) -> Result<Option<GrammarSource>, String> {
    let fields = value.as_object().ok_or("must be an object")?;
    if let Some(name) = fields.keys().find(|name| *name != "format" && *name != hint) {
        return Err(format!("unknown field {name:?}: expected format or {hint}"));
    }
    match fields.get("format") {
        None | Some(Value::Null) => Ok(None),
        Some(format) => flat_format(format).map_err(|what| format!("format: {what}")),
    }
}
