//! Tests: what may follow `is`.

use super::args::Args;
use super::ast::Comparison;
use super::budget::Budget;
use super::failure::Failure;
use super::operators::{compare, equal};
use super::value::Value;
use super::words::has_only;

/// `value is name(…)`
pub(super) fn check(
    budget: &Budget,
    value: &Value,
    name: &str,
    args: &Args<'_>,
) -> Result<bool, Failure> {
    if let Some(comparison) = comparison(name) {
        let [other] = args.bind(name, ["other"])?;
        let other = other.ok_or_else(|| Failure::new(format!("{name} needs a value")))?;
        return compare(budget, comparison, value, other);
    }
    if name == "sameas" {
        let [other] = args.bind(name, ["other"])?;
        let other = other.unwrap_or(&Value::Undefined);
        return Ok(value.kind() == other.kind() && equal(budget, value, other)?);
    }
    if name == "divisibleby" {
        let [divisor] = args.bind(name, ["num"])?;
        let divisor = divisor.and_then(Value::as_int).filter(|divisor| *divisor != 0);
        return match (value.as_int(), divisor) {
            (Some(int), Some(divisor)) => Ok(int.checked_rem(divisor).unwrap_or(0) == 0),
            _ => Err(Failure::new("divisibleby needs whole numbers, and not 0")),
        };
    }
    let [] = args.bind(name, [])?;
    Ok(match name {
        "defined" => !matches!(value, Value::Undefined),
        "undefined" => matches!(value, Value::Undefined),
        "none" => matches!(value, Value::None),
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "integer" => matches!(value, Value::Int(_)),
        "float" => matches!(value, Value::Float(_)),
        // In Python `True` is a number, and a text and a mapping have a length and items.
        "number" => value.as_float().is_some(),
        "sequence" => matches!(value, Value::List(_) | Value::Str(_) | Value::Dict(_)),
        "iterable" => {
            matches!(value, Value::List(_) | Value::Str(_) | Value::Dict(_) | Value::Undefined)
        }
        "string" => matches!(value, Value::Str(_)),
        "mapping" => matches!(value, Value::Dict(_)),
        "callable" => matches!(value, Value::Macro(_) | Value::Function(_)),
        "odd" | "even" => match value.as_int() {
            Some(int) => (int % 2 == 0) == (name == "even"),
            None => return Err(Failure::new(format!("{} is neither odd nor even", value.kind()))),
        },
        "upper" | "lower" => {
            let text = value.as_str().unwrap_or_default();
            budget.scan(text.len())?;
            has_only(text, if name == "upper" { "isupper" } else { "islower" })
        }
        _ => return Err(Failure::new(format!("there is no test {name:?}"))),
    })
}

/// Comparisons under their names.
fn comparison(name: &str) -> Option<Comparison> {
    Some(match name {
        "eq" | "equalto" | "==" => Comparison::Equal,
        "ne" | "!=" => Comparison::NotEqual,
        "lt" | "lessthan" | "<" => Comparison::Less,
        "le" | "<=" => Comparison::LessOrEqual,
        "gt" | "greaterthan" | ">" => Comparison::Greater,
        "ge" | ">=" => Comparison::GreaterOrEqual,
        "in" => Comparison::In,
        _ => return None,
    })
}
