//! The values of a template, as Python has them.
//!
//! Values are trees: namespaces and macros are numbers of what the rendering owns, so there are no
//! cycles. They nest at most [`MAX_NESTING`] deep, so recursion over them is safe.

use std::cell::Cell;
use std::rc::Rc;

use serde_json::Value as Json;

use super::budget::{Budget, Charge, Paid, Text};
use super::failure::Failure;

/// Lists within lists. JSON from a request nests 128 deep at most.
const MAX_NESTING: usize = 200;

#[derive(Clone, Debug)]
pub(super) enum Value {
    Undefined,
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(Rc<Text>),
    List(Rc<List>),
    Dict(Rc<Dict>),
    /// The number of a namespace of this rendering.
    Namespace(usize),
    Loop(Rc<Loop>),
    Macro(Macro),
    Function(Function),
}

/// A list or a tuple.
#[derive(Debug)]
pub(super) struct List {
    items: Paid<Value>,
    nesting: usize,
    is_tuple: bool,
}

/// A mapping in order of insertion. Mappings in templates are small: a search looks at each key.
#[derive(Debug)]
pub(super) struct Dict {
    pairs: Paid<(Value, Value)>,
    nesting: usize,
    budget: Rc<Budget>,
}

/// What `loop` is inside a loop.
#[derive(Debug)]
pub(super) struct Loop {
    /// Which loop of the rendering this is.
    pub(super) number: usize,
    pub(super) items: Rc<List>,
    /// The item whose turn it is.
    pub(super) at: Cell<usize>,
    _charge: Charge,
}

/// A macro, and how much of the scopes it can see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Macro {
    pub(super) number: usize,
    pub(super) scope: usize,
}

/// Functions every template has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Function {
    Range,
    Namespace,
    Dict,
    RaiseException,
    StrftimeNow,
}

impl Value {
    pub(super) fn str(budget: &Rc<Budget>, text: &str) -> Result<Self, Failure> {
        let mut copy = Text::new(budget)?;
        copy.push_str(text)?;
        Ok(copy.into())
    }

    /// A list of these values.
    pub(super) fn list(
        budget: &Rc<Budget>,
        items: impl IntoIterator<Item = Result<Value, Failure>>,
    ) -> Result<Self, Failure> {
        let mut list = List::new(budget)?;
        for item in items {
            budget.step(1)?;
            list.push(item?)?;
        }
        Ok(list.into())
    }

    /// A tuple of two values.
    pub(super) fn pair(budget: &Rc<Budget>, a: Value, b: Value) -> Result<Self, Failure> {
        let mut list = List::new(budget)?;
        list.push(a)?;
        list.push(b)?;
        Ok(list.into_tuple())
    }

    /// What a request or a model file says, as template values.
    pub(super) fn from_json(budget: &Rc<Budget>, json: &Json) -> Result<Self, Failure> {
        budget.step(1)?;
        Ok(match json {
            Json::Null => Value::None,
            Json::Bool(truth) => Value::Bool(*truth),
            Json::Number(number) => match number.as_i128() {
                Some(int) => Value::Int(int),
                None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::str(budget, text)?,
            Json::Array(items) => {
                Value::list(budget, items.iter().map(|item| Value::from_json(budget, item)))?
            }
            Json::Object(fields) => {
                let mut dict = Dict::new(budget)?;
                for (name, field) in fields {
                    // Names in an object are unique already.
                    dict.push(Value::str(budget, name)?, Value::from_json(budget, field)?)?;
                }
                dict.into()
            }
        })
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// `int(value)` of a whole number; a truth value counts as one.
    pub(super) fn as_int(&self) -> Option<i128> {
        match self {
            Value::Int(int) => Some(*int),
            Value::Bool(truth) => Some(i128::from(*truth)),
            _ => None,
        }
    }

    pub(super) fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(float) => Some(*float),
            #[expect(clippy::cast_precision_loss, reason = "as Python converts")]
            other => other.as_int().map(|int| int as f64),
        }
    }

    /// `bool(value)`
    pub(super) fn is_true(&self) -> bool {
        match self {
            Value::Undefined | Value::None => false,
            Value::Bool(truth) => *truth,
            Value::Int(int) => *int != 0,
            Value::Float(float) => *float != 0.0,
            Value::Str(text) => !text.is_empty(),
            Value::List(list) => !list.is_empty(),
            Value::Dict(dict) => !dict.is_empty(),
            Value::Namespace(_) | Value::Loop(_) | Value::Macro(_) | Value::Function(_) => true,
        }
    }

