//! Measures JSON before it is parsed, because a tree of values can take a hundred times the bytes of its text.

/// Size of a JSON text by its structure. A text that is not JSON has some size, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JsonSize {
    /// Nesting depth of arrays and objects.
    pub(crate) depth: usize,
    /// Number of arrays, objects, and fields of objects.
    pub(crate) parts: usize,
    /// Number of all values.
    pub(crate) values: usize,
}

impl JsonSize {
    pub(crate) fn of(text: &[u8]) -> Self {
        let mut size = Self::default();
        let mut depth = 0_usize;
        let mut bytes = text.iter();
        while let Some(byte) = bytes.next() {
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
    fn structure_is_measured_outside_of_strings() {
        let size = |text: &str| {
            let JsonSize { depth, parts, values } = JsonSize::of(text.as_bytes());
            (depth, parts, values)
        };
        assert_eq!(size(r#"{"a": [1, 2, {"b": "[[,:{\"[["}]}"#), (3, 5, 5));
        assert_eq!(size(r#""[\\""#), (0, 0, 0));
        assert_eq!(size("[[],[]]"), (2, 3, 4));
        assert_eq!(size("]]}{\"unfinished"), (1, 1, 1));
    }
}
