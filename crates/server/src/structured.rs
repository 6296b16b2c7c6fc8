//! What form a reply must have, under every name that is in use for it.
//!
//! OpenAI has `response_format`; SGLang `json_schema`, `regex` and `ebnf`; vLLM `structured_outputs` and,
//! before that, `guided_json`, `guided_regex`, `guided_choice` and `guided_grammar`; llama.cpp
//! `json_schema` and `grammar`. A request may use one of them. Other dialects have names of their own
//! (`dialects.rs`).

pub(crate) mod dialects;

use serde_json::Value;
use tokio::task::spawn_blocking;
use wf_client::wire::Rest;
use wf_engine::{BadGrammar, Grammar, GrammarSource};

use crate::app::ServedModel;
use crate::asked::Asked;
use crate::error::ApiError;

/// A form, and the field that asks for it.
#[derive(Debug, PartialEq)]
pub(crate) struct Structured {
    pub(crate) field: &'static str,
    pub(crate) source: GrammarSource,
}

/// How the value of a field is read.
pub(crate) type Read = fn(&Value) -> Result<Option<GrammarSource>, String>;

/// A field, and how it is read.
pub(crate) type Field = (&'static str, Read);

/// The fields, and the one that has others inside.
const FIELDS: &[Field] = &[
    ("response_format", response_format),
    ("structured_outputs", structured_outputs),
    ("json_schema", schema),
    ("guided_json", schema),
    ("regex", regex),
    ("guided_regex", regex),
    ("ebnf", grammar),
    ("grammar", grammar),
    ("guided_grammar", grammar),
    ("choice", choice),
    ("guided_choice", choice),
];

/// The same, inside of `structured_outputs`.
const INNER: [Field; 5] = [
    ("json", schema),
    ("regex", regex),
    ("choice", choice),
    ("grammar", grammar),
    ("json_object", json_object),
];

/// Takes what is asked for out of the fields that have no type.
pub(crate) fn take(rest: &mut Rest) -> Result<Option<Structured>, ApiError> {
    take_by(FIELDS, rest)
}

/// The same by other fields.
pub(crate) fn take_by(fields: &[Field], rest: &mut Rest) -> Result<Option<Structured>, ApiError> {
    let mut found: Option<Structured> = None;
    for &(field, read) in fields {
        let Some(value) = rest.remove(field).filter(|value| !value.is_null()) else { continue };
        let named = |what: String| ApiError::field(field, format!("{field}: {what}"));
        let Some(source) = read(&value).map_err(named)? else { continue };
        if let Some(Structured { field: other, .. }) = found {
            return Err(named(format!("{other} says already what form the reply has")));
        }
        found = Some(Structured { field, source });
    }
    Ok(found)
}

impl Structured {
    /// Long ones take a while, so this is no work for threads that serve.
    async fn compile(self, model: &ServedModel) -> Result<Grammar, ApiError> {
        let Self { field, source } = self;
        let frontend = model.frontend.clone();
        let compiled = spawn_blocking(move || frontend.compile(&source));
        let compiled = compiled.await.map_err(|_| ApiError::internal())?;
        compiled.map_err(|error| match error {
            BadGrammar::Source(what) => ApiError::field(field, format!("{field}: {what}")),
            BadGrammar::Busy(_) => ApiError::busy(error.to_string()),
        })
    }
}

impl Asked {
    /// Makes the grammar that is asked for, if one is.
    pub(crate) async fn compile(&mut self, model: &ServedModel) -> Result<(), ApiError> {
        self.compile_tools(model).await?;
        if let Some(structured) = self.structured.take() {
            self.generate.grammar = Some(structured.compile(model).await?);
        }
        Ok(())
    }
}

fn response_format(value: &Value) -> Result<Option<GrammarSource>, String> {
    let inner = |name: &str| value.get(name).filter(|inner| !inner.is_null());
    match value.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => match inner("schema") {
            Some(inner) => schema(inner),
            None => Ok(Some(GrammarSource::json_object())),
        },
        Some("json_schema") => {
            let wanted = inner("json_schema").and_then(|inner| inner.get("schema"));
            schema(wanted.ok_or("json_schema.schema is missing")?)
        }
        _ => Err("its type is one of text, json_object and json_schema".to_owned()),
    }
}

fn structured_outputs(value: &Value) -> Result<Option<GrammarSource>, String> {
    let fields = value.as_object().ok_or("an object is needed")?;
    let mut found = None;
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let Some((_, read)) = INNER.iter().find(|(inner, _)| inner == name) else {
            let names = INNER.map(|(inner, _)| inner).join(", ");
            return Err(format!("{name} is not supported, only {names} are"));
        };
        let Some(source) = read(value).map_err(|what| format!("{name}: {what}"))? else { continue };
        if found.replace(source).is_some() {
            return Err("more than one form is asked for".to_owned());
        }
    }
    Ok(found)
}

