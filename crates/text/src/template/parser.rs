//! Tokens → what the template says: the tags. Expressions are in [`super::expression`].

use super::ast::{Action, Arguments, Expr, For, MacroBody, Statement, Suffix, Target, Template};
use super::failure::Failure;
use super::lexer::{Token, syntax, tokens};

/// The longest template in use has 30 kB. What is parsed takes up to two hundred times as much memory.
const MAX_SOURCE_BYTES: usize = 128 << 10;
/// Brackets and tags within each other: a bound for the stack.
const MAX_NESTING: usize = 100;

pub(super) fn parse(source: &str) -> Result<Template, Failure> {
    if source.len() > MAX_SOURCE_BYTES {
        return Err(Failure::Limit { what: "bytes of source", limit: MAX_SOURCE_BYTES as u64 });
    }
    let mut parser = Parser { tokens: tokens(source)?, at: 0, nesting: 0, macros: Vec::new() };
    let body = parser.template();
    let line = parser.line();
    let body = body.map_err(|failure| failure.at(line))?;
    Ok(Template { body, macros: parser.macros })
}

pub(super) struct Parser<'s> {
    tokens: Vec<(u32, Token<'s>)>,
    at: usize,
    nesting: usize,
    macros: Vec<MacroBody>,
}

impl<'s> Parser<'s> {
    fn line(&self) -> u32 {
        self.tokens.get(self.at).map_or(0, |(line, _)| *line)
    }

    pub(super) fn peek(&self) -> &Token<'s> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, offset: usize) -> &Token<'s> {
        self.tokens.get(self.at + offset).map_or(&Token::End, |(_, token)| token)
    }

