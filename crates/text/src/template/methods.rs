//! Methods of Python's strings, mappings and lists.

use std::rc::Rc;

use super::args::{Args, flag, int, optional_text, text};
use super::budget::{Budget, Text};
use super::failure::Failure;
use super::format::str_format;
use super::operators::{equal, items};
use super::value::{Dict, List, Value};
use super::words;

/// `value.method(…)`; `None` if Python's type has no such method. Methods that change a value are not
/// there: Transformers does not let templates call them either.
pub(super) fn call(
    budget: &Rc<Budget>,
    value: &Value,
    method: &str,
    args: &Args<'_>,
) -> Result<Option<Value>, Failure> {
    match value {
        Value::Str(this) => str_method(budget, this, method, args),
        Value::Dict(this) => dict_method(budget, this, method, args),
        Value::List(this) => list_method(budget, this, method, args),
        _ => Ok(None),
    }
}

fn str_method(
    budget: &Rc<Budget>,
    this: &str,
    method: &str,
    args: &Args<'_>,
) -> Result<Option<Value>, Failure> {
    budget.scan(this.len())?;
    Ok(Some(match method {
        "upper" => rewritten(budget, this, words::upper)?,
        "lower" | "casefold" => rewritten(budget, this, words::lower)?,
        "swapcase" => rewritten(budget, this, words::swap_case)?,
        "capitalize" => rewritten(budget, this, words::capitalize)?,
        "title" => rewritten(budget, this, words::title_method)?,
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = args.bind(method, ["chars"])?;
            let chars = optional_text(method, chars)?;
            Value::str(budget, words::strip(budget, this, method, chars)?)?
        }
        "removeprefix" | "removesuffix" => {
            let [affix] = args.bind(method, ["affix"])?;
            let affix = text(method, affix)?;
            let cut = match method {
                "removeprefix" => this.strip_prefix(affix),
                _ => this.strip_suffix(affix),
            };
            Value::str(budget, cut.unwrap_or(this))?
        }
        "startswith" | "endswith" => {
            let [affix] = args.bind(method, ["affix"])?;
            Value::Bool(has_affix(budget, this, method, affix)?)
        }
        "split" | "rsplit" => {
            let [separator, max] = args.bind(method, ["sep", "maxsplit"])?;
            let separator = optional_text(method, separator)?;
            // A negative number means no limit.
            let max = int(method, max)?.and_then(|max| usize::try_from(max).ok());
            split(budget, this, separator, max.unwrap_or(usize::MAX), method == "rsplit")?
        }
        "splitlines" => {
            let [keep_ends] = args.bind(method, ["keepends"])?;
            split_lines(budget, this, flag(keep_ends))?
        }
        "replace" => {
            let [old, new, count] = args.bind(method, ["old", "new", "count"])?;
            let count = int(method, count)?.and_then(|count| usize::try_from(count).ok());
            replace(budget, this, text(method, old)?, text(method, new)?, count)?
        }
        "find" | "rfind" | "index" | "rindex" => {
            let [part] = args.bind(method, ["sub"])?;
            let part = text(method, part)?;
            let at = if method.starts_with('r') { this.rfind(part) } else { this.find(part) };
            match at {
                Some(at) => Value::Int(this[..at].chars().count() as i128),
                None if method.ends_with("find") => Value::Int(-1),
                None => return Err(Failure::new("substring not found")),
            }
        }
        "count" => {
            let [part] = args.bind(method, ["sub"])?;
            Value::Int(this.matches(text(method, part)?).count() as i128)
        }
        "join" => {
            let [parts] = args.bind(method, ["iterable"])?;
            let parts = items(budget, parts.unwrap_or(&Value::Undefined))?;
            let mut out = Text::new(budget)?;
            for (at, part) in parts.iter().enumerate() {
                budget.step(1)?;
                out.push_str(if at > 0 { this } else { "" })?;
                out.push_str(text(method, Some(part))?)?;
            }
            out.into()
        }
        "format" => str_format(budget, this, args)?,
        "isdigit" | "isnumeric" | "isdecimal" | "isalpha" | "isalnum" | "isspace" | "isupper"
        | "islower" => Value::Bool(words::has_only(this, method)),
        _ => return Ok(None),
    }))
}

/// The text that `write` makes of this one.
pub(super) fn rewritten(
    budget: &Rc<Budget>,
    text: &str,
    write: fn(&str, &mut Text) -> Result<(), Failure>,
) -> Result<Value, Failure> {
    let mut out = Text::new(budget)?;
    write(text, &mut out)?;
    Ok(out.into())
}

