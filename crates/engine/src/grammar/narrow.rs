//! Narrows schemas to their usual intent.
//!
//! A schema that names the fields of an object seldom wants others, and no number needs a hundred digits, but a
//! small model writes both for as long as it is allowed to. So an object with named fields has no others unless
//! the schema says so, and unbounded numbers get bounds. Every completion still matches the original schema.

use serde_json::{Map, Value};

use super::schema::{inner, inner_mut};

/// Largest integer that every JSON parser represents exactly.
const LARGEST: i64 = (1 << 53) - 1;
/// Smallest decimal place, and the smallest bound that is still useful with it.
const LAST_PLACE: f64 = 1e-8;
const SMALL_BOUND: f64 = 1e-6;

/// Keywords that apply several schemas to one value.
const JOINING: [&str; 10] = [
    "allOf",
    "anyOf",
    "oneOf",
    "$ref",
    "$dynamicRef",
    "if",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
    "not",
];
/// Keywords of objects and numbers that those schemas may contradict.
const JOINED: [&str; 13] = [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "dependentRequired",
];

/// Closes the objects of a schema and bounds its numbers. Where several schemas apply to one value, none of them
/// knows what the others allow, and nothing is changed.
pub(super) fn narrow(schema: &mut Value) {
    if !joins(schema) {
        narrow_all(schema);
    }
}

/// Returns `true` if several schemas apply to one value.
pub(super) fn joins(schema: &Value) -> bool {
    let Value::Object(words) = schema else { return false };
    let has = |names: &[&str]| names.iter().any(|name| words.contains_key(*name));
    words.contains_key("allOf") || (has(&JOINING) && has(&JOINED)) || inner(words).any(joins)
}

fn narrow_all(schema: &mut Value) {
    let Value::Object(words) = schema else { return };
    inner_mut(words).for_each(narrow_all);
    let lacks = |names: &[&str]| !names.iter().any(|name| words.contains_key(*name));
    let closes = words.get("properties").is_some_and(is_full)
        && lacks(&["additionalProperties", "patternProperties", "minProperties"]);
    let counts =
        is_a(words, &["number", "integer"]) && lacks(&JOINING) && lacks(&["const", "enum"]);
    let largest = bounds(words).fold(0.0, f64::max);
    let counts = counts && largest < LARGEST as f64;
    let from = counts && lacks(&["minimum", "exclusiveMinimum"]);
    let to = counts && lacks(&["maximum", "exclusiveMaximum"]);
    let is_fine = bounds(words).any(|bound| bound > 0.0 && bound < SMALL_BOUND);
    let places = counts && is_a(words, &["number"]) && lacks(&["multipleOf"]) && !is_fine;
    let added = [
        (closes, "additionalProperties", Value::Bool(false)),
        (from, "minimum", Value::from(-LARGEST)),
        (to, "maximum", Value::from(LARGEST)),
        (places, "multipleOf", Value::from(LAST_PLACE)),
    ];
    words.extend(
        added.into_iter().filter(|(is_added, ..)| *is_added).map(|(_, w, v)| (w.to_owned(), v)),
    );
}

/// Returns the absolute values of the bounds of a number.
fn bounds(words: &Map<String, Value>) -> impl Iterator<Item = f64> {
    let names = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
    names.into_iter().filter_map(|name| words.get(name)?.as_f64()).map(f64::abs)
}

/// Returns `true` if any field is named.
fn is_full(properties: &Value) -> bool {
    properties.as_object().is_some_and(|all| !all.is_empty())
}

fn is_a(words: &Map<String, Value>, kinds: &[&str]) -> bool {
    let is_one = |kind: &Value| kind.as_str().is_some_and(|kind| kinds.contains(&kind));
    match words.get("type") {
        Some(Value::Array(all)) => all.iter().any(is_one),
        Some(kind) => is_one(kind),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn narrowed(schema: &Value) -> Value {
        let mut schema = schema.clone();
        narrow(&mut schema);
        schema
    }

    #[test]
    fn objects_are_closed_and_numbers_bounded() {
        let schema = json!({
            "properties": {
                "a": {"type": "integer"},
                "b": {"type": ["number", "null"], "exclusiveMinimum": 0},
                "c": {"anyOf": [{"$ref": "#/$defs/d"}, {"type": "null"}], "default": {"properties": {"x": 1}}},
                "e": {"type": "array", "items": {"type": "object", "properties": {}}},
            },
            "$defs": {"d": {"type": "object", "properties": {"f": {"const": 1e300}}}},
        });
        let narrow = json!({
            "properties": {
                "a": {"type": "integer", "minimum": -LARGEST, "maximum": LARGEST},
                "b": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": LARGEST,
                      "multipleOf": 1e-8},
                "c": {"anyOf": [{"$ref": "#/$defs/d"}, {"type": "null"}], "default": {"properties": {"x": 1}}},
                "e": {"type": "array", "items": {"type": "object", "properties": {}}},
            },
            "$defs": {"d": {"type": "object", "properties": {"f": {"const": 1e300}},
                            "additionalProperties": false}},
            "additionalProperties": false,
        });
        assert_eq!(narrowed(&schema), narrow);
        assert_eq!(narrowed(&narrow), narrow);
    }

    #[test]
    fn explicit_and_joined_schemas_are_unchanged() {
        for schema in [
            json!({"properties": {"a": {}}, "additionalProperties": {}}),
            json!({"properties": {"a": {}}, "patternProperties": {"b": {}}}),
            json!({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}),
            json!({"properties": {"a": {}}, "anyOf": [{"properties": {"b": {}}}]}),
            json!({"$ref": "#/$defs/a", "properties": {}, "$defs": {"a": {"properties": {"b": {}}}}}),
            json!({"items": {"required": ["b"], "oneOf": [{"properties": {"b": {}}}]}}),
            json!({"type": "integer", "minimum": 1e17}),
            json!({"type": "number", "enum": [1e300]}),
            json!({"type": "number", "minimum": 0, "maximum": 1e-7}),
            json!(true),
        ] {
            assert_eq!(narrowed(&schema), schema);
        }
    }
}
