//! Fields that OpenAI's endpoints and SGLang's `/generate` share.

use serde_json::Value;
use wf_api::wire::Seed;
use wf_engine::GrammarSource;

use crate::app::now;
use crate::error::ApiError;
use crate::generation::constraint::{ConstraintField, schema};
use crate::generation::fields::check_range;
use crate::generation::{Context, FieldRules, Generation, ToolSyntax};

/// Untyped fields, gateways' additions included.
pub(super) const FIELDS: FieldRules = FieldRules {
    ignored: "user metadata store service_tier safety_identifier prompt_cache_key prompt_cache_retention \
              prompt_cache_options prediction reasoning_effort verbosity moderation parallel_tool_calls \
              session_params rid no_logs log_metrics custom_labels \
              background conversation_id cache_prompt timings_per_token num_ctx keep_alive options request_id \
              session_id chat_id trace_id tags usage kv_transfer_params vllm_xargs \
              spaces_between_special_tokens guided_decoding_backend",
    unsupported: &[
        ("tools", &["[]"]),
        ("tool_choice", &[r#""none""#, r#""auto""#]),
        ("functions", &["[]"]),
        ("function_call", &[r#""none""#, r#""auto""#]),
        ("modalities", &[r#"["text"]"#]),
        ("audio", &[]),
        ("web_search_options", &[]),
        ("best_of", &["1"]),
        ("suffix", &[r#""""#]),
        ("structural_tag", &[]),
        ("use_beam_search", &["false"]),
        ("truncate_prompt_tokens", &[]),
        ("prompt_logprobs", &[]),
        ("return_hidden_states", &["false"]),
        ("return_entropy", &["false"]),
        ("return_bytes", &["false"]),
        ("return_text_in_logprobs", &["false"]),
        ("no_stop_trim", &["false"]),
        ("include_stop_str_in_output", &["false"]),
        ("lora_path", &[]),
        ("chat_template", &[]),
        ("documents", &["[]"]),
        ("length_penalty", &["1", "1.0"]),
        ("early_stopping", &["false"]),
        ("mirostat", &["0"]),
        ("typical_p", &["1", "1.0"]),
        ("bad_words", &["[]"]),
        ("guided_whitespace_pattern", &[]),
        ("reasoning", &[]),
        ("include_reasoning", &["true"]),
        ("separate_reasoning", &["true"]),
        ("stream_reasoning", &["true"]),
    ],
    constraints: CONSTRAINTS,
};

/// Constraints under the names of OpenAI (`response_format`), vLLM (`structured_outputs`, `guided_*`), SGLang
/// (`json_schema`, `regex`, `ebnf`) and llama.cpp (`json_schema`, `grammar`).
const CONSTRAINTS: &[ConstraintField] = &[
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

/// Fields of `structured_outputs`.
const STRUCTURED_OUTPUTS: [ConstraintField; 5] = [
    ("json", schema),
    ("regex", regex),
    ("choice", choice),
    ("grammar", grammar),
    ("json_object", json_object),
];

/// `{"type": "function", "function": {"name", "description", "parameters", "strict"}}`.
pub(crate) const CHAT_TOOLS: ToolSyntax = ToolSyntax {
    kind: "function",
    nested: Some("function"),
    schema: "parameters",
    is_foreign: |_| false,
};

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
            schema(wanted.ok_or("json_schema.schema is required")?)
        }
        _ => Err("type must be text, json_object or json_schema".to_owned()),
    }
}

fn structured_outputs(value: &Value) -> Result<Option<GrammarSource>, String> {
    let fields = value.as_object().ok_or("must be an object")?;
    let mut found = None;
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let Some((_, read)) = STRUCTURED_OUTPUTS.iter().find(|(inner, _)| inner == name) else {
            let names = STRUCTURED_OUTPUTS.map(|(inner, _)| inner).join(", ");
            return Err(format!("unknown field {name:?}: expected one of {names}"));
        };
        let Some(source) = read(value).map_err(|what| format!("{name}: {what}"))? else { continue };
        if found.replace(source).is_some() {
            return Err("more than one constraint".to_owned());
        }
    }
    Ok(found)
}

fn json_object(value: &Value) -> Result<Option<GrammarSource>, String> {
    let wanted = value.as_bool().ok_or("must be true or false")?;
    Ok(wanted.then(GrammarSource::json_object))
}

fn regex(value: &Value) -> Result<Option<GrammarSource>, String> {
    let text = value.as_str().ok_or("must be a regular expression in a string")?;
    Ok(Some(GrammarSource::Regex(text.to_owned())))
}

/// An empty grammar is none: some clients always send the field.
fn grammar(value: &Value) -> Result<Option<GrammarSource>, String> {
    let text = value.as_str().ok_or("must be a grammar in a string")?;
    Ok((!text.is_empty()).then(|| GrammarSource::Grammar(text.to_owned())))
}

fn choice(value: &Value) -> Result<Option<GrammarSource>, String> {
    let texts: Option<Vec<_>> = value
        .as_array()
        .and_then(|all| all.iter().map(|one| one.as_str().map(str::to_owned)).collect());
    Ok(Some(GrammarSource::Choice(texts.ok_or("must be a list of strings")?)))
}

pub(super) fn check_top(cx: &Context, field: &str, top: Option<u32>) -> Result<(), ApiError> {
    check_range(field, top.unwrap_or(0), 0..=cx.app.options.limits.top_logprobs)
}

/// Returns the number of most likely tokens to report with each token, if logprobs are requested.
pub(super) fn logprobs(
    cx: &Context,
    logprobs: bool,
    top: Option<u32>,
) -> Result<Option<usize>, ApiError> {
    check_top(cx, "top_logprobs", top)?;
    if top.is_some_and(|top| top > 0) && !logprobs {
        return Err(ApiError::field("top_logprobs", "top_logprobs needs logprobs to be true"));
    }
    Ok(logprobs.then(|| top.unwrap_or(0) as usize))
}

/// Values that every frame of a response repeats.
pub(super) struct ResponseMeta {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
    pub(super) fingerprint: String,
    pub(super) seed: Seed,
    pub(super) include_usage: bool,
    pub(super) token_ids: bool,
    pub(super) progress: bool,
    pub(super) logprobs: bool,
}

impl ResponseMeta {
    /// Creates the values of a response whose id starts with `prefix`.
    pub(super) fn new(cx: &Context, prefix: &str, generation: &Generation) -> Self {
        Self {
            id: format!("{prefix}-{}", cx.request_id),
            created: now(),
            model: cx.model.name().to_owned(),
            fingerprint: cx.model.fingerprint(),
            seed: generation.seed,
            // A response that is not streamed always has it.
            include_usage: generation.include_usage || !generation.stream,
            token_ids: generation.return_token_ids,
            progress: generation.return_progress,
            logprobs: generation.settings.logprobs.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::generation::constraint::take;
    use crate::generation::unknown_fields::UnknownFields;

    fn taken(fields: Value) -> Result<Option<GrammarSource>, String> {
        let Value::Object(mut rest) = fields else { panic!("an object") };
        let taken = take(CONSTRAINTS, &mut rest).map_err(|error| error.message);
        assert!(taken.is_err() || rest.is_empty(), "the field is removed");
        taken.map(|taken| taken.map(|taken| taken.source))
    }

    #[test]
    fn every_name_gives_the_same_constraint() {
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
    fn invalid_values_are_rejected_by_name() {
        for (fields, expected) in [
            (json!({"response_format": {"type": "xml"}}), "response_format: type must be"),
            (json!({"response_format": "json"}), "response_format: type must be"),
            (json!({"response_format": {"type": "json_schema"}}), "json_schema.schema is required"),
            (json!({"json_schema": "{"}), "json_schema: EOF"),
            (json!({"json_schema": 3}), "json_schema: must be a JSON schema"),
            (json!({"regex": 3}), "regex: must be a regular expression in a string"),
            (json!({"guided_choice": ["a", 1]}), "guided_choice: must be a list of strings"),
            (json!({"regex": "a", "choice": ["b"]}), "choice: cannot be combined with regex"),
            (
                json!({"structured_outputs": {"regex": "a", "choice": []}}),
                "more than one constraint",
            ),
            (json!({"structured_outputs": {"structural_tag": "a"}}), "expected one of json, regex"),
        ] {
            let message = taken(fields.clone()).unwrap_err();
            assert!(message.contains(expected), "{fields}: {message}");
        }
    }

    fn check(json: &str) -> Result<(), (Option<String>, &'static str)> {
        FIELDS
            .check(&serde_json::from_str(json).unwrap(), &UnknownFields::default())
            .map_err(|e| (e.param, e.code))
    }

    #[test]
    fn harmless_fields_pass_and_others_are_rejected_by_name() {
        assert_eq!(check(r#"{"user": "u", "metadata": {"a": "b"}, "tools": null}"#), Ok(()));
        assert_eq!(check(r#"{"tools": [], "modalities": ["text"]}"#), Ok(()));
        let rejected = |name: &str, code| Err((Some(name.to_owned()), code));
        let unsupported = "unsupported_parameter";
        assert_eq!(check(r#"{"tools": [{}]}"#), rejected("tools", unsupported));
        assert_eq!(check(r#"{"best_of": 2}"#), rejected("best_of", unsupported));
        assert_eq!(check(r#"{"n_discard": -1}"#), rejected("n_discard", "unknown_parameter"));
        assert_eq!(check(r#"{"temprature": 1}"#), rejected("temprature", "unknown_parameter"));
    }

    #[test]
    fn harmless_values_are_json() {
        for text in FIELDS.unsupported.iter().flat_map(|(_, harmless)| *harmless) {
            assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
        }
    }
}
