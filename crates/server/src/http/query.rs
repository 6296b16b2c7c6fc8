//! Values in the query of a URL.

/// Returns the value of a field, decoded, or `None` if the query does not have it or it is not UTF-8.
pub(crate) fn query_value(query: &str, field: &str) -> Option<String> {
    let fields = query.split('&').filter_map(|part| part.split_once('='));
    let (_, value) = fields.into_iter().find(|(name, _)| *name == field)?;
    decode(value)
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let value = |query| query_value(query, "model");
        assert_eq!(value("model=a"), Some("a".to_owned()));
        assert_eq!(value("x=1&model=a%2Fb+c%20d%C3%A9&y"), Some("a/b c d\u{e9}".to_owned()));
        for none in ["", "model", "models=a", "model=%", "model=%4", "model=%zz", "model=%ff"] {
            assert_eq!(value(none), None, "{none}");
        }
    }
}
