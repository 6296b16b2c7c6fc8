//! Measures JSON before it is parsed, because a tree of values can take a hundred times the bytes of its text.

use serde_json::Value;

use super::type_errors::in_json_terms;

/// Maximum number of values in JSON that is inside of strings.
const MAX_INNER_VALUES: usize = 64 << 10;

/// Size of a JSON text by its structure. A text that is not JSON has some size, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JsonSize {
    /// Nesting depth of arrays and objects.
    pub(crate) depth: usize,
    /// Number of arrays, objects, and fields of objects.
    pub(crate) parts: usize,
    /// Number of all values.
    pub(crate) values: usize,
    /// Number of numbers in arrays, such as token ids.
    pub(crate) numbers: usize,
}

impl JsonSize {
    pub(crate) fn of(text: &[u8]) -> Self {
        let mut size = Self::default();
        let mut depth = 0_usize;
        let mut bytes = text.iter();
        // True after the start of an array and after a comma: where an item begins.
        let mut is_at_item = false;
        while let Some(byte) = bytes.next() {
            if byte.is_ascii_whitespace() {
                continue;
            }
            size.numbers += usize::from(is_at_item && matches!(byte, b'-' | b'0'..=b'9'));
            is_at_item = matches!(byte, b'[' | b',');
            match byte {
                b'"' => skip_string(&mut bytes),
                b'{' | b'[' => {
                    depth += 1;
                    size.depth = size.depth.max(depth);
                    size.parts += 1;
                    // The first item has no comma before it.
                    size.values += 1;
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b':' => size.parts += 1,
                b',' => size.values += 1,
                _ => {}
            }
        }
        size
    }
}

/// Parses JSON that a field has in a string.
pub(crate) fn parse_inner(text: &str) -> Result<Value, String> {
    check_inner([text])?;
    serde_json::from_str(text).map_err(|error| in_json_terms(&error))
}

/// Limits the values in strings that are parsed as JSON.
pub(crate) fn check_inner<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let values = texts.into_iter().map(|text| JsonSize::of(text.as_bytes()).values);
    match values.sum::<usize>() {
        0..=MAX_INNER_VALUES => Ok(()),
        _ => Err(format!("JSON in a string has more values than the limit of {MAX_INNER_VALUES}")),
    }
}

/// Skips the rest of a string, up to its closing quote.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_in_strings_is_limited() {
        assert_eq!(parse_inner("{\"a\": 1}"), Ok(serde_json::json!({"a": 1})));
        let many = format!("[{}]", vec!["0"; MAX_INNER_VALUES + 1].join(","));
        assert!(parse_inner(&many).unwrap_err().contains("limit of 65536"));
        let half = format!("[{}]", vec!["0"; MAX_INNER_VALUES / 2 + 1].join(","));
        assert!(check_inner([&*half]).is_ok());
        assert!(check_inner([&*half, &*half]).is_err(), "together");
    }

    #[test]
    fn numbers_in_arrays_are_counted() {
        let numbers = |text: &str| JsonSize::of(text.as_bytes()).numbers;
        assert_eq!(numbers("[1, -2 ,\n30, \"4\", null, [5.5e1], {\"a\": 6, \"b\": 7}]"), 4);
        assert_eq!(numbers("12"), 0);
    }

    #[test]
    fn structure_is_measured_outside_of_strings() {
        let size = |text: &str| {
            let JsonSize { depth, parts, values, .. } = JsonSize::of(text.as_bytes());
            (depth, parts, values)
        };
        assert_eq!(size(r#"{"a": [1, 2, {"b": "[[,:{\"[["}]}"#), (3, 5, 5));
        assert_eq!(size(r#""[\\""#), (0, 0, 0));
        assert_eq!(size("[[],[]]"), (2, 3, 4));
        assert_eq!(size("]]}{\"unfinished"), (1, 1, 1));
    }
}
