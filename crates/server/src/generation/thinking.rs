//! Thinking in requests: the fields that turn it on or off, limit it, or leave it out of the response.
//!
//! The engine separates thinking from the answer and keeps the limit; a dialect only names the fields.

use serde_json::Value;
use wf_api::wire::JsonObject;

use crate::error::ApiError;

/// Names of efforts, each with the maximum number of thinking tokens; `None` is no limit. `none` turns it off.
pub(crate) const EFFORTS: [(&str, Option<usize>); 7] = [
    ("none", Some(0)),
    ("minimal", Some(256)),
    ("low", Some(512)),
    ("medium", Some(2048)),
    ("high", None),
    ("xhigh", None),
    ("max", None),
];

/// Thinking as a request wants it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thinking {
    /// Turns it on or off; up to the template if absent.
    pub(crate) enabled: Option<bool>,
    /// Maximum number of tokens, after which the answer begins.
    pub(crate) max_tokens: Option<usize>,
    /// Leaves it out of the response.
    pub(crate) is_hidden: bool,
}

impl Thinking {
    pub(crate) const OFF: Self = Self::switched(false);

    /// Turns it on or off.
    pub(crate) const fn switched(on: bool) -> Self {
        Self { enabled: Some(on), max_tokens: None, is_hidden: false }
    }

    /// Limits it to a number of tokens, of which none turn it off.
    fn limited(max_tokens: usize) -> Self {
        Self {
            max_tokens: Some(max_tokens).filter(|max| *max > 0),
            ..Self::switched(max_tokens > 0)
        }
    }

    /// Adds the values of another field. This one counts where both turn it on or off; the lower limit counts.
    fn and(self, other: Self) -> Self {
        let limits = self.max_tokens.into_iter().chain(other.max_tokens);
        Self {
            enabled: self.enabled.or(other.enabled),
            max_tokens: limits.min(),
            is_hidden: self.is_hidden || other.is_hidden,
        }
    }

    /// Takes the fields of OpenAI's API and of its relatives out of the untyped fields of a request.
    pub(crate) fn take(
        extra: &mut JsonObject,
        kwargs: Option<&JsonObject>,
    ) -> Result<Self, ApiError> {
        let of_kwargs = |name: &str| kwargs.and_then(|kwargs| kwargs.get(name));
        let mut all = Self::default();
        for (field, read) in FIELDS {
            let value = extra.remove(field);
            for value in value.iter().chain(of_kwargs(field)).filter(|value| !value.is_null()) {
                all = all.and(read(field, value)?);
            }
        }
        Ok(all)
    }
}

/// Reader of a field.
type Reader = fn(&str, &Value) -> Result<Thinking, ApiError>;

/// Fields of OpenAI (`reasoning_effort`), vLLM and SGLang (`enable_thinking`, `include_reasoning`), Ollama (`think`),
/// Anthropic (`thinking`), OpenRouter (`reasoning`) and DashScope (`thinking_budget`).
const FIELDS: [(&str, Reader); 7] = [
    ("enable_thinking", switch),
    ("think", switch_or_effort),
    ("thinking", budget),
    ("thinking_budget", limit),
    ("reasoning", reasoning),
    ("reasoning_effort", effort),
    ("include_reasoning", visibility),
];

fn switch(field: &str, value: &Value) -> Result<Thinking, ApiError> {
    let on = value.as_bool().ok_or_else(|| ApiError::at(field, "must be true or false"))?;
    Ok(Thinking::switched(on))
}

/// Reads the name of an effort.
pub(crate) fn effort(field: &str, value: &Value) -> Result<Thinking, ApiError> {
    let effort = EFFORTS.iter().find(|(name, _)| value.as_str() == Some(name));
    match effort {
        Some((_, Some(max_tokens))) => Ok(Thinking::limited(*max_tokens)),
        Some((_, None)) => Ok(Thinking::switched(true)),
        None => {
            let names = EFFORTS.map(|(name, _)| name).join(", ");
            Err(ApiError::at(field, &format!("must be one of {names}")))
        }
    }
}

