//! `'%s' % …`, the `format` filter, and `str.format`.

use std::rc::Rc;

use super::args::Args;
use super::budget::{Budget, Text};
use super::failure::Failure;
use super::print::{float_repr, write_repr, write_str};
use super::value::Value;

/// Wider fields than this only serve to fill memory.
pub(super) const MAX_WIDTH: usize = 999;

/// How one value is written.
#[derive(Default)]
struct Spec {
    fill: Option<char>,
    /// `<`, `>` or `^`
    align: Option<char>,
    /// `+` or a space: what positive numbers begin with.
    plus: Option<char>,
    zero: bool,
    comma: bool,
    width: usize,
    precision: Option<usize>,
    /// `s`, `d`, `f`, …; none for what the value is.
    kind: Option<char>,
}

/// `template % arguments`
pub(super) fn printf(
    budget: &Rc<Budget>,
    template: &str,
    arguments: &[Value],
) -> Result<Value, Failure> {
    let mut out = Text::new(budget)?;
    let mut arguments = arguments.iter();
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at])?;
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%')?;
            rest = after;
            continue;
        }
        let mut spec = Spec::default();
        while let Some(flag) = rest.chars().next().filter(|c| "-+ 0#".contains(*c)) {
            match flag {
                '-' => spec.align = Some('<'),
                '+' | ' ' => spec.plus = Some(flag),
                '0' => spec.zero = true,
                _ => return Err(unsupported(template)),
            }
            rest = &rest[1..];
        }
        rest = spec.parse_width(rest, template)?;
        spec.kind = rest.chars().next();
        rest = &rest[spec.kind.map_or(0, char::len_utf8)..];
        let value = arguments.next().ok_or_else(|| Failure::new("format needs more arguments"))?;
        if spec.kind == Some('s') && spec.align.is_none() {
            spec.align = Some('>');
        }
        spec.write(value, template, &mut out)?;
    }
    if arguments.next().is_some() {
        return Err(Failure::new("format has too many arguments"));
    }
    out.push_str(rest)?;
    Ok(out.into())
}

/// `template.format(…)`
pub(super) fn str_format(
    budget: &Rc<Budget>,
    template: &str,
    args: &Args<'_>,
) -> Result<Value, Failure> {
    let mut out = Text::new(budget)?;
    let mut next = 0;
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at])?;
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            out.push_str(brace)?;
            rest = after;
            continue;
        }
        let end = rest.find('}').filter(|_| brace == "{").ok_or_else(|| unsupported(template))?;
        let field = &rest[..end];
        rest = &rest[end + 1..];
        let (name, spec) = field.split_once(':').unwrap_or((field, ""));
        let (name, conversion) = name.split_once('!').unwrap_or((name, ""));
        let value = match (name, name.parse::<usize>()) {
            ("", _) => {
                next += 1;
                args.positional.get(next - 1)
            }
            (_, Ok(at)) => args.positional.get(at),
            _ => args.named(name),
        };
        let value = value.ok_or_else(|| Failure::new(format!("format has no value {name:?}")))?;
        let mut spec = Spec::parse(spec, template)?;
        match conversion {
            "" => {}
            "s" | "r" => spec.kind = conversion.chars().next(),
            _ => return Err(unsupported(template)),
        }
        spec.write(value, template, &mut out)?;
    }
    out.push_str(rest)?;
    Ok(out.into())
}

fn unsupported(template: &str) -> Failure {
    Failure::new(format!("format {template:?} is not supported"))
}

impl Spec {
    /// `[[fill]align][sign][0][width][,][.precision][type]`
    fn parse(text: &str, template: &str) -> Result<Self, Failure> {
        let mut spec = Spec::default();
        let is_align = |c: &char| "<>^".contains(*c);
        let mut chars = text.chars();
        let (first, second) = (chars.next(), chars.next());
        let mut rest = text;
        if let (Some(fill), Some(align)) = (first, second.filter(is_align)) {
            (spec.fill, spec.align) = (Some(fill), Some(align));
            rest = &rest[fill.len_utf8() + 1..];
        } else if let Some(align) = first.filter(is_align) {
            spec.align = Some(align);
            rest = &rest[1..];
        }
        spec.plus = rest.chars().next().filter(|c| "+ ".contains(*c));
        rest = rest.strip_prefix(['+', ' ', '-']).unwrap_or(rest);
        spec.zero = rest.starts_with('0');
        rest = spec.parse_width(rest, template)?;
        let mut kinds = rest.chars();
        spec.kind = kinds.next();
        if kinds.next().is_some() { Err(unsupported(template)) } else { Ok(spec) }
    }

