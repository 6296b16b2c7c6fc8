//! The `tojson` filter as Transformers defines it.

use std::rc::Rc;

use super::args::{Args, flag, int, text};
use super::budget::{Budget, Text};
use super::failure::Failure;
use super::format::MAX_WIDTH;
use super::print::{float_repr, write_str};
use super::value::Value;

/// `json.dumps(value, ensure_ascii=False, …)`: unlike the filter of Jinja2, Transformers' does not escape
/// for HTML.
pub(super) fn to_json(
    budget: &Rc<Budget>,
    value: &Value,
    args: &Args<'_>,
) -> Result<Value, Failure> {
    let names = ["indent", "ensure_ascii", "separators", "sort_keys"];
    let [indent, ensure_ascii, separators, sort_keys] = args.bind("tojson", names)?;
    let indent = int("tojson(indent)", indent)?;
    let indent = indent.map(|spaces| usize::try_from(spaces).unwrap_or(0).min(MAX_WIDTH));
    let (between_items, after_key) = match separators {
        None | Some(Value::None) => (if indent.is_some() { "," } else { ", " }, ": "),
        Some(Value::List(pair)) if pair.len() == 2 => {
            (text("tojson(separators)", pair.first())?, text("tojson(separators)", pair.last())?)
        }
        Some(_) => return Err(Failure::new("tojson: separators are a pair of strings")),
    };
    let mut json = JsonWriter {
        budget,
        out: Text::new(budget)?,
        indent: indent.map(|spaces| " ".repeat(spaces)),
        between_items,
        after_key,
        sort_keys: flag(sort_keys),
        ensure_ascii: flag(ensure_ascii),
    };
    json.write(value, 0)?;
    Ok(json.out.into())
}

struct JsonWriter<'a> {
    budget: &'a Budget,
    out: Text,
    indent: Option<String>,
    between_items: &'a str,
    after_key: &'a str,
    sort_keys: bool,
    ensure_ascii: bool,
}

impl JsonWriter<'_> {
    fn write(&mut self, value: &Value, depth: usize) -> Result<(), Failure> {
        match value {
            Value::None => self.out.push_str("null"),
            Value::Bool(truth) => self.out.push_str(if *truth { "true" } else { "false" }),
            Value::Int(int) => self.out.push_str(&int.to_string()),
            Value::Float(float) if float.is_nan() => self.out.push_str("NaN"),
            Value::Float(float) if float.is_infinite() => {
                self.out.push_str(if *float > 0.0 { "Infinity" } else { "-Infinity" })
            }
            Value::Float(float) => self.out.push_str(&float_repr(*float)),
            Value::Str(text) => self.write_string(text),
            Value::List(list) => self.write_items(['[', ']'], depth, list.iter(), |json, item| {
                json.write(item, depth + 1)
            }),
            Value::Dict(dict) => {
                let mut pairs: Vec<&(Value, Value)> = dict.iter().collect();
                if self.sort_keys {
                    let bytes = pairs.iter().map(|(key, _)| key.as_str().map_or(0, str::len));
                    self.budget.sort(pairs.len(), bytes.sum())?;
                    pairs.sort_by_key(|(key, _)| key.as_str());
                }
                self.write_items(['{', '}'], depth, pairs.into_iter(), |json, (key, field)| {
                    let mut name = json.out.beside()?;
                    write_str(key, &mut name)?;
                    json.write_string(&name)?;
                    json.out.push_str(json.after_key)?;
                    json.write(field, depth + 1)
                })
            }
            other => Err(Failure::new(format!("tojson: {} is not JSON", other.kind()))),
        }
    }

    fn write_items<T>(
        &mut self,
        [open, close]: [char; 2],
        depth: usize,
        items: impl ExactSizeIterator<Item = T>,
        mut write_item: impl FnMut(&mut Self, T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.out.push(open)?;
        let is_empty = items.len() == 0;
        for (at, item) in items.enumerate() {
            if at > 0 {
                self.out.push_str(self.between_items)?;
            }
            self.break_line(depth + 1)?;
            write_item(self, item)?;
        }
        if !is_empty {
            self.break_line(depth)?;
        }
        self.out.push(close)
    }

    fn break_line(&mut self, depth: usize) -> Result<(), Failure> {
        if let Some(indent) = &self.indent {
            self.out.push('\n')?;
            (0..depth).try_for_each(|_| self.out.push_str(indent))?;
        }
        Ok(())
    }

    fn write_string(&mut self, text: &str) -> Result<(), Failure> {
        self.out.push('"')?;
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\"")?,
                '\\' => self.out.push_str("\\\\")?,
                '\n' => self.out.push_str("\\n")?,
                '\r' => self.out.push_str("\\r")?,
                '\t' => self.out.push_str("\\t")?,
                '\u{8}' => self.out.push_str("\\b")?,
                '\u{c}' => self.out.push_str("\\f")?,
                c if c < ' ' || self.ensure_ascii && c > '~' => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.out.push_str(&format!("\\u{unit:04x}"))?;
                    }
                }
                c => self.out.push(c)?,
            }
        }
        self.out.push('"')
    }
}
