//! The fields of other dialects: Ollama's `format`, `text.format` of OpenAI's responses, Anthropic's
//! `output_config.format`.

use serde_json::Value;
use wf_engine::GrammarSource;

use super::{Field, schema};

/// Ollama's.
pub(crate) const OLLAMA: &[Field] = &[("format", ollama)];

/// Those of `/v1/responses`.
pub(crate) const RESPONSES: &[Field] = &[("text", text)];

/// Anthropic's, and its name before.
pub(crate) const MESSAGES: &[Field] =
    &[("output_config", output_config), ("output_format", format)];

/// `"json"`, or a schema.
fn ollama(value: &Value) -> Result<Option<GrammarSource>, String> {
    match value {
        Value::String(name) if name.is_empty() => Ok(None),
        Value::String(name) if name == "json" => Ok(Some(GrammarSource::json_object())),
        Value::Object(_) => schema(value),
        _ => Err("\"json\" or a JSON schema is needed".to_owned()),
    }
}

/// Its format; how many words to use is a hint.
fn text(value: &Value) -> Result<Option<GrammarSource>, String> {
    inner_format(value, "verbosity")
}

/// Its format; how hard to try is a hint.
fn output_config(value: &Value) -> Result<Option<GrammarSource>, String> {
    inner_format(value, "effort")
}

fn inner_format(value: &Value, hint: &str) -> Result<Option<GrammarSource>, String> {
    let fields = value.as_object().ok_or("an object is needed")?;
    if let Some(name) = fields.keys().find(|name| *name != "format" && *name != hint) {
        return Err(format!("{name} is not supported, only format and {hint} are"));
    }
    match fields.get("format") {
        None | Some(Value::Null) => Ok(None),
        Some(inner) => format(inner).map_err(|what| format!("format: {what}")),
    }
}

/// A format whose schema stands beside its type.
fn format(value: &Value) -> Result<Option<GrammarSource>, String> {
    match value.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(GrammarSource::json_object())),
        Some("json_schema") => schema(value.get("schema").ok_or("schema is missing")?),
        _ => Err("its type is one of text, json_object and json_schema".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wf_client::wire::Rest;

    use super::super::{Field, take_by};
    use super::*;

    fn taken(by: &[Field], fields: &Value) -> Result<Option<GrammarSource>, String> {
        let Value::Object(mut rest) = fields.clone() else { panic!("an object") };
        let taken = take_by(by, &mut rest).map_err(|error| error.message);
        assert!(taken.is_err() || rest == Rest::new(), "nothing is left for others to refuse");
        taken.map(|taken| taken.map(|taken| taken.source))
    }

    #[test]
    fn every_dialect_has_its_place_for_a_schema() {
        let schema = json!({"type": "integer"});
        let flat = json!({"type": "json_schema", "name": "x", "strict": true, "schema": schema});
        let expected = Ok(Some(GrammarSource::JsonSchema(schema.clone())));
        for (by, fields) in [
            (OLLAMA, json!({"format": schema})),
            (RESPONSES, json!({"text": {"format": flat, "verbosity": "low"}})),
            (MESSAGES, json!({"output_config": {"format": flat, "effort": "low"}})),
            (MESSAGES, json!({"output_format": flat})),
        ] {
            assert_eq!(taken(by, &fields), expected, "{fields}");
        }
        let object = Ok(Some(GrammarSource::json_object()));
        assert_eq!(taken(OLLAMA, &json!({"format": "json"})), object);
        assert_eq!(taken(RESPONSES, &json!({"text": {"format": {"type": "json_object"}}})), object);
        for (by, fields) in [
            (OLLAMA, json!({"format": ""})),
            (RESPONSES, json!({"text": {}})),
            (RESPONSES, json!({"text": {"format": {"type": "text"}}})),
            (MESSAGES, json!({"output_config": {"effort": "high", "format": null}})),
        ] {
            assert_eq!(taken(by, &fields), Ok(None), "{fields}");
        }
    }

    #[test]
    fn what_has_no_meaning_is_named() {
        for (by, fields, expected) in [
            (OLLAMA, json!({"format": "yaml"}), "format: \"json\" or a JSON schema"),
            (RESPONSES, json!({"text": "json"}), "text: an object"),
            (RESPONSES, json!({"text": {"format": {"type": "xml"}}}), "text: format: its type"),
            (RESPONSES, json!({"text": {"formats": {}}}), "text: formats is not supported"),
            (MESSAGES, json!({"output_format": {"type": "json_schema"}}), "schema is missing"),
        ] {
            let message = taken(by, &fields).unwrap_err();
            assert!(message.contains(expected), "{fields}: {message}");
        }
    }
}
