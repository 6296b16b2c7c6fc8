//! Filters that put items in order.

use std::cmp::Ordering;
use std::rc::Rc;

use super::args::{Args, flag, optional_text};
use super::budget::{Budget, Paid};
use super::failure::Failure;
use super::filters::attribute;
use super::methods::{pairs, rewritten};
use super::operators::{equal, items, order};
use super::value::{List, Value};
use super::words;

/// `value | name(…)`
pub(super) fn apply(
    budget: &Rc<Budget>,
    value: &Value,
    name: &str,
    args: &Args<'_>,
) -> Result<Value, Failure> {
    match name {
        "sort" => {
            let names = ["reverse", "case_sensitive", "attribute"];
            let [reverse, case_sensitive, path] = args.bind(name, names)?;
            let items = items(budget, value)?;
            let mut keyed = keyed(budget, &items, path, flag(case_sensitive))?;
            sort(budget, &mut keyed, flag(reverse))?;
            Value::list(budget, keyed.iter().map(|(_, item)| Ok(item.clone())))
        }
        "dictsort" => {
            let names = ["case_sensitive", "by", "reverse"];
            let [case_sensitive, by, reverse] = args.bind(name, names)?;
            let Value::Dict(dict) = value else {
                return Err(Failure::new(format!("{} has no keys to sort", value.kind())));
            };
            let by_value = optional_text(name, by)? == Some("value");
            let path = Value::Int(i128::from(by_value));
            let items = items(budget, &pairs(budget, dict)?)?;
            let mut keyed = keyed(budget, &items, Some(&path), flag(case_sensitive))?;
            sort(budget, &mut keyed, flag(reverse))?;
            Value::list(budget, keyed.iter().map(|(_, item)| Ok(item.clone())))
        }
        "unique" => {
            let [case_sensitive, path] = args.bind(name, ["case_sensitive", "attribute"])?;
            let items = items(budget, value)?;
            let keyed = keyed(budget, &items, path, flag(case_sensitive))?;
            let mut unique = List::new(budget)?;
            for (at, (key, item)) in keyed.iter().enumerate() {
                let mut seen = false;
                for (earlier, _) in &keyed[..at] {
                    seen = seen || equal(budget, key, earlier)?;
                }
                if !seen {
                    unique.push(item.clone())?;
                }
            }
            Ok(unique.into())
        }
        _ => {
            let [case_sensitive, path] = args.bind(name, ["case_sensitive", "attribute"])?;
            let wanted = if name == "min" { Ordering::Less } else { Ordering::Greater };
            let items = items(budget, value)?;
            let keyed = keyed(budget, &items, path, flag(case_sensitive))?;
            let mut best: Option<&(Value, Value)> = None;
            for entry in keyed.iter() {
                budget.step(1)?;
                best = match best {
                    Some(best) if order(budget, &entry.0, &best.0)? != Some(wanted) => Some(best),
                    _ => Some(entry),
                };
            }
            Ok(best.map_or(Value::Undefined, |(_, item)| item.clone()))
        }
    }
}

/// Items with what they are sorted by: a field or themselves, in lower case unless case matters.
fn keyed(
    budget: &Rc<Budget>,
    items: &[Value],
    path: Option<&Value>,
    case_sensitive: bool,
) -> Result<Paid<(Value, Value)>, Failure> {
    let mut keyed = Paid::new(budget)?;
    for item in items {
        budget.step(1)?;
        let key = match attribute(budget, item, path)? {
            Value::Str(text) if !case_sensitive => rewritten(budget, &text, words::lower)?,
            key => key,
        };
        keyed.push((key, item.clone()))?;
    }
    Ok(keyed)
}

/// Sorts texts or numbers; items with equal keys stay as they are.
fn sort(
    budget: &Rc<Budget>,
    keyed: &mut Paid<(Value, Value)>,
    reverse: bool,
) -> Result<(), Failure> {
    let bytes = keyed.iter().map(|(key, _)| key.as_str().map_or(0, str::len)).sum();
    budget.sort(keyed.len(), bytes)?;
    // What a stable sort takes for itself.
    let _scratch = budget.charge(size_of_val(&keyed[..]))?;
    let in_order = |ordering: Ordering| if reverse { ordering.reverse() } else { ordering };
    if keyed.iter().all(|(key, _)| key.as_str().is_some()) {
        keyed.sort_by(|(a, _), (b, _)| in_order(a.as_str().cmp(&b.as_str())));
    } else if keyed.iter().all(|(key, _)| key.as_float().is_some()) {
        let float = |key: &Value| key.as_float().unwrap_or(f64::NAN);
        keyed.sort_by(|(a, _), (b, _)| in_order(float(a).total_cmp(&float(b))));
    } else {
        return Err(Failure::new("only texts or only numbers can be sorted"));
    }
    Ok(())
}
