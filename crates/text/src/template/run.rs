//! Runs a template: its statements. Expressions are in [`super::eval`].
//!
//! The only state is here: scopes with variables, namespaces, loops under way, and what was written.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Map, Value as Json};

use super::args::Args;
use super::ast::{Action, For, Statement, Target, Template};
use super::budget::{Budget, Charge, Paid, Text};
use super::date::Date;
use super::failure::Failure;
use super::operators::items;
use super::print::write_str;
use super::value::{Dict, Function, List, Loop, Macro, Value};

/// Expressions, blocks and macro calls within each other: a bound for the stack.
const MAX_DEPTH: usize = 200;
/// What a variable takes besides its value.
const VARIABLE_BYTES: usize = 96;

/// The text a template writes with these variables.
pub(super) fn render(
    template: &Template,
    variables: &Map<String, Json>,
    date: Option<Date>,
) -> Result<String, Failure> {
    let budget = Budget::new();
    let mut run = Run {
        template,
        date,
        scopes: Vec::new(),
        outputs: vec![Text::new(&budget)?],
        namespaces: Paid::new(&budget)?,
        loops: Vec::new(),
        next_loop: 0,
        depth: 0,
        budget,
    };
    run.push_scope(None)?;
    for (name, value) in variables {
        let value = Value::from_json(&run.budget, value)?;
        run.define(name, value)?;
    }
    run.body(&template.body)?;
    Ok(run.outputs.pop().map(Text::into_string).unwrap_or_default())
}

pub(super) struct Run<'t> {
    template: &'t Template,
    pub(super) budget: Rc<Budget>,
    pub(super) date: Option<Date>,
    scopes: Vec<Scope<'t>>,
    /// The prompt, and within it what `set` blocks and macros write.
    outputs: Vec<Text>,
    /// By their numbers, so that no value can hold itself.
    pub(super) namespaces: Paid<Dict>,
    pub(super) loops: Vec<ActiveLoop>,
    next_loop: usize,
    depth: usize,
}

/// The variables of a loop, a block or a macro.
struct Scope<'t> {
    /// Where to look for what is not here.
    parent: Option<usize>,
    variables: BTreeMap<&'t str, Value>,
    charge: Charge,
}

/// A loop under way.
pub(super) struct ActiveLoop {
    pub(super) number: usize,
    /// What `loop.changed` saw last.
    pub(super) seen: Option<Value>,
}

/// What comes after a statement.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Next,
    Break,
    Continue,
}

