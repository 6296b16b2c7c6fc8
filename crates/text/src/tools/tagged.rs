//! Tool calls whose names, and in one format whose arguments, are not JSON.

use serde_json::{Map, Value};

use super::ToolFormat;
use super::json::Call;

/// Mark between the name of a call and its arguments, as Mistral writes them since 2025.
const ARGUMENTS: &str = "[ARGS]";
/// Mark before an id between name and arguments.
const CALL_ID: &str = "[CALL_ID]";
/// Marks of Qwen-Coder.
pub(super) const FUNCTION: &str = "<function=";
pub(super) const FUNCTION_END: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const PARAMETER_END: &str = "</parameter>";
/// Maximum length of an id between name and arguments.
const MAX_ID: usize = 64;

/// Beginning of a possible call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// More text decides.
    Undecided,
    /// A call whose arguments follow after `len` bytes.
    Named { name: String, len: usize },
    /// A call as in Qwen-Coder.
    Function,
    /// JSON, or no call.
    Other,
}

/// Reads the beginning of a text after the marker of a call.
pub(super) fn beginning(text: &str, format: ToolFormat, names: &[String]) -> Beginning {
    match format {
        ToolFormat::Mistral => named(text, names),
        ToolFormat::Hermes if text.starts_with(FUNCTION) => Beginning::Function,
        ToolFormat::Hermes if FUNCTION.starts_with(text) => Beginning::Undecided,
        _ => Beginning::Other,
    }
}

fn named(text: &str, names: &[String]) -> Beginning {
    if let Some((head, _)) = text.split_once(ARGUMENTS) {
        let name = head.split_once(CALL_ID).map_or(head, |(name, _)| name).trim();
        return match names.iter().find(|known| *known == name) {
            Some(name) => {
                Beginning::Named { name: name.clone(), len: head.len() + ARGUMENTS.len() }
            }
            None => Beginning::Other,
        };
    }
    let begins = |name: &String| {
        let rest = text.strip_prefix(name.as_str()).map(str::trim_start);
        let is_id = |rest: &str| rest.starts_with(CALL_ID) && rest.len() < CALL_ID.len() + MAX_ID;
        let is_mark = |rest: &str| ARGUMENTS.starts_with(rest) || CALL_ID.starts_with(rest);
        name.starts_with(text) || rest.is_some_and(|rest| is_mark(rest) || is_id(rest))
    };
    if names.iter().any(begins) { Beginning::Undecided } else { Beginning::Other }
}

/// Names of a tool's parameters that are text, whatever their value looks like.
pub(super) type TextParameters = Vec<String>;

/// Parses `<function=name><parameter=key>value</parameter>…</function>`. Returns `None` if it is no call of a known tool.
pub(super) fn function(text: &str, names: &[String], texts: &[TextParameters]) -> Option<Call> {
    let (name, mut rest) = text.strip_prefix(FUNCTION)?.split_once('>')?;
    let name = name.trim().trim_matches('"');
    let at = names.iter().position(|known| known == name)?;
    let texts = texts.get(at).map_or(&[][..], Vec::as_slice);
    let mut arguments = Map::new();
    while let Some((_, parameter)) = rest.split_once(PARAMETER) {
        let (key, after) = parameter.split_once('>')?;
        // Some models forget to end a parameter.
        let ends = [PARAMETER_END, PARAMETER, FUNCTION_END];
        let end = ends.iter().filter_map(|end| after.find(end)).min().unwrap_or(after.len());
        let key = key.trim().trim_matches('"').to_owned();
        let value = value(&after[..end], texts.contains(&key));
        arguments.insert(key, value);
        rest = &after[end..];
    }
    Some(Call { name: name.to_owned(), arguments: Value::Object(arguments).to_string() })
}

/// Reads a value: JSON, if it is any and the parameter is not text.
fn value(text: &str, is_text: bool) -> Value {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    let json = serde_json::from_str::<Value>(text.trim()).ok().filter(|_| !is_text);
    json.unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["f".into(), "get_weather".into()]
    }

    #[test]
    fn a_name_is_followed_by_its_arguments() {
        let begin = |text| beginning(text, ToolFormat::Mistral, &names());
        let named = |name: &str, len| Beginning::Named { name: name.into(), len };
        assert_eq!(begin("f[ARGS]{"), named("f", 7));
        assert_eq!(begin("get_weather[CALL_ID]a1[ARGS]"), named("get_weather", 28));
        for text in ["get_", "f", "f[", "f[CALL", "f[CALL_ID]abc", "f[AR"] {
            assert_eq!(begin(text), Beginning::Undecided, "{text}");
        }
        for text in ["[{\"name\"", "x[ARGS]{}", "hello", "f(x)", "fx"] {
            assert_eq!(begin(text), Beginning::Other, "{text}");
        }
    }

    #[test]
    fn functions_have_parameters() {
        let begin = |text| beginning(text, ToolFormat::Hermes, &names());
        assert_eq!(begin("<func"), Beginning::Undecided);
        assert_eq!(begin("<function=f"), Beginning::Function);
        assert_eq!(begin("{\"name\""), Beginning::Other);
        let text = "<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\ntwo\nlines\n</parameter>\n\
                    <parameter=c>7</parameter><parameter=d>[true, null]</function>";
        let texts = [vec!["c".to_owned()], Vec::new()];
        let call = function(text, &names(), &texts).unwrap();
        assert_eq!(call.name, "f");
        assert_eq!(call.arguments, r#"{"a":1,"b":"two\nlines","c":"7","d":[true,null]}"#);
        assert_eq!(function("<function=f></function>", &names(), &texts).unwrap().arguments, "{}");
        assert_eq!(function("<function=g></function>", &names(), &texts), None);
        assert_eq!(function("<function=f", &names(), &texts), None);
    }
}
