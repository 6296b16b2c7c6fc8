//! Filters: what may follow `|`.

use std::rc::Rc;

use super::args::{Args, flag, int, optional_text, text};
use super::budget::{Budget, Text};
use super::failure::Failure;
use super::format::{MAX_WIDTH, printf};
use super::json::to_json;
use super::methods::{pairs, replace, rewritten};
use super::operators::{self, arithmetic, items};
use super::predicates::check;
use super::print::{to_str, write_str};
use super::sorting;
use super::value::{List, Value};
use super::words;
use super::{ast::Operator, literal};

/// `value | name(…)`
pub(super) fn apply(
    budget: &Rc<Budget>,
    value: &Value,
    name: &str,
    args: &Args<'_>,
) -> Result<Value, Failure> {
    match name {
        "map" => map(budget, value, args),
        "select" | "reject" | "selectattr" | "rejectattr" => select(budget, value, name, args),
        _ => apply_simple(budget, value, name, args),
    }
}

/// Filters that do not use other filters, so that `map` cannot call itself.
fn apply_simple(
    budget: &Rc<Budget>,
    value: &Value,
    name: &str,
    args: &Args<'_>,
) -> Result<Value, Failure> {
    match name {
        "trim" | "upper" | "lower" | "capitalize" | "title" | "string" | "safe" | "escape"
        | "e" | "indent" | "replace" | "format" => text_filter(budget, value, name, args),
        "sort" | "unique" | "dictsort" | "min" | "max" => sorting::apply(budget, value, name, args),
        "int" | "float" | "abs" | "round" => number_filter(value, name, args),
        "tojson" => to_json(budget, value, args),
        "default" | "d" => {
            let [default, if_false] = args.bind(name, ["default_value", "boolean"])?;
            let missing = matches!(value, Value::Undefined) || flag(if_false) && !value.is_true();
            match default {
                _ if !missing => Ok(value.clone()),
                Some(default) => Ok(default.clone()),
                None => Value::str(budget, ""),
            }
        }
        "length" | "count" => length(budget, value),
        "items" => match value {
            Value::Dict(dict) => pairs(budget, dict),
            Value::Undefined => Value::list(budget, None),
            other => Err(Failure::new(format!("{} has no items", other.kind()))),
        },
        "list" => match value {
            Value::List(list) if !list.is_tuple() => Ok(value.clone()),
            _ => Value::list(budget, items(budget, value)?.iter().cloned().map(Ok)),
        },
        "first" | "last" => {
            let items = items(budget, value)?;
            let item = if name == "first" { items.first() } else { items.last() };
            Ok(item.cloned().unwrap_or(Value::Undefined))
        }
        "reverse" => {
            let is_text = matches!(value, Value::Str(_));
            let items = items(budget, value)?;
            let reversed = items.iter().rev();
            if !is_text {
                return Value::list(budget, reversed.cloned().map(Ok));
            }
            let mut out = Text::new(budget)?;
            reversed.filter_map(Value::as_str).try_for_each(|c| out.push_str(c))?;
            Ok(out.into())
        }
        "join" => join(budget, value, args),
        "sum" => {
            let [path, start] = args.bind(name, ["attribute", "start"])?;
            let mut sum = start.cloned().unwrap_or(Value::Int(0));
            for item in items(budget, value)?.iter() {
                budget.step(1)?;
                sum = arithmetic(budget, Operator::Add, &sum, &attribute(budget, item, path)?)?;
            }
            Ok(sum)
        }
        "attr" => {
            let [path] = args.bind(name, ["name"])?;
            attribute(budget, value, path)
        }
        _ => Err(Failure::new(format!("there is no filter {name:?}"))),
    }
}

fn length(budget: &Budget, value: &Value) -> Result<Value, Failure> {
    let length = match value {
        Value::Str(text) => {
            budget.scan(text.len())?;
            text.chars().count()
        }
        Value::List(list) => list.len(),
        Value::Dict(dict) => dict.len(),
        Value::Undefined => 0,
        other => return Err(Failure::new(format!("{} has no length", other.kind()))),
    };
    Ok(Value::Int(length as i128))
}

