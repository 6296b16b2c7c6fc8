//! Values as Python prints them.

use std::rc::Rc;

use super::budget::{Budget, Text};
use super::failure::Failure;
use super::value::Value;

/// Appends `str(value)`.
pub(super) fn write_str(value: &Value, out: &mut Text) -> Result<(), Failure> {
    match value {
        Value::Str(text) => out.push_str(text),
        Value::Undefined => Ok(()),
        other => write_repr(other, out),
    }
}

/// `str(value)`
pub(super) fn to_str(budget: &Rc<Budget>, value: &Value) -> Result<Value, Failure> {
    if let Value::Str(_) = value {
        return Ok(value.clone());
    }
    let mut out = Text::new(budget)?;
    write_str(value, &mut out)?;
    Ok(out.into())
}

/// Appends `repr(value)`.
pub(super) fn write_repr(value: &Value, out: &mut Text) -> Result<(), Failure> {
    match value {
        Value::Undefined => out.push_str("Undefined"),
        Value::None => out.push_str("None"),
        Value::Bool(truth) => out.push_str(if *truth { "True" } else { "False" }),
        Value::Int(int) => out.push_str(&int.to_string()),
        Value::Float(float) => out.push_str(&float_repr(*float)),
        Value::Str(text) => write_quoted(text, out),
        Value::List(list) => {
            out.push_str(if list.is_tuple() { "(" } else { "[" })?;
            for (at, item) in list.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" })?;
                write_repr(item, out)?;
            }
            out.push_str(match (list.is_tuple(), list.len()) {
                (true, 1) => ",)",
                (true, _) => ")",
                (false, _) => "]",
            })
        }
        Value::Dict(dict) => {
            out.push('{')?;
            for (at, (key, value)) in dict.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" })?;
                write_repr(key, out)?;
                out.push_str(": ")?;
                write_repr(value, out)?;
            }
            out.push('}')
        }
        Value::Namespace(_) | Value::Loop(_) | Value::Macro(_) | Value::Function(_) => {
            out.push_str(&format!("<{}>", value.kind()))
        }
    }
}

/// `repr` of a number with a fraction: always with a point or an exponent of two digits or more.
pub(super) fn float_repr(float: f64) -> String {
    if float.is_nan() {
        return "nan".to_owned();
    }
    let shortest = format!("{float:?}");
    match shortest.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            let digits = digits.strip_suffix(".0").unwrap_or(digits);
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => shortest,
    }
}

/// A string as Python's `repr` quotes it: in single quotes unless that would need escapes.
fn write_quoted(text: &str, out: &mut Text) -> Result<(), Failure> {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote)?;
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\")?,
            '\n' => out.push_str("\\n")?,
            '\r' => out.push_str("\\r")?,
            '\t' => out.push_str("\\t")?,
            c if c == quote => {
                out.push('\\')?;
                out.push(c)?;
            }
            '\0'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}' => {
                out.push_str(&format!("\\x{:02x}", u32::from(c)))?;
            }
            c => out.push(c)?,
        }
    }
    out.push(quote)
}
