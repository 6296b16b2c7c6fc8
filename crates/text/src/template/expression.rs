//! The expressions of a template, from weak to strong: `if`, `or`, `and`, `not`, comparisons, `+ -`, `~`,
//! `* / // %`, `**`, signs, filters and tests.

use super::ast::{Arguments, Comparison, Expr, Operator, Suffix};
use super::failure::Failure;
use super::lexer::{Token, syntax};
use super::parser::{Parser, suffixed};

/// An operator between two values.
#[derive(Clone, Copy)]
enum Infix {
    Or,
    And,
    Compare(Comparison),
    Concat,
    Arithmetic(Operator),
}

impl Infix {
    /// How strongly it binds.
    fn strength(self) -> u8 {
        match self {
            Infix::Or => 0,
            Infix::And => 1,
            Infix::Compare(_) => COMPARISON,
            Infix::Arithmetic(Operator::Add | Operator::Subtract) => 3,
            Infix::Concat => 4,
            Infix::Arithmetic(Operator::Power) => 6,
            Infix::Arithmetic(_) => 5,
        }
    }
}

const WEAKEST: u8 = 0;
const COMPARISON: u8 = 2;

impl Parser<'_> {
    /// One expression.
    pub(super) fn expression(&mut self) -> Result<Expr, Failure> {
        self.nested(|parser| {
            let value = parser.unconditional()?;
            if !parser.skip_word("if") {
                return Ok(value);
            }
            let condition = parser.unconditional()?;
            let otherwise =
                if parser.skip_word("else") { parser.expression()? } else { Expr::Undefined };
            Ok(Expr::Conditional(Box::new([condition, value, otherwise])))
        })
    }

    /// An expression without an `if` of its own.
    pub(super) fn unconditional(&mut self) -> Result<Expr, Failure> {
        self.infix(WEAKEST)
    }

    /// One expression, or several with commas between them, which are a tuple.
    pub(super) fn tuple(&mut self) -> Result<Expr, Failure> {
        self.tuple_of(Self::expression)
    }

    pub(super) fn tuple_of(
        &mut self,
        item: fn(&mut Self) -> Result<Expr, Failure>,
    ) -> Result<Expr, Failure> {
        let first = item(self)?;
        if !matches!(self.peek(), Token::Symbol(",")) {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.skip(",") {
            let ends = matches!(
                self.peek(),
                Token::Symbol(")") | Token::PrintEnd | Token::BlockEnd | Token::Name("if")
            );
            if ends {
                break;
            }
            items.push(item(self)?);
        }
        Ok(Expr::Tuple(items))
    }

    /// Values with operators between them that bind at least this strongly.
    fn infix(&mut self, weakest: u8) -> Result<Expr, Failure> {
        self.nested(|parser| {
            let mut value = parser.prefixed()?;
            // The strength of the operators in `value`, if it is a chain made here.
            let mut chain = None;
            while let Some((operator, len)) = parser.infix_operator() {
                let strength = operator.strength();
                if strength < weakest {
                    break;
                }
                (0..len).for_each(|_| _ = parser.next());
                let right = parser.infix(strength + 1)?;
                value = chained(value, chain == Some(strength), operator, right);
                chain = Some(strength);
            }
            Ok(value)
        })
    }

    /// The operator that comes next, and how many tokens it takes.
    fn infix_operator(&self) -> Option<(Infix, usize)> {
        let operator = match self.peek() {
            Token::Name("or") => Infix::Or,
            Token::Name("and") => Infix::And,
            Token::Name("in") => Infix::Compare(Comparison::In),
            Token::Name("not") if *self.peek_at(1) == Token::Name("in") => {
                return Some((Infix::Compare(Comparison::NotIn), 2));
            }
            Token::Symbol(symbol) => match *symbol {
                "==" => Infix::Compare(Comparison::Equal),
                "!=" => Infix::Compare(Comparison::NotEqual),
                "<" => Infix::Compare(Comparison::Less),
                "<=" => Infix::Compare(Comparison::LessOrEqual),
                ">" => Infix::Compare(Comparison::Greater),
                ">=" => Infix::Compare(Comparison::GreaterOrEqual),
                "+" => Infix::Arithmetic(Operator::Add),
                "-" => Infix::Arithmetic(Operator::Subtract),
                "~" => Infix::Concat,
                "*" => Infix::Arithmetic(Operator::Multiply),
                "/" => Infix::Arithmetic(Operator::Divide),
                "//" => Infix::Arithmetic(Operator::FloorDivide),
                "%" => Infix::Arithmetic(Operator::Remainder),
                "**" => Infix::Arithmetic(Operator::Power),
                _ => return None,
            },
            _ => return None,
        };
        Some((operator, 1))
    }

    /// A value with `not` or signs before it, and filters and tests after it.
    fn prefixed(&mut self) -> Result<Expr, Failure> {
        if self.skip_word("not") {
            return Ok(Expr::Not(Box::new(self.infix(COMPARISON)?)));
        }
        let value = self.signed()?;
        let mut suffixes = Vec::new();
        loop {
            if self.skip("|") {
                let name = self.name()?;
                let arguments =
                    if self.skip("(") { self.arguments()? } else { Arguments::default() };
                suffixes.push(Suffix::Filter(name, arguments));
            } else if self.skip_word("is") {
                suffixes.push(self.test()?);
            } else if self.skip("(") {
                suffixes.push(Suffix::Call(self.arguments()?));
            } else {
                return Ok(suffixed(value, suffixes));
            }
        }
    }

    fn signed(&mut self) -> Result<Expr, Failure> {
        if self.skip("-") {
            return Ok(Expr::Negative(Box::new(self.nested(Self::signed)?)));
        }
        if self.skip("+") {
            return Ok(Expr::Positive(Box::new(self.nested(Self::signed)?)));
        }
        let value = self.primary()?;
        let mut suffixes = Vec::new();
        while let Some(suffix) = self.suffix()? {
            suffixes.push(suffix);
        }
        Ok(suffixed(value, suffixes))
    }

    /// What follows a value without a space in most people's code: `.name`, `[…]`, `(…)`.
    fn suffix(&mut self) -> Result<Option<Suffix>, Failure> {
        Ok(Some(if self.skip(".") {
            match *self.peek() {
                Token::Int(int) => {
                    self.next();
                    Suffix::Index(Expr::Int(int))
                }
                _ => {
                    let name = self.name()?;
                    if self.skip("(") {
                        Suffix::Method(name, self.arguments()?)
                    } else {
                        Suffix::Attribute(name)
                    }
                }
            }
        } else if self.skip("[") {
            self.subscript()?
        } else if self.skip("(") {
            Suffix::Call(self.arguments()?)
        } else {
            return Ok(None);
        }))
    }

    /// `i]`, `from:to]`, or `from:to:step]`
    fn subscript(&mut self) -> Result<Suffix, Failure> {
        let mut parts = [None, None, None];
        let mut colons = 0;
        loop {
            if self.skip("]") {
                break;
            }
            if self.skip(":") {
                colons += 1;
            } else if colons < parts.len() && parts[colons].is_none() {
                parts[colons] = Some(self.tuple()?);
            } else {
                return Err(self.unexpected("\"]\""));
            }
        }
        match (colons, parts) {
            (0, [Some(index), ..]) => Ok(Suffix::Index(index)),
            (1 | 2, parts) => Ok(Suffix::Slice(Box::new(parts))),
            _ => Err(syntax("a subscript is an index or a slice")),
        }
    }

    /// What follows `is`.
    fn test(&mut self) -> Result<Suffix, Failure> {
        let negated = self.skip_word("not");
        let name = self.name()?;
        let takes_value = match self.peek() {
            Token::Name(word) => {
                !matches!(*word, "else" | "or" | "and" | "is" | "if" | "in" | "not")
            }
            Token::Str(_) | Token::Int(_) | Token::Float(_) => true,
            Token::Symbol(symbol) => matches!(*symbol, "[" | "{"),
            _ => false,
        };
        let arguments = if self.skip("(") {
            self.arguments()?
        } else if takes_value {
            let value = self.nested(Self::signed)?;
            Arguments { positional: vec![value], named: Vec::new() }
        } else {
            Arguments::default()
        };
        Ok(Suffix::Test { name, arguments, negated })
    }

    /// `a, b, name=c)`
    pub(super) fn arguments(&mut self) -> Result<Arguments, Failure> {
        let mut arguments = Arguments::default();
        let mut first = true;
        while !self.skip(")") {
            if !first {
                self.expect(",")?;
                if self.skip(")") {
                    break;
                }
            }
            first = false;
            match *self.peek() {
                Token::Name(name) if *self.peek_at(1) == Token::Symbol("=") => {
                    (0..2).for_each(|_| _ = self.next());
                    arguments.named.push((name.to_owned(), self.expression()?));
                }
                _ if arguments.named.is_empty() => arguments.positional.push(self.expression()?),
                _ => return Err(syntax("a positional argument after a named one")),
            }
        }
        Ok(arguments)
    }

    fn primary(&mut self) -> Result<Expr, Failure> {
        let token = self.peek().clone();
        if matches!(token, Token::Name(_) | Token::Str(_) | Token::Int(_) | Token::Float(_)) {
            self.next();
        }
        Ok(match token {
            Token::Name("true" | "True") => Expr::Bool(true),
            Token::Name("false" | "False") => Expr::Bool(false),
            Token::Name("none" | "None") => Expr::None,
            Token::Name(name) => Expr::Name(name.to_owned()),
            Token::Str(mut text) => {
                // Strings side by side are one string.
                while let Token::Str(more) = self.peek() {
                    text.push_str(more);
                    self.next();
                }
                Expr::Str(text)
            }
            Token::Int(int) => Expr::Int(int),
            Token::Float(float) => Expr::Float(float),
            _ if self.skip("(") => {
                if self.skip(")") {
                    return Ok(Expr::Tuple(Vec::new()));
                }
                let value = self.tuple()?;
                self.expect(")")?;
                value
            }
            _ if self.skip("[") => Expr::List(self.items("]", Self::expression)?),
            _ if self.skip("{") => Expr::Dict(self.items("}", |parser| {
                let key = parser.expression()?;
                parser.expect(":")?;
                Ok((key, parser.expression()?))
            })?),
            _ => return Err(self.unexpected("a value")),
        })
    }

    /// Items with commas between them, up to `end`.
    fn items<T>(
        &mut self,
        end: &str,
        item: impl Fn(&mut Self) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let mut items = Vec::new();
        while !self.skip(end) {
            if !items.is_empty() {
                self.expect(",")?;
                if self.skip(end) {
                    break;
                }
            }
            items.push(item(self)?);
        }
        Ok(items)
    }
}

