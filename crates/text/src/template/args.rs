//! The arguments of a call.

use std::rc::Rc;

use super::budget::{Budget, Paid};
use super::failure::Failure;
use super::value::Value;

/// What a filter, a test, a method or a function was called with.
#[derive(Debug)]
pub(super) struct Args<'t> {
    pub(super) positional: Paid<Value>,
    pub(super) named: Paid<(&'t str, Value)>,
}

impl<'t> Args<'t> {
    /// No arguments yet.
    pub(super) fn new(budget: &Rc<Budget>) -> Result<Self, Failure> {
        Ok(Args { positional: Paid::new(budget)?, named: Paid::new(budget)? })
    }

    /// These arguments, and the named ones of `self`.
    pub(super) fn with_positional(
        &self,
        budget: &Rc<Budget>,
        positional: &[Value],
    ) -> Result<Args<'t>, Failure> {
        let mut args = Args::new(budget)?;
        positional.iter().try_for_each(|value| args.positional.push(value.clone()))?;
        self.named.iter().try_for_each(|(name, value)| args.named.push((name, value.clone())))?;
        Ok(args)
    }

    /// The argument of this name.
    pub(super) fn named(&self, name: &str) -> Option<&Value> {
        self.named.iter().find(|(named, _)| *named == name).map(|(_, value)| value)
    }

    /// The arguments under their names, in the order of `names`, which are all there may be.
    pub(super) fn bind<const N: usize>(
        &self,
        callee: &str,
        names: [&str; N],
    ) -> Result<[Option<&Value>; N], Failure> {
        let mut bound = [None; N];
        if self.positional.len() > N {
            return Err(Failure::new(format!("{callee} takes at most {N} arguments")));
        }
        for (place, value) in bound.iter_mut().zip(self.positional.iter()) {
            *place = Some(value);
        }
        for (name, value) in self.named.iter() {
            let place = names.iter().position(|known| known == name);
            let place = place.and_then(|at| bound.get_mut(at)).filter(|place| place.is_none());
            let refused = || Failure::new(format!("{callee} cannot take the argument {name:?}"));
            *place.ok_or_else(refused)? = Some(value);
        }
        Ok(bound)
    }
}

/// An argument that must be there and be a string.
pub(super) fn text<'v>(callee: &str, argument: Option<&'v Value>) -> Result<&'v str, Failure> {
    let refused = || Failure::new(format!("{callee} needs a string"));
    argument.and_then(Value::as_str).ok_or_else(refused)
}

/// An argument that is a string, if it is there and not `none`.
pub(super) fn optional_text<'v>(
    callee: &str,
    argument: Option<&'v Value>,
) -> Result<Option<&'v str>, Failure> {
    match argument {
        None | Some(Value::None) => Ok(None),
        present => text(callee, present).map(Some),
    }
}

/// An argument that is a whole number, if it is there and not `none`.
pub(super) fn int(callee: &str, argument: Option<&Value>) -> Result<Option<i128>, Failure> {
    match argument {
        None | Some(Value::None) => Ok(None),
        Some(value) => match value.as_int() {
            Some(int) => Ok(Some(int)),
            None => Err(Failure::new(format!("{callee} needs a whole number"))),
        },
    }
}

/// Whether an argument is there and true.
pub(super) fn flag(argument: Option<&Value>) -> bool {
    argument.is_some_and(Value::is_true)
}
