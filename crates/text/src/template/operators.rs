//! What operators do to values, as Python does it.

use std::cmp::Ordering;
use std::rc::Rc;

use super::ast::{Comparison, Operator};
use super::budget::{Budget, Text};
use super::failure::Failure;
use super::format;
use super::value::{List, Value};

/// `a operator b`
pub(super) fn arithmetic(
    budget: &Rc<Budget>,
    operator: Operator,
    a: &Value,
    b: &Value,
) -> Result<Value, Failure> {
    match (operator, a, b) {
        (Operator::Add, Value::Str(a), Value::Str(b)) => {
            let mut text = Text::new(budget)?;
            text.push_str(a)?;
            text.push_str(b)?;
            return Ok(text.into());
        }
        (Operator::Add, Value::List(a), Value::List(b)) if a.is_tuple() == b.is_tuple() => {
            let mut sum = List::new(budget)?;
            for item in a.iter().chain(b.iter()) {
                budget.step(1)?;
                sum.push(item.clone())?;
            }
            return Ok(if a.is_tuple() { sum.into_tuple() } else { sum.into() });
        }
        (Operator::Multiply, Value::Str(_) | Value::List(_), times)
        | (Operator::Multiply, times, Value::Str(_) | Value::List(_)) => {
            if let Some(times) = times.as_int() {
                let repeated = if matches!(a, Value::Str(_) | Value::List(_)) { a } else { b };
                return repeat(budget, repeated, times);
            }
        }
        (Operator::Remainder, Value::Str(template), arguments) => {
            return match arguments {
                Value::List(list) if list.is_tuple() => format::printf(budget, template, list),
                one => format::printf(budget, template, std::slice::from_ref(one)),
            };
        }
        _ => {}
    }
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        return int_arithmetic(operator, x, y);
    }
    match (a.as_float(), b.as_float()) {
        (Some(x), Some(y)) => float_arithmetic(operator, x, y),
        _ => Err(Failure::new(format!("{} and {} have no {operator:?}", a.kind(), b.kind()))),
    }
}

fn repeat(budget: &Rc<Budget>, repeated: &Value, times: i128) -> Result<Value, Failure> {
    // A count beyond the budget fails on the way.
    let times = if repeated.is_true() { times } else { 0 };
    match repeated {
        Value::Str(text) => {
            let mut out = Text::new(budget)?;
            for _ in 0..times {
                budget.step(1)?;
                out.push_str(text)?;
            }
            Ok(out.into())
        }
        Value::List(list) => {
            Value::list(budget, (0..times).flat_map(|_| list.iter().cloned().map(Ok)))
        }
        other => Err(Failure::new(format!("{} cannot be repeated", other.kind()))),
    }
}

fn int_arithmetic(operator: Operator, x: i128, y: i128) -> Result<Value, Failure> {
    if y == 0 && matches!(operator, Operator::Divide | Operator::FloorDivide | Operator::Remainder)
    {
        return Err(Failure::new("division by zero"));
    }
    let result = match operator {
        Operator::Add => x.checked_add(y),
        Operator::Subtract => x.checked_sub(y),
        Operator::Multiply => x.checked_mul(y),
        Operator::FloorDivide => x.checked_div(y).map(|quotient| {
            let exact = x.checked_rem(y) == Some(0);
            if exact || (x < 0) == (y < 0) { quotient } else { quotient - 1 }
        }),
        Operator::Remainder => x.checked_rem(y).map(|remainder| {
            let same_sign = remainder == 0 || (remainder < 0) == (y < 0);
            if same_sign { remainder } else { remainder + y }
        }),
        Operator::Power if y >= 0 => u32::try_from(y).ok().and_then(|y| x.checked_pow(y)),
        #[expect(clippy::cast_precision_loss, reason = "as Python divides")]
        Operator::Divide | Operator::Power => {
            return float_arithmetic(operator, x as f64, y as f64);
        }
    };
    result.map(Value::Int).ok_or_else(|| Failure::new("a number is too large"))
}