    /// What kind of value this is, for error messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Undefined => "undefined",
            Value::None => "none",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Str(_) => "str",
            Value::List(list) if list.is_tuple() => "tuple",
            Value::List(_) => "list",
            Value::Dict(_) => "dict",
            Value::Namespace(_) => "namespace",
            Value::Loop(_) => "loop",
            Value::Macro(_) => "macro",
            Value::Function(_) => "function",
        }
    }

    /// Lists within lists, from here down.
    fn nesting(&self) -> usize {
        match self {
            Value::List(list) => list.nesting,
            Value::Dict(dict) => dict.nesting,
            Value::Loop(this) => this.items.nesting + 1,
            _ => 0,
        }
    }
}

impl From<Text> for Value {
    fn from(text: Text) -> Self {
        Value::Str(Rc::new(text))
    }
}

impl From<List> for Value {
    fn from(list: List) -> Self {
        Value::List(Rc::new(list))
    }
}

impl From<Dict> for Value {
    fn from(dict: Dict) -> Self {
        Value::Dict(Rc::new(dict))
    }
}

/// The nesting of a container that takes in `item`.
fn nesting_with(nesting: usize, item: &Value) -> Result<usize, Failure> {
    match nesting.max(item.nesting() + 1) {
        nesting if nesting <= MAX_NESTING => Ok(nesting),
        _ => Err(Failure::new(format!("a value nested more than {MAX_NESTING} deep"))),
    }
}

impl List {
    pub(super) fn new(budget: &Rc<Budget>) -> Result<Self, Failure> {
        Ok(List { items: Paid::new(budget)?, nesting: 1, is_tuple: false })
    }

    pub(super) fn push(&mut self, item: Value) -> Result<(), Failure> {
        self.nesting = nesting_with(self.nesting, &item)?;
        self.items.push(item)
    }

    pub(super) fn items_mut(&mut self) -> &mut [Value] {
        &mut self.items
    }

    pub(super) fn is_tuple(&self) -> bool {
        self.is_tuple
    }

    pub(super) fn into_tuple(self) -> Value {
        List { is_tuple: true, ..self }.into()
    }
}

impl std::ops::Deref for List {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.items
    }
}

impl Loop {
    pub(super) fn new(
        budget: &Rc<Budget>,
        number: usize,
        items: Rc<List>,
    ) -> Result<Self, Failure> {
        let charge = budget.charge(size_of::<Self>())?;
        Ok(Loop { number, items, at: Cell::new(0), _charge: charge })
    }
}

impl Dict {
    pub(super) fn new(budget: &Rc<Budget>) -> Result<Self, Failure> {
        Ok(Dict { pairs: Paid::new(budget)?, nesting: 1, budget: Rc::clone(budget) })
    }

    /// Puts a value under a key, in place of what was there.
    pub(super) fn set(&mut self, key: Value, value: Value) -> Result<(), Failure> {
        match self.find(&key)? {
            Some(at) => {
                self.nesting = nesting_with(self.nesting, &value)?;
                self.pairs[at].1 = value;
                Ok(())
            }
            None => self.push(key, value),
        }
    }

    fn push(&mut self, key: Value, value: Value) -> Result<(), Failure> {
        self.nesting = nesting_with(nesting_with(self.nesting, &key)?, &value)?;
        self.pairs.push((key, value))
    }

    pub(super) fn get(&self, key: &Value) -> Result<Option<&Value>, Failure> {
        Ok(self.find(key)?.map(|at| &self.pairs[at].1))
    }

    /// The value under a name. Looking at a name takes a fraction of a step.
    pub(super) fn get_str(&self, name: &str) -> Result<Option<&Value>, Failure> {
        self.budget.step(self.pairs.len() / 8)?;
        let found = self.pairs.iter().find(|(key, _)| key.as_str() == Some(name));
        Ok(found.map(|(_, value)| value))
    }

    fn find(&self, key: &Value) -> Result<Option<usize>, Failure> {
        for (at, (other, _)) in self.pairs.iter().enumerate() {
            if super::operators::equal(&self.budget, key, other)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}

impl std::ops::Deref for Dict {
    type Target = [(Value, Value)];

    fn deref(&self) -> &[(Value, Value)] {
        &self.pairs
    }
}
