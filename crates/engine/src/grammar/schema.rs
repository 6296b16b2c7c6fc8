//! JSON schemas: where there are others inside, and words that ask for nothing.

use serde_json::{Map, Value, json};

/// Words whose values are schemas, lists of them, or schemas by name.
const ONE: [&str; 3] = ["items", "additionalProperties", "contains"];
const LIST: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
const NAMED: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];

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
pub(super) fn inner(words: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
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
    inner(words).for_each(drop_idle_words);
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