/// Reads true, false or an effort.
pub(crate) fn switch_or_effort(field: &str, value: &Value) -> Result<Thinking, ApiError> {
    match value {
        Value::Bool(on) => Ok(Thinking::switched(*on)),
        Value::String(_) => effort(field, value),
        _ => Err(ApiError::at(field, "must be true, false, or the name of an effort")),
    }
}

fn limit(field: &str, value: &Value) -> Result<Thinking, ApiError> {
    match value.as_u64() {
        Some(tokens) => Ok(Thinking::limited(usize::try_from(tokens).unwrap_or(usize::MAX))),
        None => Err(ApiError::at(field, "must be a number of tokens")),
    }
}

/// Reads `{"type": "enabled" | "adaptive" | "disabled", "budget_tokens"}`, or in template arguments true or false.
pub(crate) fn budget(field: &str, value: &Value) -> Result<Thinking, ApiError> {
    if let Value::Bool(on) = value {
        return Ok(Thinking::switched(*on));
    }
    let of = |name: &str| value.get(name).filter(|value| !value.is_null());
    let tokens = of("budget_tokens");
    let limited = tokens.map(|tokens| limit(&format!("{field}.budget_tokens"), tokens));
    let limited = limited.transpose()?.unwrap_or_default();
    match of("type").and_then(Value::as_str) {
        Some("enabled") => Ok(limited.and(Thinking::switched(true))),
        Some("adaptive") => Ok(Thinking { enabled: None, ..limited }),
        Some("disabled") => Ok(Thinking::OFF),
        _ => Err(ApiError::at(format!("{field}.type"), "must be enabled, adaptive or disabled")),
    }
}

/// Reads `{"effort", "max_tokens", "enabled", "exclude", "summary"}`. A summary is never written.
pub(crate) fn reasoning(field: &str, value: &Value) -> Result<Thinking, ApiError> {
    let fields = value.as_object().ok_or_else(|| ApiError::at(field, "must be an object"))?;
    let mut all = Thinking::default();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let field = format!("{field}.{name}");
        all = all.and(match name.as_str() {
            "enabled" => switch(&field, value)?,
            "effort" => effort(&field, value)?,
            "max_tokens" => limit(&field, value)?,
            "exclude" => hiding(&field, value)?,
            "summary" | "generate_summary" => Thinking::default(),
            _ => {
                let what = "expected effort, max_tokens, enabled, exclude or summary";
                return Err(ApiError::at(field, &format!("unknown field: {what}")));
            }
        });
    }
    Ok(all)
}

fn hiding(field: &str, value: &Value) -> Result<Thinking, ApiError> {
    let is_hidden = value.as_bool().ok_or_else(|| ApiError::at(field, "must be true or false"))?;
    Ok(Thinking { is_hidden, ..Thinking::default() })
}

fn visibility(field: &str, value: &Value) -> Result<Thinking, ApiError> {
    let thinking = hiding(field, value)?;
    Ok(Thinking { is_hidden: !thinking.is_hidden, ..thinking })
}