/// `left operator right`; if `left` is a chain of such operators, a longer chain.
fn chained(left: Expr, same_chain: bool, operator: Infix, right: Expr) -> Expr {
    match (operator, left) {
        (Infix::Or, Expr::Or(mut items)) if same_chain => {
            items.push(right);
            Expr::Or(items)
        }
        (Infix::And, Expr::And(mut items)) if same_chain => {
            items.push(right);
            Expr::And(items)
        }
        (Infix::Concat, Expr::Concat(mut items)) if same_chain => {
            items.push(right);
            Expr::Concat(items)
        }
        (Infix::Compare(comparison), Expr::Compare(first, mut rest)) if same_chain => {
            rest.push((comparison, right));
            Expr::Compare(first, rest)
        }
        (Infix::Arithmetic(operator), Expr::Arithmetic(first, mut rest)) if same_chain => {
            rest.push((operator, right));
            Expr::Arithmetic(first, rest)
        }
        (Infix::Or, left) => Expr::Or(vec![left, right]),
        (Infix::And, left) => Expr::And(vec![left, right]),
        (Infix::Concat, left) => Expr::Concat(vec![left, right]),
        (Infix::Compare(comparison), left) => {
            Expr::Compare(Box::new(left), vec![(comparison, right)])
        }
        (Infix::Arithmetic(operator), left) => {
            Expr::Arithmetic(Box::new(left), vec![(operator, right)])
        }
    }
}