fn float_arithmetic(operator: Operator, x: f64, y: f64) -> Result<Value, Failure> {
    if y == 0.0
        && matches!(operator, Operator::Divide | Operator::FloorDivide | Operator::Remainder)
    {
        return Err(Failure::new("division by zero"));
    }
    Ok(Value::Float(match operator {
        Operator::Add => x + y,
        Operator::Subtract => x - y,
        Operator::Multiply => x * y,
        Operator::Divide => x / y,
        Operator::FloorDivide => (x / y).floor(),
        Operator::Remainder => x - y * (x / y).floor(),
        // The last digits would depend on the platform, and so would the prompt.
        Operator::Power => return Err(Failure::new("fractions have no powers here")),
    }))
}

/// `-value`
pub(super) fn negative(value: &Value) -> Result<Value, Failure> {
    match (value.as_int(), value.as_float()) {
        (Some(int), _) => int_arithmetic(Operator::Subtract, 0, int),
        (_, Some(float)) => Ok(Value::Float(-float)),
        _ => Err(Failure::new(format!("{} has no sign", value.kind()))),
    }
}

/// `a comparison b`
pub(super) fn compare(
    budget: &Budget,
    comparison: Comparison,
    a: &Value,
    b: &Value,
) -> Result<bool, Failure> {
    Ok(match comparison {
        Comparison::Equal => equal(budget, a, b)?,
        Comparison::NotEqual => !equal(budget, a, b)?,
        Comparison::In => contains(budget, b, a)?,
        Comparison::NotIn => !contains(budget, b, a)?,
        Comparison::Less => order(budget, a, b)? == Some(Ordering::Less),
        Comparison::LessOrEqual => order(budget, a, b)?.is_some_and(Ordering::is_le),
        Comparison::Greater => order(budget, a, b)? == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => order(budget, a, b)?.is_some_and(Ordering::is_ge),
    })
}