/// Names of the fields that clients send earlier thinking back in.
const REPLAYED: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// Renames the thinking of an earlier message to the field that templates read, and drops it from all others.
pub(crate) fn rename_replayed(message: &mut JsonObject) {
    let values: Vec<Value> = REPLAYED.iter().filter_map(|name| message.remove(*name)).collect();
    let texts =
        values.into_iter().filter(|value| value.as_str().is_some_and(|text| !text.is_empty()));
    if let Some(text) = texts.into_iter().next() {
        message.insert(REPLAYED[0].to_owned(), text);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn taken(fields: Value, kwargs: Value) -> Result<(Option<bool>, Option<usize>, bool), String> {
        let (Value::Object(mut extra), Value::Object(kwargs)) = (fields, kwargs) else { panic!() };
        let thinking = Thinking::take(&mut extra, Some(&kwargs)).map_err(|error| error.message)?;
        assert!(extra.is_empty(), "the fields are removed");
        Ok((thinking.enabled, thinking.max_tokens, thinking.is_hidden))
    }

    #[test]
    fn every_field_turns_thinking_on_off_or_limits_it() {
        let (on, off) = (Some(true), Some(false));
        for (fields, expected) in [
            (json!({}), (None, None, false)),
            (json!({"reasoning_effort": "none"}), (off, None, false)),
            (json!({"reasoning_effort": "low"}), (on, Some(512), false)),
            (json!({"reasoning_effort": "medium"}), (on, Some(2048), false)),
            (json!({"reasoning_effort": "high"}), (on, None, false)),
            (json!({"think": false}), (off, None, false)),
            (json!({"think": "minimal"}), (on, Some(256), false)),
            (json!({"enable_thinking": true, "thinking_budget": 9}), (on, Some(9), false)),
            (json!({"thinking_budget": 0}), (off, None, false)),
            (json!({"thinking": {"type": "enabled", "budget_tokens": 7}}), (on, Some(7), false)),
            (json!({"thinking": {"type": "adaptive"}}), (None, None, false)),
            (json!({"thinking": {"type": "disabled"}}), (off, None, false)),
            (json!({"reasoning": {"effort": "high", "max_tokens": 5}}), (on, Some(5), false)),
            (json!({"reasoning": {"enabled": false, "summary": "auto"}}), (off, None, false)),
            (json!({"reasoning": {"exclude": true}}), (None, None, true)),
            (json!({"include_reasoning": false}), (None, None, true)),
            (json!({"include_reasoning": true, "think": null}), (None, None, false)),
        ] {
            assert_eq!(taken(fields.clone(), json!({})), Ok(expected), "{fields}");
        }
        let kwargs = json!({"enable_thinking": false, "other": 1});
        assert_eq!(taken(json!({}), kwargs.clone()), Ok((off, None, false)));
        let both = taken(json!({"enable_thinking": true}), kwargs);
        assert_eq!(both, Ok((on, None, false)), "the field of the request counts");
    }

    #[test]
    fn invalid_values_are_rejected_by_name() {
        for (fields, expected) in [
            (json!({"reasoning_effort": "huge"}), "reasoning_effort: must be one of none"),
            (json!({"enable_thinking": 1}), "enable_thinking: must be true or false"),
            (json!({"thinking_budget": -1}), "thinking_budget: must be a number of tokens"),
            (json!({"thinking": {"type": "on"}}), "thinking.type: must be enabled"),
            (
                json!({"thinking": {"type": "enabled", "budget_tokens": "9"}}),
                "thinking.budget_tokens",
            ),
            (json!({"reasoning": "high"}), "reasoning: must be an object"),
            (json!({"reasoning": {"efort": "high"}}), "reasoning.efort: unknown field"),
            (json!({"think": 3}), "think: must be true, false"),
        ] {
            let message = taken(fields.clone(), json!({})).unwrap_err();
            assert!(message.contains(expected), "{fields}: {message}");
        }
    }

    #[test]
    fn earlier_thinking_gets_the_name_that_templates_read() {
        for (message, expected) in [
            (json!({"reasoning": "a"}), json!({"reasoning_content": "a"})),
            (json!({"thinking": "b", "reasoning": ""}), json!({"reasoning_content": "b"})),
            (
                json!({"reasoning_content": "c", "reasoning": "d", "name": "n"}),
                json!({"name": "n", "reasoning_content": "c"}),
            ),
            (json!({"reasoning_content": null}), json!({})),
        ] {
            let Value::Object(mut fields) = message else { panic!() };
            rename_replayed(&mut fields);
            assert_eq!(Value::Object(fields), expected);
        }
    }
}
