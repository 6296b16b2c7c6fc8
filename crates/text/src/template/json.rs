//! The `tojson` filter as Transformers defines it.

use std::fmt::Write as _;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::{MAX_PRINT_DEPTH, MAX_WIDTH, deeper};

/// Writes `json.dumps(value, ensure_ascii=False, …)`. Unlike the filter of Jinja2, that of Transformers does not
/// escape for HTML.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the engine hands filter arguments over by value"
)]
pub(super) fn to_json(
    value: &Value,
    positional: Rest<Value>,
    options: Kwargs,
) -> Result<String, Error> {
    let ensure_ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let indent = match positional.first() {
        Some(_) if positional.len() > 1 => return Err(Error::from(ErrorKind::TooManyArguments)),
        Some(indent) => Some(indent.clone()),
        None => options.get("indent")?,
    };
    let indent = match indent {
        Some(indent) if !indent.is_none() => Some(usize::try_from(indent)?),
        _ => None,
    };
    let separators = match options.get::<Option<Vec<String>>>("separators")?.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => {
            let what = "tojson: separators must be a pair of strings";
            return Err(Error::new(ErrorKind::InvalidOperation, what));
        }
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let mut json = JsonWriter {
        out: String::new(),
        indent: indent.map(|spaces| " ".repeat(spaces.min(MAX_WIDTH))),
        separators,
        sort_keys,
        ensure_ascii,
    };
    json.write(value, 0)?;
    Ok(json.out)
}

struct JsonWriter {
    out: String,
    indent: Option<String>,
    /// Separators between items, and between a key and its value.
    separators: (String, String),
    sort_keys: bool,
    ensure_ascii: bool,
}

impl JsonWriter {
    fn write(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        deeper(MAX_PRINT_DEPTH.saturating_sub(depth))?;
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => {
                let _ = write!(self.out, "{value}");
            }
            ValueKind::String => self.write_string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.collect::<Vec<_>>();
                self.write_items('[', ']', depth, &items, |json, item| {
                    json.write(item, depth + 1)
                })?;
            }
            ValueKind::Map => {
                let mut keys = value.try_iter()?.collect::<Vec<_>>();
                if self.sort_keys {
                    keys.sort();
                }
                self.write_items('{', '}', depth, &keys, |json, key| {
                    json.write_string(&key.to_string());
                    json.out.push_str(&json.separators.1);
                    json.write(&value.get_item(key)?, depth + 1)
                })?;
            }
            kind => {
                let what = format!("tojson: {kind} is not JSON");
                return Err(Error::new(ErrorKind::InvalidOperation, what));
            }
        }
        Ok(())
    }

    fn write_items(
        &mut self,
        open: char,
        close: char,
        depth: usize,
        items: &[Value],
        mut write_item: impl FnMut(&mut Self, &Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.out.push(open);
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.out.push_str(&self.separators.0);
            }
            self.break_line(depth + 1);
            write_item(self, item)?;
        }
        if !items.is_empty() {
            self.break_line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    fn break_line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            (0..depth).for_each(|_| self.out.push_str(indent));
        }
    }

    fn write_string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || self.ensure_ascii && c > '~' => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}