fn text_filter(
    budget: &Rc<Budget>,
    value: &Value,
    name: &str,
    args: &Args<'_>,
) -> Result<Value, Failure> {
    let value = to_str(budget, value)?;
    let this = value.as_str().unwrap_or_default();
    match name {
        "trim" => {
            let [chars] = args.bind(name, ["chars"])?;
            let chars = optional_text(name, chars)?;
            Value::str(budget, words::strip(budget, this, "strip", chars)?)
        }
        "upper" => rewritten(budget, this, words::upper),
        "lower" => rewritten(budget, this, words::lower),
        "capitalize" => rewritten(budget, this, words::capitalize),
        "title" => rewritten(budget, this, words::title),
        "escape" | "e" => rewritten(budget, this, write_escaped),
        "indent" => indent(budget, this, args),
        "replace" => {
            let [old, new, count] = args.bind(name, ["old", "new", "count"])?;
            let count = int(name, count)?.and_then(|count| usize::try_from(count).ok());
            replace(budget, this, text(name, old)?, text(name, new)?, count)
        }
        "format" => printf(budget, this, &args.positional),
        _ => Ok(value),
    }
}

/// HTML, as the `escape` filter writes it.
fn write_escaped(text: &str, out: &mut Text) -> Result<(), Failure> {
    text.chars().try_for_each(|c| match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '\'' => out.push_str("&#39;"),
        '"' => out.push_str("&#34;"),
        c => out.push(c),
    })
}

/// Spaces before every line but the first.
fn indent(budget: &Rc<Budget>, this: &str, args: &Args<'_>) -> Result<Value, Failure> {
    let [width, first, blank] = args.bind("indent", ["width", "first", "blank"])?;
    let spaces;
    let indent = match width {
        Some(Value::Str(indent)) => &indent[..],
        width => {
            let width = int("indent", width)?.unwrap_or(4);
            spaces = " ".repeat(usize::try_from(width).unwrap_or(0).min(MAX_WIDTH));
            &spaces
        }
    };
    let mut out = Text::new(budget)?;
    for (at, line) in this.split('\n').enumerate() {
        budget.step(1)?;
        out.push_str(if at > 0 { "\n" } else { "" })?;
        if if at == 0 { flag(first) } else { flag(blank) || !line.is_empty() } {
            out.push_str(indent)?;
        }
        out.push_str(line)?;
    }
    Ok(out.into())
}

fn join(budget: &Rc<Budget>, value: &Value, args: &Args<'_>) -> Result<Value, Failure> {
    let [separator, path] = args.bind("join", ["d", "attribute"])?;
    let separator = optional_text("join", separator)?.unwrap_or("");
    let mut out = Text::new(budget)?;
    for (at, item) in items(budget, value)?.iter().enumerate() {
        budget.step(1)?;
        out.push_str(if at > 0 { separator } else { "" })?;
        write_str(&attribute(budget, item, path)?, &mut out)?;
    }
    Ok(out.into())
}

fn number_filter(value: &Value, name: &str, args: &Args<'_>) -> Result<Value, Failure> {
    match name {
        "int" => {
            let [default] = args.bind(name, ["default"])?;
            let parsed = match value {
                Value::Str(text) => literal::parse_int(text),
                #[expect(clippy::cast_possible_truncation, reason = "as Python does")]
                Value::Float(float) if float.is_finite() => Some(*float as i128),
                other => other.as_int(),
            };
            let default = default.cloned().unwrap_or(Value::Int(0));
            Ok(parsed.map_or(default, Value::Int))
        }
        "float" => {
            let [default] = args.bind(name, ["default"])?;
            let parsed = match value {
                Value::Str(text) => text.trim().parse().ok(),
                other => other.as_float(),
            };
            let default = default.cloned().unwrap_or(Value::Float(0.0));
            Ok(parsed.map_or(default, Value::Float))
        }
        "abs" => match (value.as_int(), value.as_float()) {
            (Some(int), _) if int >= 0 => Ok(Value::Int(int)),
            (None, Some(float)) => Ok(Value::Float(float.abs())),
            _ => operators::negative(value),
        },
        _ => {
            let [precision, method] = args.bind(name, ["precision", "method"])?;
            let precision = int(name, precision)?.unwrap_or(0).clamp(-300, 300);
            let method = optional_text(name, method)?;
            if let (Value::Int(_), 0.., None | Some("common")) = (value, precision, method) {
                return Ok(value.clone());
            }
            let float = value.as_float();
            let float = float.ok_or_else(|| Failure::new("round needs a number"))?;
            // Read, not computed, so that it is the nearest number on every platform.
            let scale: f64 = format!("1e{precision}").parse().unwrap_or(1.0);
            let rounded = match method {
                Some("ceil") => (float * scale).ceil(),
                Some("floor") => (float * scale).floor(),
                _ => (float * scale).round_ties_even(),
            };
            Ok(Value::Float(rounded / scale))
        }
    }
}