/// `a == b`
pub(super) fn equal(budget: &Budget, a: &Value, b: &Value) -> Result<bool, Failure> {
    budget.step(1)?;
    Ok(match (a, b) {
        (Value::Undefined, Value::Undefined) | (Value::None, Value::None) => true,
        (Value::Str(a), Value::Str(b)) => {
            budget.scan(a.len().min(b.len()))?;
            a[..] == b[..]
        }
        (Value::List(a), Value::List(b)) => {
            if a.len() != b.len() || a.is_tuple() != b.is_tuple() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal(budget, a, b)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Dict(a), Value::Dict(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (key, value) in a.iter() {
                match b.get(key)? {
                    Some(other) if equal(budget, value, other)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Value::Namespace(a), Value::Namespace(b)) => a == b,
        (Value::Loop(a), Value::Loop(b)) => Rc::ptr_eq(a, b),
        (Value::Macro(a), Value::Macro(b)) => a == b,
        (Value::Function(a), Value::Function(b)) => a == b,
        _ => match (a.as_int(), b.as_int()) {
            (Some(a), Some(b)) => a == b,
            #[expect(clippy::float_cmp, reason = "this is what the template asks for")]
            _ => matches!((a.as_float(), b.as_float()), (Some(a), Some(b)) if a == b),
        },
    })
}

/// Which of two numbers or texts comes first; `None` if one is not a number at all.
pub(super) fn order(budget: &Budget, a: &Value, b: &Value) -> Result<Option<Ordering>, Failure> {
    if let (Value::Str(a), Value::Str(b)) = (a, b) {
        budget.scan(a.len().min(b.len()))?;
        return Ok(Some(a.cmp(b)));
    }
    if let (Some(a), Some(b)) = (a.as_int(), b.as_int()) {
        return Ok(Some(a.cmp(&b)));
    }
    match (a.as_float(), b.as_float()) {
        (Some(a), Some(b)) => Ok(a.partial_cmp(&b)),
        _ => Err(Failure::new(format!("{} and {} have no order", a.kind(), b.kind()))),
    }
}

/// `item in container`
pub(super) fn contains(budget: &Budget, container: &Value, item: &Value) -> Result<bool, Failure> {
    match (container, item) {
        (Value::Str(text), Value::Str(part)) => {
            budget.scan(text.len() + part.len())?;
            Ok(text.contains(&part[..]))
        }
        (Value::List(list), _) => {
            for other in list.iter() {
                if equal(budget, item, other)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Value::Dict(dict), _) => Ok(dict.get(item)?.is_some()),
        (Value::Undefined, _) => Ok(false),
        _ => Err(Failure::new(format!("{} cannot be in {}", item.kind(), container.kind()))),
    }
}

/// `value[index]`
pub(super) fn item(budget: &Rc<Budget>, value: &Value, index: &Value) -> Result<Value, Failure> {
    Ok(match (value, index.as_int()) {
        (Value::Dict(dict), _) => dict.get(index)?.cloned().unwrap_or(Value::Undefined),
        (Value::List(list), Some(index)) => {
            let at = position(index, list.len());
            at.and_then(|at| list.get(at)).cloned().unwrap_or(Value::Undefined)
        }
        (Value::Str(text), Some(index)) => {
            budget.scan(text.len())?;
            let at = position(index, text.chars().count());
            match at.and_then(|at| text.chars().nth(at)) {
                Some(c) => Value::str(budget, c.encode_utf8(&mut [0; 4]))?,
                None => Value::Undefined,
            }
        }
        _ => Value::Undefined,
    })
}

/// The place of an index that may count from the end.
fn position(index: i128, len: usize) -> Option<usize> {
    usize::try_from(if index < 0 { index + len as i128 } else { index }).ok()
}

/// `value[start:stop:step]`
pub(super) fn slice(
    budget: &Rc<Budget>,
    value: &Value,
    bounds: &[Value; 3],
) -> Result<Value, Failure> {
    let mut ints = [None; 3];
    for (int, bound) in ints.iter_mut().zip(bounds) {
        *int = match bound {
            Value::None => None,
            Value::Int(int) => Some(*int),
            other => return Err(Failure::new(format!("a slice cannot end at {}", other.kind()))),
        };
    }
    let [start, stop, step] = ints;
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Failure::new("a slice cannot have a step of 0"));
    }
    let places = |len: usize| {
        let len = len as i128;
        let (lowest, highest) = if step > 0 { (0, len) } else { (-1, len - 1) };
        let clamp = |bound: i128| {
            (if bound < 0 { bound.saturating_add(len) } else { bound }).clamp(lowest, highest)
        };
        let first = start.map_or(if step > 0 { lowest } else { highest }, clamp);
        let end = stop.map_or(if step > 0 { highest } else { lowest }, clamp);
        std::iter::successors(Some(first), move |at| at.checked_add(step))
            .take_while(move |at| if step > 0 { *at < end } else { *at > end })
            .filter_map(|at| usize::try_from(at).ok())
    };
    match value {
        Value::Str(text) if step == 1 => {
            budget.scan(text.len())?;
            let mut range = places(text.chars().count());
            let Some(first) = range.next() else { return Value::str(budget, "") };
            let count = 1 + range.count();
            let rest = text.char_indices().nth(first).map_or("", |(at, _)| &text[at..]);
            let end = rest.char_indices().nth(count).map_or(rest.len(), |(at, _)| at);
            Value::str(budget, &rest[..end])
        }
        Value::Str(_) => {
            let chars = items(budget, value)?;
            let mut out = Text::new(budget)?;
            for at in places(chars.len()) {
                budget.step(1)?;
                out.push_str(chars.get(at).and_then(Value::as_str).unwrap_or(""))?;
            }
            Ok(out.into())
        }
        Value::List(list) => {
            let mut out = List::new(budget)?;
            for at in places(list.len()) {
                budget.step(1)?;
                out.push(list.get(at).cloned().unwrap_or(Value::Undefined))?;
            }
            Ok(if list.is_tuple() { out.into_tuple() } else { out.into() })
        }
        _ => Ok(Value::Undefined),
    }
}

/// What a loop over the value goes through.
pub(super) fn items(budget: &Rc<Budget>, value: &Value) -> Result<Rc<List>, Failure> {
    let mut list = List::new(budget)?;
    let mut push = |item| {
        budget.step(1)?;
        list.push(item)
    };
    match value {
        Value::List(list) => return Ok(Rc::clone(list)),
        Value::Dict(dict) => dict.iter().try_for_each(|(key, _)| push(key.clone()))?,
        Value::Str(text) => {
            text.chars().try_for_each(|c| push(Value::str(budget, c.encode_utf8(&mut [0; 4]))?))?;
        }
        Value::Undefined => {}
        other => return Err(Failure::new(format!("{} cannot be iterated over", other.kind()))),
    }
    Ok(Rc::new(list))
}
