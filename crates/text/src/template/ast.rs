//! What a template says. Chains such as `a + b + c` or `a.b.c` are lists, not trees, so that the depth of
//! a tree is the depth of brackets and tags in the source, which the parser limits.

#[derive(Debug, Default)]
pub(super) struct Template {
    pub(super) body: Vec<Statement>,
    /// Macros and the bodies of `call` blocks, by their numbers.
    pub(super) macros: Vec<MacroBody>,
}

#[derive(Debug)]
pub(super) struct Statement {
    pub(super) line: u32,
    pub(super) action: Action,
}

#[derive(Debug)]
pub(super) enum Action {
    Write(String),
    Print(Expr),
    For(Box<For>),
    /// Conditions with their bodies, in order; `else` is a condition that always holds.
    If(Vec<(Expr, Vec<Statement>)>),
    Set(Target, Expr),
    /// `{% set x | filter %}…{% endset %}`
    SetBlock(Target, Vec<Suffix>, Vec<Statement>),
    With(Vec<(Target, Expr)>, Vec<Statement>),
    FilterBlock(Vec<Suffix>, Vec<Statement>),
    /// Defines the macro of this number.
    Macro(usize),
    /// `{% call callee(arguments) %}…{% endcall %}`: the body is a macro that the callee calls `caller`.
    Call {
        callee: Expr,
        arguments: Arguments,
        body: usize,
    },
    Do(Expr),
    Break,
    Continue,
}

#[derive(Debug)]
pub(super) struct For {
    pub(super) target: Target,
    pub(super) items: Expr,
    pub(super) condition: Option<Expr>,
    pub(super) body: Vec<Statement>,
    pub(super) if_empty: Vec<Statement>,
}

#[derive(Debug)]
pub(super) struct MacroBody {
    pub(super) name: String,
    pub(super) parameters: Vec<(String, Option<Expr>)>,
    pub(super) body: Vec<Statement>,
}

/// What values are stored in.
#[derive(Debug)]
pub(super) enum Target {
    Name(String),
    /// `namespace.field`
    Field(String, String),
    Tuple(Vec<Target>),
}

#[derive(Debug)]
pub(super) enum Expr {
    Undefined,
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(String),
    Name(String),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Concat(Vec<Expr>),
    /// Operators of the same strength, from left to right.
    Arithmetic(Box<Expr>, Vec<(Operator, Expr)>),
    /// `a < b < c`
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    /// The condition, and the values if it holds and if it does not.
    Conditional(Box<[Expr; 3]>),
    Suffixed(Box<Expr>, Vec<Suffix>),
}

/// What may follow a value.
#[derive(Debug)]
pub(super) enum Suffix {
    Attribute(String),
    Index(Expr),
    Slice(Box<[Option<Expr>; 3]>),
    Call(Arguments),
    Method(String, Arguments),
    Filter(String, Arguments),
    Test { name: String, arguments: Arguments, negated: bool },
}

#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<Expr>,
    pub(super) named: Vec<(String, Expr)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}