/// The field of a value by a path such as `function.name`; without a path, the value.
pub(super) fn attribute(
    budget: &Rc<Budget>,
    value: &Value,
    path: Option<&Value>,
) -> Result<Value, Failure> {
    let path = match path {
        None | Some(Value::None) => return Ok(value.clone()),
        Some(Value::Str(path)) => path,
        Some(index) => return operators::item(budget, value, index),
    };
    let mut value = value.clone();
    for name in path.split('.') {
        budget.step(1)?;
        value = match (&value, name.parse()) {
            (_, Ok(index)) => operators::item(budget, &value, &Value::Int(index))?,
            (Value::Dict(dict), _) => dict.get_str(name)?.cloned().unwrap_or(Value::Undefined),
            _ => Value::Undefined,
        };
    }
    Ok(value)
}

/// What is in the value; nothing if it is not true, whatever it is.
fn items_if_any(budget: &Rc<Budget>, value: &Value) -> Result<Rc<List>, Failure> {
    items(budget, if value.is_true() { value } else { &Value::Undefined })
}

/// `map('filter', …)` or `map(attribute='path', default=…)`
fn map(budget: &Rc<Budget>, value: &Value, args: &Args<'_>) -> Result<Value, Failure> {
    let mut out = List::new(budget)?;
    let (filter, inner) = match args.positional.split_first() {
        Some((filter, rest)) => {
            let inner = args.with_positional(budget, rest)?;
            (Some(text("map", Some(filter))?), inner)
        }
        None => (None, Args::new(budget)?),
    };
    for item in items_if_any(budget, value)?.iter() {
        budget.step(1)?;
        out.push(match filter {
            Some(filter) => apply_simple(budget, item, filter, &inner)?,
            None => {
                match (attribute(budget, item, args.named("attribute"))?, args.named("default")) {
                    (Value::Undefined, Some(default)) => default.clone(),
                    (found, _) => found,
                }
            }
        })?;
    }
    Ok(out.into())
}

/// `select('test', …)` and `selectattr('path', 'test', …)`, and their opposites.
fn select(
    budget: &Rc<Budget>,
    value: &Value,
    name: &str,
    args: &Args<'_>,
) -> Result<Value, Failure> {
    let (path, rest) = match args.positional.split_first() {
        Some((path, rest)) if name.ends_with("attr") => (Some(path), rest),
        None if name.ends_with("attr") => {
            return Err(Failure::new(format!("{name} needs the name of a field")));
        }
        _ => (None, &args.positional[..]),
    };
    let (test, inner) = match rest.split_first() {
        Some((test, rest)) => {
            let inner = args.with_positional(budget, rest)?;
            (Some(text(name, Some(test))?), inner)
        }
        None => (None, Args::new(budget)?),
    };
    let mut out = List::new(budget)?;
    for item in items_if_any(budget, value)?.iter() {
        budget.step(1)?;
        let field = attribute(budget, item, path)?;
        let holds = match test {
            Some(test) => check(budget, &field, test, &inner)?,
            None => field.is_true(),
        };
        if holds == name.starts_with("select") {
            out.push(item.clone())?;
        }
    }
    Ok(out.into())
}
