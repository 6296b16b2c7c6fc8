//! Errors of `serde` in the terms of JSON. Its own messages name types of this program, which no client knows.

use serde_json::Error;

/// Maximum number of characters of a value in a message.
const MAX_SHOWN: usize = 80;

/// Describes a value of the wrong type, or a text that is not JSON.
pub(crate) fn in_json_terms(error: &Error) -> String {
    let message = error.to_string();
    let message = without_position(&message);
    if let Some(rest) = message.strip_prefix("invalid type: ")
        && let Some((found, expected)) = rest.rsplit_once(", expected ")
    {
        return format!("expected {}, found {}", json_type(expected), shown(found));
    }
    if let Some(rest) = message.strip_prefix("invalid value: ")
        && let Some((found, expected)) = rest.rsplit_once(", expected ")
    {
        return format!("expected {}, found {}", json_range(expected), shown(found));
    }
    if let Some(rest) = message.strip_prefix("invalid length ")
        && let Some((len, expected)) = rest.split_once(", expected ")
    {
        return format!("expected {}, found a list of {len}", json_type(expected));
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        return cut(&format!("unknown value {rest}"), 4 * MAX_SHOWN);
    }
    cut(message, 4 * MAX_SHOWN)
}

/// True for the error that a field is missing.
pub(crate) fn is_missing(error: &Error) -> bool {
    error.to_string().starts_with("missing field")
}

/// Removes the position, which counts from the start of a field and not of the body.
fn without_position(message: &str) -> &str {
    match message.rsplit_once(" at line ") {
        Some((start, position)) if position.contains(" column ") => start,
        _ => message,
    }
}

/// Returns the name of a type.
fn json_type(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a non-negative integer",
        "i8" | "i16" | "i32" | "i64" | "isize" => "an integer",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        "string or map" => "a string",
        _ if expected.starts_with("struct ") => "an object",
        // A name of a variant without fields is a string in JSON.
        _ if expected.starts_with("enum ") || expected.starts_with("variant ") => "a string",
        other => other,
    }
}

/// Returns the name of a type and the range of its values.
fn json_range(expected: &str) -> String {
    let range = match expected {
        "u8" => (0, i128::from(u8::MAX)),
        "u16" => (0, i128::from(u16::MAX)),
        "u32" => (0, i128::from(u32::MAX)),
        "u64" | "usize" => (0, i128::from(u64::MAX)),
        "i8" => (i128::from(i8::MIN), i128::from(i8::MAX)),
        "i16" => (i128::from(i16::MIN), i128::from(i16::MAX)),
        "i32" => (i128::from(i32::MIN), i128::from(i32::MAX)),
        "i64" | "isize" => (i128::from(i64::MIN), i128::from(i64::MAX)),
        other => return json_type(other).to_owned(),
    };
    match range {
        (0, max) => format!("a non-negative integer of at most {max}"),
        (min, max) => format!("an integer between {min} and {max}"),
    }
}

/// Returns a value that was found, as it is in JSON.
fn shown(found: &str) -> String {
    let quoted = |start: &str| found.strip_prefix(start)?.strip_prefix(" `")?.strip_suffix('`');
    let found = match found {
        "sequence" => "a list",
        "map" => "an object",
        "unit value" | "Option value" => "null",
        _ => ["integer", "floating point", "boolean"]
            .into_iter()
            .find_map(quoted)
            .or_else(|| found.strip_prefix("string "))
            .unwrap_or(found),
    };
    cut(found, MAX_SHOWN)
}

fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde::de::DeserializeOwned;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its errors are used")]
    struct Inner {
        name: String,
        color: Option<Color>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Color {
        Red,
        Blue,
    }

    fn message<T: DeserializeOwned + std::fmt::Debug>(json: &str) -> String {
        in_json_terms(&serde_json::from_str::<T>(json).unwrap_err())
    }

    #[test]
    fn types_are_those_of_json() {
        for (found, expected) in [
            (message::<u32>("\"hot\""), "expected a non-negative integer, found \"hot\""),
            (message::<u32>("1.5"), "expected a non-negative integer, found 1.5"),
            (
                message::<u32>("-1"),
                "expected a non-negative integer of at most 4294967295, found -1",
            ),
            (message::<i32>("[]"), "expected an integer, found a list"),
            (
                message::<i32>("3000000000"),
                "expected an integer between -2147483648 and 2147483647, found 3000000000",
            ),
            (message::<f32>("{}"), "expected a number, found an object"),
            (message::<bool>("1"), "expected true or false, found 1"),
            (message::<String>("null"), "expected a string, found null"),
            (message::<Vec<u32>>("true"), "expected a list, found true"),
            (message::<Inner>("7"), "expected an object, found 7"),
            (message::<BTreeMap<String, f32>>("7"), "expected an object, found 7"),
            (message::<Inner>("[]"), "expected an object, found a list of 0"),
            (message::<Inner>("{}"), "missing field `name`"),
            (
                message::<Inner>("{\"name\": \"\", \"color\": \"x\"}"),
                "unknown value `x`, expected `red` or `blue`",
            ),
            (message::<u32>("1e400"), "number out of range"),
            (
                message::<u32>("\", expected u8\""),
                "expected a non-negative integer, found \", expected u8\"",
            ),
        ] {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn long_values_are_cut() {
        let long = format!("\"{}\"", "é".repeat(100_000));
        assert!(message::<u32>(&long).len() < 300);
        assert!(message::<Color>(&long).len() < 1000);
    }

    #[test]
    fn names_of_types_do_not_occur() {
        for json in ["1", "\"x\"", "[]", "{}", "null", "true", "1.5", "[{}]"] {
            let messages = [
                serde_json::from_str::<Vec<Inner>>(json).map(drop),
                serde_json::from_str::<Inner>(json).map(drop),
                serde_json::from_str::<Color>(json).map(drop),
                serde_json::from_str::<Vec<Color>>(json).map(drop),
            ];
            for error in messages.into_iter().filter_map(Result::err) {
                let message = in_json_terms(&error);
                for word in ["struct", "enum", "Inner", "Color", "variant", "sequence", "map"] {
                    assert!(!message.contains(word), "{json}: {message}");
                }
            }
        }
    }
}
