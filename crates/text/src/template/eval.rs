//! The value of an expression.

use std::rc::Rc;

use super::args::{Args, int, text};
use super::ast::{Arguments, Expr, Suffix};
use super::budget::Text;
use super::failure::Failure;
use super::print::write_str;
use super::run::Run;
use super::value::{Dict, Function, List, Loop, Value};
use super::{filters, methods, operators, predicates};

/// The longest range Jinja2 makes in its sandbox.
const MAX_RANGE: i128 = 100_000;

impl<'t> Run<'t> {
    pub(super) fn eval(&mut self, expr: &'t Expr) -> Result<Value, Failure> {
        self.budget.step(1)?;
        self.nested(|run| run.eval_here(expr))
    }

    fn eval_here(&mut self, expr: &'t Expr) -> Result<Value, Failure> {
        Ok(match expr {
            Expr::Undefined => Value::Undefined,
            Expr::None => Value::None,
            Expr::Bool(truth) => Value::Bool(*truth),
            Expr::Int(int) => Value::Int(*int),
            Expr::Float(float) => Value::Float(*float),
            Expr::Str(text) => Value::str(&self.budget, text)?,
            Expr::Name(name) => self.lookup(name),
            Expr::List(items) => self.list(items)?.into(),
            Expr::Tuple(items) => self.list(items)?.into_tuple(),
            Expr::Dict(pairs) => {
                let mut dict = Dict::new(&self.budget)?;
                for (key, value) in pairs {
                    dict.set(self.eval(key)?, self.eval(value)?)?;
                }
                dict.into()
            }
            Expr::Not(value) => Value::Bool(!self.eval(value)?.is_true()),
            Expr::Negative(value) => operators::negative(&self.eval(value)?)?,
            Expr::Positive(value) => {
                operators::negative(&operators::negative(&self.eval(value)?)?)?
            }
            Expr::And(items) => self.first_that(items, false)?,
            Expr::Or(items) => self.first_that(items, true)?,
            Expr::Concat(items) => {
                let mut out = Text::new(&self.budget)?;
                for item in items {
                    write_str(&self.eval(item)?, &mut out)?;
                }
                out.into()
            }
            Expr::Arithmetic(first, rest) => {
                let mut value = self.eval(first)?;
                for (operator, right) in rest {
                    let right = self.eval(right)?;
                    value = operators::arithmetic(&self.budget, *operator, &value, &right)?;
                }
                value
            }
            Expr::Compare(first, rest) => {
                let mut left = self.eval(first)?;
                for (comparison, right) in rest {
                    let right = self.eval(right)?;
                    if !operators::compare(&self.budget, *comparison, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Value::Bool(true)
            }
            Expr::Conditional(parts) => {
                let [condition, then, otherwise] = &**parts;
                let holds = self.eval(condition)?.is_true();
                self.eval(if holds { then } else { otherwise })?
            }
            Expr::Suffixed(base, suffixes) => {
                let value = self.eval(base)?;
                let name = if let Expr::Name(name) = &**base { Some(&name[..]) } else { None };
                self.suffixes(value, suffixes, name)?
            }
        })
    }

    fn list(&mut self, items: &'t [Expr]) -> Result<List, Failure> {
        let mut list = List::new(&self.budget)?;
        for item in items {
            list.push(self.eval(item)?)?;
        }
        Ok(list)
    }

    /// The first value whose truth is `wanted`, or else the last.
    fn first_that(&mut self, items: &'t [Expr], wanted: bool) -> Result<Value, Failure> {
        let mut value = Value::Undefined;
        for item in items {
            value = self.eval(item)?;
            if value.is_true() == wanted {
                break;
            }
        }
        Ok(value)
    }

    /// The value after all that follows it. `name` is what the template calls it, for errors.
    pub(super) fn suffixes(
        &mut self,
        mut value: Value,
        suffixes: &'t [Suffix],
        mut name: Option<&'t str>,
    ) -> Result<Value, Failure> {
        for suffix in suffixes {
            self.budget.step(1)?;
            let needs_value = !matches!(suffix, Suffix::Filter(..) | Suffix::Test { .. });
            if needs_value && matches!(value, Value::Undefined) {
                return Err(Failure::new(format!("'{}' is undefined", name.unwrap_or("value"))));
            }
            value = self.suffix(&value, suffix)?;
            name = match suffix {
                Suffix::Attribute(name) => Some(name),
                Suffix::Index(Expr::Str(name)) => Some(name),
                _ => None,
            };
        }
        Ok(value)
    }

    fn suffix(&mut self, value: &Value, suffix: &'t Suffix) -> Result<Value, Failure> {
        match suffix {
            Suffix::Attribute(name) => self.attribute(value, name),
            Suffix::Index(index) => match (self.eval(index)?, value) {
                (Value::Str(name), Value::Namespace(_) | Value::Loop(_)) => {
                    self.attribute(value, &name)
                }
                (index, _) => operators::item(&self.budget, value, &index),
            },
            Suffix::Slice(parts) => {
                let mut bounds = [Value::None, Value::None, Value::None];
                for (bound, part) in bounds.iter_mut().zip(parts.iter()) {
                    if let Some(part) = part {
                        *bound = self.eval(part)?;
                    }
                }
                operators::slice(&self.budget, value, &bounds)
            }
            Suffix::Call(arguments) => {
                let args = self.args(arguments)?;
                self.call(value, &args)
            }
            Suffix::Method(name, arguments) => {
                let args = self.args(arguments)?;
                self.call_method(value, name, &args)
            }
            Suffix::Filter(name, arguments) => {
                let args = self.args(arguments)?;
                filters::apply(&self.budget, value, name, &args)
            }
            Suffix::Test { name, arguments, negated } => {
                let args = self.args(arguments)?;
                let holds = predicates::check(&self.budget, value, name, &args)?;
                Ok(Value::Bool(holds != *negated))
            }
        }
    }

    /// The values of arguments.
    pub(super) fn args(&mut self, arguments: &'t Arguments) -> Result<Args<'t>, Failure> {
        let mut args = Args::new(&self.budget)?;
        for value in &arguments.positional {
            args.positional.push(self.eval(value)?)?;
        }
        for (name, value) in &arguments.named {
            args.named.push((name, self.eval(value)?))?;
        }
        Ok(args)
    }

    /// `value.name`
    fn attribute(&self, value: &Value, name: &str) -> Result<Value, Failure> {
        let found = match value {
            Value::Dict(dict) => dict.get_str(name)?,
            Value::Namespace(number) => self.namespaces[*number].get_str(name)?,
            Value::Loop(this) => return Ok(loop_attribute(this, name)),
            _ => None,
        };
        Ok(found.cloned().unwrap_or(Value::Undefined))
    }

    pub(super) fn call(&mut self, callee: &Value, args: &Args<'_>) -> Result<Value, Failure> {
        match callee {
            Value::Macro(callee) => self.call_macro(*callee, args),
            Value::Function(function) => self.call_function(*function, args),
            other => Err(Failure::new(format!("{} cannot be called", other.kind()))),
        }
    }

    fn call_function(&mut self, function: Function, args: &Args<'_>) -> Result<Value, Failure> {
        match function {
            Function::Range => self.range(args),
            Function::Namespace => {
                let fields = self.dict(args)?;
                self.namespaces.push(fields)?;
                Ok(Value::Namespace(self.namespaces.len() - 1))
            }
            Function::Dict => Ok(self.dict(args)?.into()),
            Function::RaiseException => {
                let [message] = args.bind("raise_exception", ["message"])?;
                Err(Failure::raised(text("raise_exception", message)?))
            }
            Function::StrftimeNow => {
                let [format] = args.bind("strftime_now", ["format"])?;
                let format = text("strftime_now", format)?;
                let date = self.date.ok_or_else(|| Failure::new("there is no date"))?;
                let mut out = Text::new(&self.budget)?;
                date.write(format, &mut out)?;
                Ok(out.into())
            }
        }
    }

    fn range(&self, args: &Args<'_>) -> Result<Value, Failure> {
        let [first, second, step] = args.bind("range", ["start", "stop", "step"])?;
        let (first, second) = (int("range", first)?, int("range", second)?);
        let (start, stop) = match (first, second) {
            (Some(start), Some(stop)) => (start, stop),
            (Some(stop), None) => (0, stop),
            _ => return Err(Failure::new("range needs a number")),
        };
        let step = int("range", step)?.unwrap_or(1);
        let too_long = || Failure::new(format!("range: more than {MAX_RANGE} numbers"));
        let span = stop.checked_sub(start).ok_or_else(too_long)?;
        let len = match step {
            0 => return Err(Failure::new("range: a step of 0")),
            _ if span == 0 || (span < 0) != (step < 0) => 0,
            step => span.unsigned_abs().div_ceil(step.unsigned_abs()),
        };
        let len = i128::try_from(len).ok().filter(|len| *len <= MAX_RANGE).ok_or_else(too_long)?;
        Value::list(&self.budget, (0..len).map(|at| Ok(Value::Int(start + at * step))))
    }

    /// A mapping from another and from named arguments.
    fn dict(&self, args: &Args<'_>) -> Result<Dict, Failure> {
        let mut dict = Dict::new(&self.budget)?;
        for value in args.positional.iter() {
            let Value::Dict(other) = value else {
                return Err(Failure::new(format!("{} is not a mapping", value.kind())));
            };
            other.iter().try_for_each(|(key, value)| dict.set(key.clone(), value.clone()))?;
        }
        for (name, value) in args.named.iter() {
            dict.set(Value::str(&self.budget, name)?, value.clone())?;
        }
        Ok(dict)
    }

    /// `value.name(…)`: a method of Python's, or what the field of a mapping or namespace holds.
    fn call_method(
        &mut self,
        value: &Value,
        name: &str,
        args: &Args<'_>,
    ) -> Result<Value, Failure> {
        if let (Value::Loop(this), "cycle" | "changed") = (value, name) {
            return self.call_loop(this, name, args);
        }
        if let Some(result) = methods::call(&self.budget, value, name, args)? {
            return Ok(result);
        }
        match self.attribute(value, name)? {
            Value::Undefined => {
                Err(Failure::new(format!("{} has no method {name:?}", value.kind())))
            }
            callee => self.call(&callee, args),
        }
    }

    /// `loop.cycle(…)` and `loop.changed(…)`
    fn call_loop(&mut self, this: &Loop, name: &str, args: &Args<'_>) -> Result<Value, Failure> {
        if name == "cycle" {
            let at = this.at.get().checked_rem(args.positional.len());
            let item = at.and_then(|at| args.positional.get(at)).cloned();
            return item.ok_or_else(|| Failure::new("cycle needs values"));
        }
        let now = Value::list(&self.budget, args.positional.iter().cloned().map(Ok))?;
        let active = self.loops.iter_mut().find(|active| active.number == this.number);
        let active = active.ok_or_else(|| Failure::new("changed: the loop is over"))?;
        let same = match &active.seen {
            Some(seen) => operators::equal(&self.budget, seen, &now)?,
            None => false,
        };
        active.seen = Some(now);
        Ok(Value::Bool(!same))
    }
}

fn loop_attribute(this: &Rc<Loop>, name: &str) -> Value {
    let (at, len) = (this.at.get(), this.items.len());
    let neighbour = |at: Option<usize>| {
        at.and_then(|at| this.items.get(at)).cloned().unwrap_or(Value::Undefined)
    };
    let number = |number: usize| Value::Int(number as i128);
    match name {
        "index" => number(at + 1),
        "index0" => number(at),
        "revindex" => number(len - at),
        "revindex0" => number(len - at - 1),
        "first" => Value::Bool(at == 0),
        "last" => Value::Bool(at + 1 == len),
        "length" => number(len),
        "depth" => Value::Int(1),
        "depth0" => Value::Int(0),
        "previtem" => neighbour(at.checked_sub(1)),
        "nextitem" => neighbour(Some(at + 1)),
        _ => Value::Undefined,
    }
}
