//! JSON schemas: where there are others inside, and words that ask for nothing.

use serde_json::{Map, Value, json};

use super::BadGrammar;

/// Words whose values are schemas, lists of them, or schemas by name.
const ONE: [&str; 3] = ["items", "additionalProperties", "contains"];
const LIST: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
pub(super) const NAMED: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];

/// Formats that have a meaning. All others are notes to the reader, by the rules of JSON Schema.
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

/// The schemas that a schema of these words has inside.
pub(super) fn inner(words: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    words.iter().flat_map(|(word, value)| -> Box<dyn Iterator<Item = &Value>> {
        match (word.as_str(), value) {
            (word, value) if ONE.contains(&word) => Box::new(std::iter::once(value)),
            (word, Value::Array(all)) if LIST.contains(&word) => Box::new(all.iter()),
            (word, Value::Object(all)) if NAMED.contains(&word) => Box::new(all.values()),
            _ => Box::new(std::iter::empty()),
        }
    })
}

/// The same, to be changed.
pub(super) fn inner_mut(words: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    words.iter_mut().flat_map(|(word, value)| -> Box<dyn Iterator<Item = &mut Value>> {
        match (word.as_str(), value) {
            (word, value) if ONE.contains(&word) => Box::new(std::iter::once(value)),
            (word, Value::Array(all)) if LIST.contains(&word) => Box::new(all.iter_mut()),
            (word, Value::Object(all)) if NAMED.contains(&word) => Box::new(all.values_mut()),
            _ => Box::new(std::iter::empty()),
        }
    })
}

/// Takes words away that allow everything. Those who read schemas may not know them, and would refuse.
pub(super) fn drop_idle_words(schema: &mut Value) {
    let Value::Object(words) = schema else { return };
    words.retain(|word, value| !is_idle(word, value));
    inner_mut(words).for_each(drop_idle_words);
}

/// The most digits that a multiple may have after the point, because `llguidance` counts remainders in
/// 32 bits; and the largest multiple as a whole number then, because it has a state for each remainder.
const MOST_PLACES: i32 = 8;
const LARGEST_MULTIPLE: f64 = 1000.0;
/// The largest of two for one value, which are multiplied with each other.
const LARGEST_JOINED: f64 = 65_535.0;

/// Refuses multiples that cannot be counted.
pub(super) fn check_multiples(schema: &Value, is_joined: bool) -> Result<(), BadGrammar> {
    let mut all = Vec::new();
    multiples(schema, &mut all);
    all.sort_unstable_by(f64::total_cmp);
    all.dedup();
    let is_whole = |value: f64| (value - value.round()).abs() <= value * 1e-12;
    let places = |value: f64| (0..=MOST_PLACES).find(|&n| is_whole(value * 10_f64.powi(n)));
    let most = all.iter().filter_map(|&value| places(value)).max().unwrap_or(0);
    let bad = all.iter().find(|&&value| {
        let alone = places(value).is_none_or(|n| value * 10_f64.powi(n) > LARGEST_MULTIPLE);
        let joined = is_joined && value * 10_f64.powi(most) > LARGEST_JOINED;
        alone || (joined && all.len() > 1) || (is_joined && all.len() > 2)
    });
    match bad {
        None => Ok(()),
        Some(value) => Err(BadGrammar::new(format!(
            "multipleOf: {value} has too many digits, or is one too many where schemas are joined"
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
    fn multiples_that_cannot_be_counted_are_named() {
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
    fn only_words_that_allow_everything_go() {
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
        drop_idle_words(&mut schema);
        assert_eq!(schema, expected);
    }
}