/// Whether the text starts or ends with a string, or with one of several.
fn has_affix(
    budget: &Budget,
    this: &str,
    method: &str,
    affix: Option<&Value>,
) -> Result<bool, Failure> {
    let affixes = match affix {
        Some(Value::List(list)) => &list[..],
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    for affix in affixes {
        let affix = text(method, Some(affix))?;
        budget.scan(affix.len())?;
        let found =
            if method == "startswith" { this.starts_with(affix) } else { this.ends_with(affix) };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `str.split` and `str.rsplit`
fn split(
    budget: &Rc<Budget>,
    this: &str,
    separator: Option<&str>,
    max: usize,
    from_end: bool,
) -> Result<Value, Failure> {
    let mut list = List::new(budget)?;
    let mut push = |part: &str| {
        budget.step(1)?;
        list.push(Value::str(budget, part)?)
    };
    let max = max.saturating_add(1);
    match (separator, from_end) {
        (Some(""), _) => return Err(Failure::new("split: the separator is empty")),
        (Some(separator), false) => this.splitn(max, separator).try_for_each(&mut push)?,
        (Some(separator), true) => this.rsplitn(max, separator).try_for_each(&mut push)?,
        (None, false) => {
            let mut rest = this.trim_start();
            let mut cuts = 1;
            while let Some((word, after)) =
                rest.split_once(char::is_whitespace).filter(|_| cuts < max)
            {
                push(word)?;
                rest = after.trim_start();
                cuts += 1;
            }
            if !rest.is_empty() {
                push(if cuts < max { rest.trim_end() } else { rest })?;
            }
        }
        (None, true) => {
            let mut rest = this.trim_end();
            let mut cuts = 1;
            while let Some((before, word)) =
                rest.rsplit_once(char::is_whitespace).filter(|_| cuts < max)
            {
                push(word)?;
                rest = before.trim_end();
                cuts += 1;
            }
            if !rest.is_empty() {
                push(rest)?;
            }
        }
    }
    if from_end {
        list.items_mut().reverse();
    }
    Ok(list.into())
}

fn split_lines(budget: &Rc<Budget>, this: &str, keep_ends: bool) -> Result<Value, Failure> {
    let mut list = List::new(budget)?;
    let mut rest = this;
    while !rest.is_empty() {
        budget.step(1)?;
        let line = rest.find(['\n', '\r']).unwrap_or(rest.len());
        let end = match &rest[line..] {
            tail if tail.starts_with("\r\n") => line + 2,
            "" => line,
            _ => line + 1,
        };
        list.push(Value::str(budget, if keep_ends { &rest[..end] } else { &rest[..line] })?)?;
        rest = &rest[end..];
    }
    Ok(list.into())
}

/// `str.replace`
pub(super) fn replace(
    budget: &Rc<Budget>,
    this: &str,
    old: &str,
    new: &str,
    count: Option<usize>,
) -> Result<Value, Failure> {
    budget.scan(this.len() + old.len())?;
    let mut out = Text::new(budget)?;
    let mut done = 0;
    for (at, found) in this.match_indices(old).take(count.unwrap_or(usize::MAX)) {
        budget.step(1)?;
        out.push_str(&this[done..at])?;
        out.push_str(new)?;
        done = at + found.len();
    }
    out.push_str(&this[done..])?;
    Ok(out.into())
}

fn dict_method(
    budget: &Rc<Budget>,
    this: &Dict,
    method: &str,
    args: &Args<'_>,
) -> Result<Option<Value>, Failure> {
    Ok(Some(match method {
        "get" => {
            let [key, default] = args.bind(method, ["key", "default"])?;
            let found = this.get(key.unwrap_or(&Value::None))?;
            found.or(default).cloned().unwrap_or(Value::None)
        }
        "items" => pairs(budget, this)?,
        "keys" => Value::list(budget, this.iter().map(|(key, _)| Ok(key.clone())))?,
        "values" => Value::list(budget, this.iter().map(|(_, value)| Ok(value.clone())))?,
        "copy" => {
            let mut copy = Dict::new(budget)?;
            this.iter().try_for_each(|(key, value)| copy.set(key.clone(), value.clone()))?;
            copy.into()
        }
        _ => return Ok(None),
    }))
}

/// Keys with their values.
pub(super) fn pairs(budget: &Rc<Budget>, dict: &Dict) -> Result<Value, Failure> {
    let pairs = dict.iter();
    Value::list(budget, pairs.map(|(key, value)| Value::pair(budget, key.clone(), value.clone())))
}

fn list_method(
    budget: &Rc<Budget>,
    this: &[Value],
    method: &str,
    args: &Args<'_>,
) -> Result<Option<Value>, Failure> {
    if !matches!(method, "index" | "count" | "copy") {
        return Ok(None);
    }
    if method == "copy" {
        return Value::list(budget, this.iter().cloned().map(Ok)).map(Some);
    }
    let [wanted] = args.bind(method, ["value"])?;
    let mut count = 0;
    for (at, item) in this.iter().enumerate() {
        if equal(budget, item, wanted.unwrap_or(&Value::Undefined))? {
            if method == "index" {
                return Ok(Some(Value::Int(at as i128)));
            }
            count += 1;
        }
    }
    if method == "index" {
        Err(Failure::new("the list has no such item"))
    } else {
        Ok(Some(Value::Int(count)))
    }
}