impl<'t> Run<'t> {
    /// Runs one level deeper.
    pub(super) fn nested<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.depth == MAX_DEPTH {
            return Err(Failure::Limit { what: "levels of calls", limit: MAX_DEPTH as u64 });
        }
        self.depth += 1;
        let result = run(self);
        self.depth -= 1;
        result
    }

    fn push_scope(&mut self, parent: Option<usize>) -> Result<(), Failure> {
        let charge = self.budget.charge(VARIABLE_BYTES)?;
        self.scopes.push(Scope { parent, variables: BTreeMap::new(), charge });
        Ok(())
    }

    /// Runs with variables of its own, and sees those of the scope `parent`.
    fn in_scope<T>(
        &mut self,
        parent: usize,
        run: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.push_scope(Some(parent))?;
        let result = run(self);
        self.scopes.pop();
        result
    }

    /// The scope of what runs now.
    fn scope(&self) -> usize {
        self.scopes.len() - 1
    }

    fn define(&mut self, name: &'t str, value: Value) -> Result<(), Failure> {
        let scope = self.scope();
        if let Some(Scope { variables, charge, .. }) = self.scopes.get_mut(scope) {
            charge.add(VARIABLE_BYTES)?;
            variables.insert(name, value);
        }
        Ok(())
    }

    /// The value of a variable or function.
    pub(super) fn lookup(&self, name: &str) -> Value {
        let mut scope = self.scopes.last();
        while let Some(Scope { parent, variables, .. }) = scope {
            if let Some(value) = variables.get(name) {
                return value.clone();
            }
            scope = parent.and_then(|parent| self.scopes.get(parent));
        }
        match name {
            "range" => Value::Function(Function::Range),
            "namespace" => Value::Function(Function::Namespace),
            "dict" => Value::Function(Function::Dict),
            "raise_exception" => Value::Function(Function::RaiseException),
            "strftime_now" if self.date.is_some() => Value::Function(Function::StrftimeNow),
            _ => Value::Undefined,
        }
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.outputs.last_mut().map_or(Ok(()), |out| out.push_str(text))
    }

    /// What the statements write.
    fn captured(&mut self, body: &'t [Statement]) -> Result<Value, Failure> {
        self.outputs.push(Text::new(&self.budget)?);
        let result = self.body(body);
        let written = self.outputs.pop();
        result?;
        written.map_or(Ok(Value::Undefined), |text| Ok(text.into()))
    }

    fn body(&mut self, body: &'t [Statement]) -> Result<Flow, Failure> {
        self.nested(|run| {
            for statement in body {
                run.budget.step(1)?;
                let flow = run.statement(&statement.action);
                match flow.map_err(|failure| failure.at(statement.line))? {
                    Flow::Next => {}
                    leave => return Ok(leave),
                }
            }
            Ok(Flow::Next)
        })
    }

    fn statement(&mut self, action: &'t Action) -> Result<Flow, Failure> {
        match action {
            Action::Write(text) => self.write(text)?,
            Action::Print(value) => {
                let value = self.eval(value)?;
                if let Some(out) = self.outputs.last_mut() {
                    write_str(&value, out)?;
                }
            }
            Action::For(each) => self.for_loop(each)?,
            Action::If(branches) => {
                for (condition, body) in branches {
                    if self.eval(condition)?.is_true() {
                        return self.body(body);
                    }
                }
            }
            Action::Set(target, value) => {
                let value = self.eval(value)?;
                self.assign(target, value)?;
            }
            Action::SetBlock(target, filters, body) => {
                let text = self.in_scope(self.scope(), |run| run.captured(body))?;
                let value = self.suffixes(text, filters, None)?;
                self.assign(target, value)?;
            }
            Action::With(assignments, body) => {
                return self.in_scope(self.scope(), |run| {
                    for (target, value) in assignments {
                        let value = run.eval(value)?;
                        run.assign(target, value)?;
                    }
                    run.body(body)
                });
            }
            Action::FilterBlock(filters, body) => {
                let text = self.in_scope(self.scope(), |run| run.captured(body))?;
                let value = self.suffixes(text, filters, None)?;
                if let Some(out) = self.outputs.last_mut() {
                    write_str(&value, out)?;
                }
            }
            Action::Macro(number) => {
                let value = Macro { number: *number, scope: self.scope() };
                self.define(&self.template.macros[*number].name, Value::Macro(value))?;
            }
            Action::Call { callee, arguments, body } => {
                let callee = self.eval(callee)?;
                let mut args = self.args(arguments)?;
                let caller = Value::Macro(Macro { number: *body, scope: self.scope() });
                args.named.push(("caller", caller))?;
                let written = self.call(&callee, &args)?;
                if let Some(out) = self.outputs.last_mut() {
                    write_str(&written, out)?;
                }
            }
            Action::Do(value) => _ = self.eval(value)?,
            Action::Break => return Ok(Flow::Break),
            Action::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn for_loop(&mut self, each: &'t For) -> Result<(), Failure> {
        let value = self.eval(&each.items)?;
        let mut list = items(&self.budget, &value)?;
        if let Some(condition) = &each.condition {
            let mut kept = List::new(&self.budget)?;
            for item in list.iter() {
                let keeps = self.in_scope(self.scope(), |run| {
                    run.assign(&each.target, item.clone())?;
                    run.eval(condition)
                })?;
                if keeps.is_true() {
                    kept.push(item.clone())?;
                }
            }
            list = Rc::new(kept);
        }
        let number = self.next_loop;
        self.next_loop += 1;
        let this = Rc::new(Loop::new(&self.budget, number, Rc::clone(&list))?);
        self.loops.push(ActiveLoop { number, seen: None });
        // In Jinja2 a turn counts once its end is reached, so `else` also follows a lone `break`.
        let mut counted = false;
        for (at, item) in list.iter().enumerate() {
            self.budget.step(1)?;
            this.at.set(at);
            let flow = self.in_scope(self.scope(), |run| {
                run.define("loop", Value::Loop(Rc::clone(&this)))?;
                run.assign(&each.target, item.clone())?;
                run.body(&each.body)
            })?;
            counted |= flow == Flow::Next;
            if flow == Flow::Break {
                break;
            }
        }
        self.loops.pop();
        if !counted {
            return self.in_scope(self.scope(), |run| run.body(&each.if_empty)).map(|_| ());
        }
        Ok(())
    }

    fn assign(&mut self, target: &'t Target, value: Value) -> Result<(), Failure> {
        match target {
            Target::Name(name) => self.define(name, value),
            Target::Field(name, field) => match self.lookup(name) {
                Value::Namespace(number) => {
                    let key = Value::str(&self.budget, field)?;
                    self.namespaces[number].set(key, value)
                }
                _ => Err(Failure::new(format!("{name:?} is not a namespace"))),
            },
            Target::Tuple(targets) => {
                let values = items(&self.budget, &value)?;
                if values.len() != targets.len() {
                    let what = format!("{} values for {} names", values.len(), targets.len());
                    return Err(Failure::new(what));
                }
                let mut pairs = targets.iter().zip(values.iter());
                pairs.try_for_each(|(target, value)| self.assign(target, value.clone()))
            }
        }
    }

    /// What a macro writes.
    pub(super) fn call_macro(&mut self, callee: Macro, args: &Args<'_>) -> Result<Value, Failure> {
        let called = &self.template.macros[callee.number];
        let refused = |what: &str| Failure::new(format!("{}: {what}", called.name));
        if args.positional.len() > called.parameters.len() {
            return Err(refused("too many arguments"));
        }
        let is_known = |name: &str| {
            name == "caller" || called.parameters.iter().any(|(parameter, _)| parameter == name)
        };
        if let Some((name, _)) = args.named.iter().find(|(name, _)| !is_known(name)) {
            return Err(refused(&format!("it has no parameter {name:?}")));
        }
        // A macro that left the scope it was defined in sees what is there now.
        self.in_scope(callee.scope.min(self.scope()), |run| {
            if let Some(caller) = args.named("caller") {
                run.define("caller", caller.clone())?;
            }
            for (at, (name, default)) in called.parameters.iter().enumerate() {
                let value = match (args.positional.get(at).or(args.named(name)), default) {
                    (Some(value), _) => value.clone(),
                    (None, Some(default)) => run.eval(default)?,
                    (None, None) => Value::Undefined,
                };
                run.define(name, value)?;
            }
            run.captured(&called.body)
        })
    }
}