    /// `[width][,][.precision]`, both at most [`MAX_WIDTH`].
    fn parse_width<'a>(&mut self, text: &'a str, template: &str) -> Result<&'a str, Failure> {
        let number = |text: &'a str| {
            let len = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            let number = if len == 0 { Ok(0) } else { text[..len].parse() };
            match number {
                Ok(number) if number <= MAX_WIDTH => Ok((number, &text[len..])),
                _ => Err(Failure::new(format!(
                    "format {template:?}: widths are numbers up to {MAX_WIDTH}"
                ))),
            }
        };
        let (width, mut rest) = number(text)?;
        self.width = width;
        if let Some(after) = rest.strip_prefix(',') {
            self.comma = true;
            rest = after;
        }
        if let Some(after) = rest.strip_prefix('.') {
            let (precision, after) = number(after)?;
            self.precision = Some(precision);
            rest = after;
        }
        Ok(rest)
    }

    fn write(&self, value: &Value, template: &str, out: &mut Text) -> Result<(), Failure> {
        let number = match (self.kind, value.as_int(), value) {
            (Some('d' | 'i'), Some(int), _) => Some(int.to_string()),
            #[expect(clippy::cast_possible_truncation, reason = "as Python does for %d")]
            (Some('d' | 'i'), None, Value::Float(float)) => Some((*float as i128).to_string()),
            (Some('x'), Some(int), _) => Some(format!("{int:x}")),
            (Some('X'), Some(int), _) => Some(format!("{int:X}")),
            (Some('o'), Some(int), _) => Some(format!("{int:o}")),
            (Some('b'), Some(int), _) => Some(format!("{int:b}")),
            (Some('f' | 'F'), _, _) => {
                value.as_float().map(|float| format!("{float:.*}", self.precision.unwrap_or(6)))
            }
            (Some('%'), _, _) => value
                .as_float()
                .map(|float| format!("{:.*}%", self.precision.unwrap_or(6), float * 100.0)),
            (None, _, Value::Int(int)) => Some(int.to_string()),
            (None, _, Value::Float(float)) => match self.precision {
                Some(_) => return Err(unsupported(template)),
                None => Some(float_repr(*float)),
            },
            (None | Some('s' | 'r'), _, _) => return self.write_text(value, out),
            _ => None,
        };
        let number = number.ok_or_else(|| unsupported(template))?;
        self.write_number(&number, out)
    }

    fn write_number(&self, number: &str, out: &mut Text) -> Result<(), Failure> {
        let (minus, digits) = match number.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, number),
        };
        let sign = if minus { Some('-') } else { self.plus };
        let digits = if self.comma { with_commas(digits) } else { digits.to_owned() };
        let len = digits.len() + usize::from(sign.is_some());
        let padding = self.width.saturating_sub(len);
        let zeros = if self.zero && self.align.is_none() { padding } else { 0 };
        let before = match self.align {
            Some('<') => 0,
            Some('^') => padding / 2,
            _ => padding - zeros,
        };
        self.pad(before, out)?;
        sign.map_or(Ok(()), |sign| out.push(sign))?;
        out.push_str(&"0".repeat(zeros))?;
        out.push_str(&digits)?;
        self.pad(padding - zeros - before, out)
    }

    fn write_text(&self, value: &Value, out: &mut Text) -> Result<(), Failure> {
        let mut text = out.beside()?;
        match self.kind {
            Some('r') => write_repr(value, &mut text)?,
            _ => write_str(value, &mut text)?,
        }
        let cut = self.precision.and_then(|chars| text.char_indices().nth(chars));
        let text = cut.map_or(&text[..], |(end, _)| &text[..end]);
        let padding = self.width.saturating_sub(text.chars().count());
        let before = match self.align {
            Some('>') => padding,
            Some('^') => padding / 2,
            _ => 0,
        };
        self.pad(before, out)?;
        out.push_str(text)?;
        self.pad(padding - before, out)
    }

    fn pad(&self, count: usize, out: &mut Text) -> Result<(), Failure> {
        (0..count).try_for_each(|_| out.push(self.fill.unwrap_or(' ')))
    }
}

/// `1234567.5` → `1,234,567.5`
fn with_commas(digits: &str) -> String {
    let whole = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let mut out = String::new();
    for (at, c) in digits.char_indices() {
        if at > 0 && at < whole && (whole - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}
