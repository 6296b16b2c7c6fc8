//! Values as text: the `tojson` filter as Transformers defines it, and `str` of Python.

use std::fmt::Write as _;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::MAX_WIDTH;

/// Maximum nesting of values that can be printed. JSON from a request is at most 128 deep.
const MAX_PRINT_DEPTH: usize = 200;

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
    let mut json = Writer {
        out: String::new(),
        indent: indent.map(|spaces| " ".repeat(spaces.min(MAX_WIDTH))),
        separators,
        sort_keys,
        notation: Notation::Json { ensure_ascii },
    };
    json.write(value, 0)?;
    Ok(json.out)
}

/// `str(value)`
pub(super) fn to_str(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    if value.is_undefined() {
        return Ok(String::new());
    }
    let separators = (", ".to_owned(), ": ".to_owned());
    let (out, notation) = (String::new(), Notation::Python);
    let mut repr = Writer { out, indent: None, separators, sort_keys: false, notation };
    repr.write(value, 0)?;
    Ok(repr.out)
}

struct Writer {
    out: String,
    indent: Option<String>,
    /// Separators between items, and between a key and its value.
    separators: (String, String),
    sort_keys: bool,
    notation: Notation,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Notation {
    Json {
        ensure_ascii: bool,
    },
    /// `repr(value)`
    Python,
}

impl Writer {
    fn write(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth >= MAX_PRINT_DEPTH {
            let what = format!("a value nested more than {MAX_PRINT_DEPTH} deep cannot be printed");
            return Err(Error::new(ErrorKind::InvalidOperation, what));
        }
        let is_python = self.notation == Notation::Python;
        let [none, yes, no] =
            if is_python { ["None", "True", "False"] } else { ["null", "true", "false"] };
        match value.kind() {
            ValueKind::None => self.out.push_str(none),
            ValueKind::Bool => self.out.push_str(if value.is_true() { yes } else { no }),
            ValueKind::String => self.write_string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.collect::<Vec<_>>();
                self.write_items(['[', ']'], depth, &items, |out, item| {
                    out.write(item, depth + 1)
                })?;
            }
            ValueKind::Map => {
                let mut keys = value.try_iter()?.collect::<Vec<_>>();
                if self.sort_keys {
                    keys.sort();
                }
                self.write_items(['{', '}'], depth, &keys, |out, key| {
                    match is_python {
                        true => out.write(key, depth + 1)?,
                        false => out.write_string(&key.to_string()),
                    }
                    out.out.push_str(&out.separators.1);
                    out.write(&value.get_item(key)?, depth + 1)
                })?;
            }
            ValueKind::Undefined if is_python => self.out.push_str("Undefined"),
            kind if is_python || kind == ValueKind::Number => {
                let _ = write!(self.out, "{value}");
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
        [open, close]: [char; 2],
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

    /// Writes a string in quotes: in Python single ones, unless that would need escapes.
    fn write_string(&mut self, text: &str) {
        let is_python = self.notation == Notation::Python;
        let is_single = is_python && (text.contains('"') || !text.contains('\''));
        let quote = if is_single { '\'' } else { '"' };
        self.out.push(quote);
        for c in text.chars() {
            match (c, self.notation) {
                ('\\', _) => self.out.push_str("\\\\"),
                ('\n', _) => self.out.push_str("\\n"),
                ('\r', _) => self.out.push_str("\\r"),
                ('\t', _) => self.out.push_str("\\t"),
                (c, _) if c == quote => self.out.extend(['\\', c]),
                ('\0'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}', Notation::Python) => {
                    let _ = write!(self.out, "\\x{:02x}", c as u32);
                }
                ('\u{8}', _) => self.out.push_str("\\b"),
                ('\u{c}', _) => self.out.push_str("\\f"),
                (c, Notation::Json { ensure_ascii }) if c < ' ' || ensure_ascii && c > '~' => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                (c, _) => self.out.push(c),
            }
        }
        self.out.push(quote);
    }
}