/// A schema, or one in a text.
fn schema(value: &Value) -> Result<Option<GrammarSource>, String> {
    let schema = match value {
        Value::String(text) => serde_json::from_str(text).map_err(|error| error.to_string())?,
        value => value.clone(),
    };
    match schema {
        Value::Object(_) | Value::Bool(_) => Ok(Some(GrammarSource::JsonSchema(schema))),
        _ => Err("a JSON schema is an object".to_owned()),
    }
}

fn json_object(value: &Value) -> Result<Option<GrammarSource>, String> {
    let wanted = value.as_bool().ok_or("true or false is needed")?;
    Ok(wanted.then(GrammarSource::json_object))
}

fn regex(value: &Value) -> Result<Option<GrammarSource>, String> {
    let text = value.as_str().ok_or("a regular expression in a string is needed")?;
    Ok(Some(GrammarSource::Regex(text.to_owned())))
}

/// An empty grammar is none: some clients always send the field.
fn grammar(value: &Value) -> Result<Option<GrammarSource>, String> {
    let text = value.as_str().ok_or("a grammar in a string is needed")?;
    Ok((!text.is_empty()).then(|| GrammarSource::Grammar(text.to_owned())))
}

fn choice(value: &Value) -> Result<Option<GrammarSource>, String> {
    let texts: Option<Vec<_>> = value
        .as_array()
        .and_then(|all| all.iter().map(|one| one.as_str().map(str::to_owned)).collect());
    Ok(Some(GrammarSource::Choice(texts.ok_or("a list of strings is needed")?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn taken(fields: Value) -> Result<Option<GrammarSource>, String> {
        let Value::Object(mut rest) = fields else { panic!("an object") };
        let taken = take(&mut rest).map_err(|error| error.message);
        assert!(taken.is_err() || rest.is_empty(), "nothing is left for others to refuse");
        taken.map(|taken| taken.map(|taken| taken.source))
    }

    #[test]
    fn every_name_leads_to_the_same_form() {
        let schema = json!({"type": "integer"});
        let wrapped = json!({"name": "x", "strict": true, "schema": schema});
        for fields in [
            json!({"response_format": {"type": "json_schema", "json_schema": wrapped}}),
            json!({"response_format": {"type": "json_object", "schema": schema}}),
            json!({"json_schema": schema}),
            json!({"json_schema": schema.to_string()}),
            json!({"guided_json": schema, "guided_regex": null, "grammar": ""}),
            json!({"structured_outputs": {"json": schema, "regex": null, "json_object": false}}),
        ] {
            let expected = Some(GrammarSource::JsonSchema(schema.clone()));
            assert_eq!(taken(fields.clone()), Ok(expected), "{fields}");
        }
        let object = Ok(Some(GrammarSource::json_object()));
        assert_eq!(taken(json!({"response_format": {"type": "json_object"}})), object);
        assert_eq!(taken(json!({"structured_outputs": {"json_object": true}})), object);
        for fields in [
            json!({"regex": "a+"}),
            json!({"guided_regex": "a+"}),
            json!({"structured_outputs": {"regex": "a+"}}),
        ] {
            assert_eq!(taken(fields), Ok(Some(GrammarSource::Regex("a+".into()))));
        }
        for field in ["ebnf", "grammar", "guided_grammar"] {
            let grammar = GrammarSource::Grammar("start: \"a\"".into());
            assert_eq!(taken(json!({field: "start: \"a\""})), Ok(Some(grammar)));
        }
        for field in ["choice", "guided_choice"] {
            let choice = GrammarSource::Choice(vec!["a".into(), "b".into()]);
            assert_eq!(taken(json!({field: ["a", "b"]})), Ok(Some(choice)));
        }
        assert_eq!(taken(json!({"response_format": {"type": "text"}})), Ok(None));
    }

    #[test]
    fn what_has_no_meaning_is_named() {
        for (fields, expected) in [
            (json!({"response_format": {"type": "xml"}}), "response_format: its type is one of"),
            (json!({"response_format": "json"}), "response_format: its type is one of"),
            (json!({"response_format": {"type": "json_schema"}}), "json_schema.schema is missing"),
            (json!({"json_schema": "{"}), "json_schema: EOF"),
            (json!({"json_schema": 3}), "json_schema: a JSON schema is an object"),
            (json!({"regex": 3}), "regex: a regular expression in a string is needed"),
            (json!({"guided_choice": ["a", 1]}), "guided_choice: a list of strings is needed"),
            (json!({"regex": "a", "choice": ["b"]}), "choice: regex says already"),
            (json!({"structured_outputs": {"regex": "a", "choice": []}}), "more than one form"),
            (json!({"structured_outputs": {"structural_tag": "a"}}), "only json, regex"),
        ] {
            let message = taken(fields.clone()).unwrap_err();
            assert!(message.contains(expected), "{fields}: {message}");
        }
    }
}
