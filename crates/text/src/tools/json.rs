//! Tool calls as JSON.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    /// JSON object, verbatim.
    pub(super) arguments: String,
}

#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
}

const FIELDS: [&str; 5] = ["name", "arguments", "parameters", "type", "id"];

/// Parses a JSON text of one call or a list. Returns `None` unless all of it is calls of these tools.
pub(super) fn calls(json: &str, names: &[String]) -> Option<Vec<Call>> {
    let written: Vec<&RawValue> = match json.starts_with('[') {
        true => serde_json::from_str(json).ok()?,
        false => vec![serde_json::from_str(json).ok()?],
    };
    let calls = written.into_iter().map(|one| call(one.get()));
    let calls: Option<Vec<Call>> = calls.collect();
    calls.filter(|calls| !calls.is_empty() && calls.iter().all(|call| names.contains(&call.name)))
}

pub(super) fn call(json: &str) -> Option<Call> {
    let Written { name, arguments, parameters } = serde_json::from_str(json).ok()?;
    let arguments = match arguments.or(parameters).map(RawValue::get) {
        None => "{}".to_owned(),
        Some(object) if object.starts_with('{') => object.to_owned(),
        // Some models put JSON into a string.
        Some(text) => {
            let inner: String = serde_json::from_str(text).ok()?;
            serde_json::from_str::<serde_json::Map<_, _>>(&inner).ok()?;
            inner
        }
    };
    Some(Call { name: name.into_owned(), arguments })
}

/// Returns `true` if a text with this beginning can become a call or a list of calls. The name of the first field
/// decides.
pub(super) fn may_be_call(json: &str) -> bool {
    let object = match json.strip_prefix('[') {
        Some(list) => list.trim_start(),
        None => json,
    };
    let Some(inner) = object.strip_prefix('{') else { return object.is_empty() };
    let Some(field) = inner.trim_start().strip_prefix('"') else {
        return inner.trim_start().is_empty();
    };
    match field.split_once('"') {
        Some((name, _)) => FIELDS.contains(&name),
        None => FIELDS.iter().any(|name| name.starts_with(field)),
    }
}

/// Scans JSON byte by byte for the end of its first value.
#[derive(Debug, Default)]
pub(super) struct Brackets {
    pub(super) depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Brackets {
    /// Scans the next byte. Returns `true` if it is a bracket outside of strings.
    pub(super) fn step(&mut self, byte: u8) -> bool {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        matches!(byte, b'{' | b'[' | b'}' | b']')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(json: &str) -> Option<Vec<(String, String)>> {
        let names = ["f".to_owned(), "g \"h\"".to_owned()];
        calls(json, &names).map(|all| all.into_iter().map(|c| (c.name, c.arguments)).collect())
    }

    fn one(name: &str, arguments: &str) -> Option<Vec<(String, String)>> {
        Some(vec![(name.to_owned(), arguments.to_owned())])
    }

    #[test]
    fn arguments_are_kept_verbatim() {
        let call = r#"{"name": "f", "arguments": {"a" : 1e400,"b": "é\n"}}"#;
        assert_eq!(found(call), one("f", r#"{"a" : 1e400,"b": "é\n"}"#));
        assert_eq!(found(r#"{"arguments": {}, "name": "f"}"#), one("f", "{}"));
        assert_eq!(found(r#"{"type": "function", "name": "f", "parameters": {}}"#), one("f", "{}"));
        assert_eq!(found(r#"{"name": "g \"h\""}"#), one("g \"h\"", "{}"));
        assert_eq!(found(r#"{"name": "f", "arguments": "{\"a\": 1}"}"#), one("f", r#"{"a": 1}"#));
        let list = r#"[{"name": "f"}, {"name": "f", "arguments": {"a": [1]}}]"#;
        assert_eq!(found(list).unwrap()[1].1, r#"{"a": [1]}"#);
    }

    #[test]
    fn rejects_what_is_not_a_call_of_a_known_tool() {
        for json in [
            r#"{"name": "x", "arguments": {}}"#,
            r#"{"name": "f", "arguments": [1]}"#,
            r#"{"name": "f", "arguments": "no"}"#,
            r#"{"name": 1}"#,
            r#"{"name": "f", "arguments": {"a": }}"#,
            r#"[{"name": "f"}, {"name": "x"}]"#,
            "[]",
            "{}",
            "",
        ] {
            assert_eq!(found(json), None, "{json}");
        }
    }

    #[test]
    fn the_first_field_decides() {
        for json in ["{", "[", "[ {", "{\n  \"", "{\"na", "{\"name\": 1", "[{\"parameters\""] {
            assert!(may_be_call(json), "{json}");
        }
        for json in ["{}", "[1", "[[", "{\"city\"", "{\"naem", "{x"] {
            assert!(!may_be_call(json), "{json}");
        }
    }
}