    pub(super) fn next(&mut self) -> Token<'s> {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    /// Passes this symbol, if it is the next token.
    pub(super) fn skip(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(found) if *found == symbol);
        self.at += usize::from(found);
        found
    }

    /// Passes this word, if it is the next token.
    pub(super) fn skip_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Name(found) if *found == word);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, symbol: &str) -> Result<(), Failure> {
        if self.skip(symbol) { Ok(()) } else { Err(self.unexpected(&format!("{symbol:?}"))) }
    }

    fn expect_word(&mut self, word: &str) -> Result<(), Failure> {
        if self.skip_word(word) { Ok(()) } else { Err(self.unexpected(&format!("{word:?}"))) }
    }

    pub(super) fn name(&mut self) -> Result<String, Failure> {
        match *self.peek() {
            Token::Name(name) => {
                self.at += 1;
                Ok(name.to_owned())
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    fn block_end(&mut self) -> Result<(), Failure> {
        match self.peek() {
            Token::BlockEnd => {
                self.at += 1;
                Ok(())
            }
            _ => Err(self.unexpected("the end of the tag")),
        }
    }

    /// What is wrong with the next token.
    pub(super) fn unexpected(&self, expected: &str) -> Failure {
        let found = match self.peek() {
            Token::Data(_) => "text".to_owned(),
            Token::PrintBegin | Token::BlockBegin => "a tag".to_owned(),
            Token::PrintEnd | Token::BlockEnd => "the end of the tag".to_owned(),
            Token::Name(name) => format!("{name:?}"),
            Token::Str(_) => "a string".to_owned(),
            Token::Int(_) | Token::Float(_) => "a number".to_owned(),
            Token::Symbol(symbol) => format!("{symbol:?}"),
            Token::End => "the end of the template".to_owned(),
        };
        syntax(format!("expected {expected}, found {found}"))
    }

    /// Parses one level deeper.
    pub(super) fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.nesting == MAX_NESTING {
            return Err(Failure::Limit { what: "levels of nesting", limit: MAX_NESTING as u64 });
        }
        self.nesting += 1;
        let parsed = parse(self);
        self.nesting -= 1;
        parsed
    }

    fn template(&mut self) -> Result<Vec<Statement>, Failure> {
        let (body, _) = self.body(&[])?;
        Ok(body)
    }

    /// Statements up to one of the tags in `ends`, whose name is passed and returned. Without `ends`, up to
    /// the end of the template.
    fn body(&mut self, ends: &[&'static str]) -> Result<(Vec<Statement>, &'static str), Failure> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            let action = match self.next() {
                Token::Data(text) => Action::Write(text.to_owned()),
                Token::PrintBegin => {
                    let value = self.tuple()?;
                    match self.next() {
                        Token::PrintEnd => Action::Print(value),
                        _ => {
                            self.at -= 1;
                            return Err(self.unexpected("the end of the tag"));
                        }
                    }
                }
                Token::BlockBegin => {
                    let name = self.name()?;
                    if let Some(end) = ends.iter().find(|end| **end == name) {
                        return Ok((body, end));
                    }
                    self.nested(|parser| parser.tag(&name))?
                }
                Token::End if ends.is_empty() => return Ok((body, "")),
                _ => {
                    self.at -= 1;
                    return Err(self.unexpected(&ends.join(" or ")));
                }
            };
            body.push(Statement { line, action });
        }
    }

    /// Statements up to `end`, and the rest of that tag.
    fn body_until(&mut self, end: &'static str) -> Result<Vec<Statement>, Failure> {
        let (body, _) = self.body(&[end])?;
        // `endmacro` may repeat the name of the macro.
        if matches!(self.peek(), Token::Name(_)) && end == "endmacro" {
            self.at += 1;
        }
        self.block_end()?;
        Ok(body)
    }

    fn tag(&mut self, name: &str) -> Result<Action, Failure> {
        match name {
            "for" => self.for_loop(),
            "if" => self.condition(),
            "set" => self.set(),
            "with" => self.with(),
            "filter" => {
                let filters = self.filters()?;
                self.block_end()?;
                Ok(Action::FilterBlock(filters, self.body_until("endfilter")?))
            }
            "macro" => {
                let name = self.name()?;
                self.macro_body(name, "endmacro").map(Action::Macro)
            }
            "call" => self.call_block(),
            // Transformers marks what the assistant said, for training.
            "generation" => {
                self.block_end()?;
                let body = self.body_until("endgeneration")?;
                Ok(Action::If(vec![(Expr::Bool(true), body)]))
            }
            "do" => self.simple(|parser| parser.tuple().map(Action::Do)),
            "break" => self.simple(|_| Ok(Action::Break)),
            "continue" => self.simple(|_| Ok(Action::Continue)),
            other => Err(syntax(format!("the tag {other:?} is not supported here"))),
        }
    }

    /// A tag without a body.
    fn simple(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<Action, Failure>,
    ) -> Result<Action, Failure> {
        let action = parse(self)?;
        self.block_end()?;
        Ok(action)
    }

    fn for_loop(&mut self) -> Result<Action, Failure> {
        let target = self.targets()?;
        self.expect_word("in")?;
        let items = self.tuple_of(Self::unconditional)?;
        let condition = if self.skip_word("if") { Some(self.expression()?) } else { None };
        if self.skip_word("recursive") {
            return Err(syntax("recursive loops are not supported"));
        }
        self.block_end()?;
        let (body, end) = self.body(&["endfor", "else"])?;
        self.block_end()?;
        let if_empty = if end == "else" { self.body_until("endfor")? } else { Vec::new() };
        Ok(Action::For(Box::new(For { target, items, condition, body, if_empty })))
    }

    fn condition(&mut self) -> Result<Action, Failure> {
        let mut branches = Vec::new();
        let mut condition = self.tuple()?;
        loop {
            self.block_end()?;
            let (body, end) = self.body(&["elif", "else", "endif"])?;
            branches.push((condition, body));
            match end {
                "elif" => condition = self.tuple()?,
                "else" => {
                    self.block_end()?;
                    branches.push((Expr::Bool(true), self.body_until("endif")?));
                    return Ok(Action::If(branches));
                }
                _ => {
                    self.block_end()?;
                    return Ok(Action::If(branches));
                }
            }
        }
    }

    fn set(&mut self) -> Result<Action, Failure> {
        let target = self.targets()?;
        if self.skip("=") {
            let value = self.tuple()?;
            self.block_end()?;
            return Ok(Action::Set(target, value));
        }
        let filters = if self.skip("|") { self.filters()? } else { Vec::new() };
        self.block_end()?;
        Ok(Action::SetBlock(target, filters, self.body_until("endset")?))
    }

    fn with(&mut self) -> Result<Action, Failure> {
        let mut assignments = Vec::new();
        while *self.peek() != Token::BlockEnd {
            if !assignments.is_empty() {
                self.expect(",")?;
            }
            let target = self.target()?;
            self.expect("=")?;
            assignments.push((target, self.expression()?));
        }
        self.block_end()?;
        Ok(Action::With(assignments, self.body_until("endwith")?))
    }

    fn call_block(&mut self) -> Result<Action, Failure> {
        let parameters =
            if matches!(self.peek(), Token::Symbol("(")) { self.parameters()? } else { Vec::new() };
        let refused = "a call block calls a macro";
        let Expr::Suffixed(callee, mut suffixes) = self.expression()? else {
            return Err(syntax(refused));
        };
        let Some(Suffix::Call(arguments)) = suffixes.pop() else { return Err(syntax(refused)) };
        self.block_end()?;
        let body = self.body_until("endcall")?;
        let body = self.add_macro("caller".to_owned(), parameters, body);
        Ok(Action::Call { callee: suffixed(*callee, suffixes), arguments, body })
    }

    fn macro_body(&mut self, name: String, end: &'static str) -> Result<usize, Failure> {
        let parameters = self.parameters()?;
        self.block_end()?;
        let body = self.body_until(end)?;
        Ok(self.add_macro(name, parameters, body))
    }

    fn add_macro(
        &mut self,
        name: String,
        parameters: Vec<(String, Option<Expr>)>,
        body: Vec<Statement>,
    ) -> usize {
        self.macros.push(MacroBody { name, parameters, body });
        self.macros.len() - 1
    }

    /// `(a, b=1)`
    fn parameters(&mut self) -> Result<Vec<(String, Option<Expr>)>, Failure> {
        let mut parameters = Vec::new();
        self.expect("(")?;
        while !self.skip(")") {
            if !parameters.is_empty() {
                self.expect(",")?;
            }
            let name = self.name()?;
            let default = if self.skip("=") { Some(self.expression()?) } else { None };
            parameters.push((name, default));
        }
        Ok(parameters)
    }

    /// `upper | replace('a', 'b')`: the filters of a block.
    fn filters(&mut self) -> Result<Vec<Suffix>, Failure> {
        let mut filters = Vec::new();
        loop {
            let name = self.name()?;
            let arguments = if self.skip("(") { self.arguments()? } else { Arguments::default() };
            filters.push(Suffix::Filter(name, arguments));
            if !self.skip("|") {
                return Ok(filters);
            }
        }
    }

    /// `a`, `a.b`, or `a, b`
    fn targets(&mut self) -> Result<Target, Failure> {
        let first = self.target()?;
        if !matches!(self.peek(), Token::Symbol(",")) {
            return Ok(first);
        }
        let mut targets = vec![first];
        while self.skip(",") {
            match self.peek() {
                Token::Name("in") | Token::Symbol("=") => break,
                _ => targets.push(self.target()?),
            }
        }
        Ok(Target::Tuple(targets))
    }

    fn target(&mut self) -> Result<Target, Failure> {
        if self.skip("(") {
            let target = self.nested(Self::targets)?;
            self.expect(")")?;
            return Ok(target);
        }
        let name = self.name()?;
        if self.skip(".") { Ok(Target::Field(name, self.name()?)) } else { Ok(Target::Name(name)) }
    }
}

/// A value with what follows it.
pub(super) fn suffixed(value: Expr, suffixes: Vec<Suffix>) -> Expr {
    if suffixes.is_empty() { value } else { Expr::Suffixed(Box::new(value), suffixes) }
}
