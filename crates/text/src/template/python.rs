//! Behaviour of Jinja2 where `minijinja` differs: chat templates are written for Python.
//!
//! Values print as in Python, white space is what Python strips, and no filter builds a string whose length is
//! given by a number.

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, FormatStyle, Output, State, Value, format_filter};
use minijinja_contrib::pycompat;

use super::MAX_WIDTH;
use super::values::to_str;
use super::words::{capitalize, strip, strip_end, strip_start, title, title_method};

pub(super) fn install(environment: &mut Environment<'_>) {
    environment.set_unknown_method_callback(call_method);
    environment.set_formatter(print);
    environment.remove_global("debug");
    // No template needs these, and `[1] | batch(10 ** 12)` allocates all memory.
    environment.remove_filter("batch");
    environment.remove_filter("slice");
    environment.add_filter("string", to_str);
    environment.add_filter("format", |format: &str, args: Rest<Value>| {
        checked_format(FormatStyle::Printf, format, &args)
    });
    environment.add_filter("indent", indent);
    environment.add_filter("capitalize", capitalize);
    environment.add_filter("title", title);
    environment.add_filter("trim", |text: &str, chars: Option<&str>| strip(text, chars).to_owned());
    // In Python, strings and mappings have a length and items, and `True` is a number.
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
    });
    environment.add_test("number", |value: &Value| {
        matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
    });
}

/// `{{ value }}`
fn print(out: &mut Output<'_>, _: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    let printed = match value.as_str() {
        Some(text) => out.write_str(text),
        None => out.write_str(&to_str(value)?),
    };
    printed.map_err(Error::from)
}

/// Calls a method of a built-in Python type.
fn call_method(
    state: &State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if let Some(text) = value.as_str()
        && let Some(result) = call_str_method(text, method, args)
    {
        return result;
    }
    pycompat::unknown_method_callback(state, value, method, args)
}

/// Calls a method of `str` that `pycompat` lacks or implements differently.
fn call_str_method(text: &str, method: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let argument = args.first().and_then(Value::as_str);
    let result = match (method, args) {
        ("strip", [] | [_]) => strip(text, argument),
        ("lstrip", [] | [_]) => strip_start(text, argument),
        ("rstrip", [] | [_]) => strip_end(text, argument),
        ("removeprefix", [_]) => text.strip_prefix(argument?).unwrap_or(text),
        ("removesuffix", [_]) => text.strip_suffix(argument?).unwrap_or(text),
        ("capitalize", []) => return Some(Ok(capitalize(text).into())),
        ("title", []) => return Some(Ok(title_method(text).into())),
        ("format", _) => {
            return Some(checked_format(FormatStyle::StrFormat, text, args).map(Value::from));
        }
        _ => return None,
    };
    Some(Ok(result.into()))
}

/// Implements `'%s' | format(…)` and `'{}'.format(…)`, except for large widths and widths outside of the format.
fn checked_format(style: FormatStyle, format: &str, args: &[Value]) -> Result<String, Error> {
    let widest = format.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    if widest > 3 || format.contains('*') || format.contains(":{") {
        let what = format!("format {format:?}: widths must be numbers up to {MAX_WIDTH}");
        return Err(Error::new(ErrorKind::InvalidOperation, what));
    }
    format_filter(style, format, args)
}

/// Implements the `indent` filter: spaces before every line but the first.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the engine hands filter arguments over by value"
)]
fn indent(
    text: &str,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    options: Kwargs,
) -> Result<String, Error> {
    let width = width.or(options.get("width")?).unwrap_or(4);
    let first = first.or(options.get("first")?).unwrap_or(false);
    let blank = blank.or(options.get("blank")?).unwrap_or(false);
    options.assert_all_used()?;
    let spaces = " ".repeat(width.min(MAX_WIDTH));
    let mut out = String::new();
    for (at, line) in text.split('\n').enumerate() {
        out.push_str(if at > 0 { "\n" } else { "" });
        if if at == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&spaces);
        }
        out.push_str(line);
    }
    Ok(out)
}
