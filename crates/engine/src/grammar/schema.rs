//! JSON schemas: traversal, and keywords without effect.

use serde_json::{Map, Value, json};

use super::GrammarError;

/// Keyword of a schema in a Lark grammar.
pub(super) const JSON_KEYWORD: &str = "%json";

/// Keywords whose values are schemas, lists of schemas, or schemas by name.
const ONE: [&str; 3] = ["items", "additionalProperties", "contains"];
const LIST: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
pub(super) const NAMED: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];

/// Supported formats. By the rules of JSON Schema, all others are annotations.
const FORMATS: [&str; 19] = [
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uuid",
    "uri-template",
    "json-pointer",
    "relative-json-pointer",
    "regex",
];

/// Returns the subschemas of a schema.
pub(super) fn inner(words: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    words.iter().flat_map(|(word, value)| match (word.as_str(), value) {
        (word, value) if ONE.contains(&word) => vec![value],
        (word, Value::Array(all)) if LIST.contains(&word) => all.iter().collect(),
        (word, Value::Object(all)) if NAMED.contains(&word) => all.values().collect(),
        _ => Vec::new(),
    })
}

/// Returns the subschemas of a schema, mutably.
pub(super) fn inner_mut(words: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    words.iter_mut().flat_map(|(word, value)| match (word.as_str(), value) {
        (word, value) if ONE.contains(&word) => vec![value],
        (word, Value::Array(all)) if LIST.contains(&word) => all.iter_mut().collect(),
        (word, Value::Object(all)) if NAMED.contains(&word) => all.values_mut().collect(),
        _ => Vec::new(),
    })
}

/// Removes keywords that allow everything, which `llguidance` might reject as unknown.
pub(super) fn drop_idle_keywords(schema: &mut Value) {
    let Value::Object(words) = schema else { return };
    words.retain(|word, value| !is_idle(word, value));
    inner_mut(words).for_each(drop_idle_keywords);
}

/// Maximum number of decimal places of a multiple, because `llguidance` computes remainders in 32 bits, and the
/// largest multiple as an integer, because it has a state for each remainder.
const MAX_PLACES: i32 = 8;
const MAX_MULTIPLE: f64 = 1000.0;
/// Largest of two multiples for one value, which are multiplied.
const MAX_JOINED: f64 = 65_535.0;

/// Rejects multiples beyond the limits.
pub(super) fn check_multiples(schema: &Value, is_joined: bool) -> Result<(), GrammarError> {
    let mut all = Vec::new();
    multiples(schema, &mut all);
    all.sort_unstable_by(f64::total_cmp);
    all.dedup();
    let is_whole = |value: f64| (value - value.round()).abs() <= value * 1e-12;
    let places = |value: f64| (0..=MAX_PLACES).find(|&n| is_whole(value * 10_f64.powi(n)));
    let most = all.iter().filter_map(|&value| places(value)).max().unwrap_or(0);
    let bad = all.iter().find(|&&value| {
        let alone = places(value).is_none_or(|n| value * 10_f64.powi(n) > MAX_MULTIPLE);
        let joined = is_joined && value * 10_f64.powi(most) > MAX_JOINED;
        alone || (joined && all.len() > 1) || (is_joined && all.len() > 2)
    });
    match bad {
        None => Ok(()),
        Some(value) => Err(GrammarError::new(format!(
            "multipleOf is {value}: it has too many digits, or too many of them apply to one value"
        ))),
    }
}

fn multiples(schema: &Value, all: &mut Vec<f64>) {
    let Value::Object(words) = schema else { return };
    all.extend(words.get("multipleOf").and_then(Value::as_f64).filter(|value| *value > 0.0));
    inner(words).for_each(|schema| multiples(schema, all));
}

fn is_idle(word: &str, value: &Value) -> bool {
    match word {
        "uniqueItems" => *value == json!(false),
        "unevaluatedItems" | "unevaluatedProperties" => *value == json!(true),
        "propertyNames" => [json!(true), json!({}), json!({"type": "string"})].contains(value),
        "format" => value.as_str().is_some_and(|name| !FORMATS.contains(&name)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_beyond_the_limits_are_rejected() {
        let check = |schema: Value, joined| check_multiples(&schema, joined).is_ok();
        let one = |value: f64| json!({"items": {"multipleOf": value}});
        for value in [1.0, 0.01, 1e-8, 2.5, 1000.0, 0.1, 0.3, 7.0] {
            assert!(check(one(value), false), "{value}");
        }
        for value in [1e-9, 1e9, 1001.0, 0.123_456_789, 123_456.789_1] {
            assert!(!check(one(value), false), "{value}");
        }
        let two = |a: f64, b: f64| json!({"allOf": [{"multipleOf": a}, {"multipleOf": b}]});
        assert!(check(two(6.0, 0.5), true));
        assert!(!check(two(1e-8, 3.0), true));
    }

    #[test]
    fn only_keywords_without_effect_are_removed() {
        let mut schema = json!({
            "uniqueItems": false,
            "items": {"format": "password", "propertyNames": {"type": "string"}},
            "properties": {"format": {"format": "date"}, "uniqueItems": {"uniqueItems": true}},
            "enum": [{"uniqueItems": false}],
        });
        let expected = json!({
            "items": {},
            "properties": {"format": {"format": "date"}, "uniqueItems": {"uniqueItems": true}},
            "enum": [{"uniqueItems": false}],
        });
        drop_idle_keywords(&mut schema);
        assert_eq!(schema, expected);
    }
}
