//! Template source → tokens, with the white-space control of Jinja2 as Transformers sets it up: a block tag
//! takes the white space before it on its line (`lstrip_blocks`) and the line feed after it (`trim_blocks`).

use super::failure::Failure;
use super::literal;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'s> {
    /// Text outside of tags.
    Data(&'s str),
    PrintBegin,
    PrintEnd,
    BlockBegin,
    BlockEnd,
    Name(&'s str),
    Str(String),
    Int(i128),
    Float(f64),
    Symbol(&'static str),
    End,
}

/// Longer symbols first.
const SYMBOLS: [&str; 28] = [
    "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", "(", ")", "[",
    "]", "{", "}", ",", ".", ":", "|", "&", "@", ";",
];

/// All tokens of the source, each with its line.
pub(super) fn tokens(source: &str) -> Result<Vec<(u32, Token<'_>)>, Failure> {
    // Jinja2 does not count the last line feed of a file.
    let source = source.strip_suffix('\n').unwrap_or(source);
    let mut lexer =
        Lexer { source, at: 0, line: 1, counted: 0, at_line_start: true, tokens: Vec::new() };
    lexer.template().map_err(|failure| {
        lexer.count_lines();
        failure.at(lexer.line)
    })?;
    lexer.push(Token::End);
    Ok(lexer.tokens)
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
    /// The line of the byte at `counted`.
    line: u32,
    counted: usize,
    /// Whether the text from here on begins a line: at the start, and after a line feed that a tag took.
    at_line_start: bool,
    tokens: Vec<(u32, Token<'s>)>,
}

/// What stands at the sides of a tag: `-`, `+`, or nothing.
#[derive(Clone, Copy, PartialEq)]
enum Trim {
    All,
    Nothing,
    Default,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn count_lines(&mut self) {
        let passed = &self.source.as_bytes()[self.counted..self.at];
        let lines = passed.iter().filter(|byte| **byte == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.counted = self.at;
    }

    fn push(&mut self, token: Token<'s>) {
        self.count_lines();
        self.tokens.push((self.line, token));
    }

    fn template(&mut self) -> Result<(), Failure> {
        loop {
            let rest = self.rest();
            let begin = rest
                .match_indices('{')
                .find(|(at, _)| matches!(rest.as_bytes().get(at + 1), Some(b'{' | b'%' | b'#')));
            let Some((begin, _)) = begin else {
                self.data(rest, Trim::Nothing);
                self.at = self.source.len();
                return Ok(());
            };
            let kind = rest.as_bytes()[begin + 1];
            let trim = match (rest.as_bytes().get(begin + 2), kind) {
                (Some(b'-'), _) => Trim::All,
                (Some(b'+'), b'%' | b'#') | (_, b'{') => Trim::Nothing,
                _ => Trim::Default,
            };
            self.data(&rest[..begin], trim);
            self.at += begin + 2;
            let signed = matches!(trim, Trim::All)
                || kind != b'{' && rest.as_bytes().get(begin + 2) == Some(&b'+');
            self.at += usize::from(signed);
            match kind {
                b'#' => self.comment()?,
                b'{' => {
                    self.push(Token::PrintBegin);
                    self.inside("}}", Token::PrintEnd)?;
                }
                _ => match word_tag_len(self.rest(), "raw") {
                    Some((len, trim)) => self.raw(len, trim)?,
                    None => {
                        self.push(Token::BlockBegin);
                        self.inside("%}", Token::BlockEnd)?;
                    }
                },
            }
        }
    }

    /// Text before a tag, less the white space that the tag takes.
    fn data(&mut self, text: &'s str, trim: Trim) {
        let kept = match trim {
            Trim::All => text.trim_end(),
            Trim::Nothing => text,
            Trim::Default => {
                let line_begin = text.rfind('\n').map_or(0, |at| at + 1);
                let begins_line = line_begin > 0 || self.at_line_start;
                let is_blank = text[line_begin..].chars().all(char::is_whitespace);
                if begins_line && is_blank { &text[..line_begin] } else { text }
            }
        };
        if !kept.is_empty() {
            self.push(Token::Data(kept));
        }
    }

    /// Passes the white space after a tag that ended with this sign.
    fn after_tag(&mut self, trim: Trim, takes_line_feed: bool) {
        let rest = self.rest();
        self.at += match trim {
            Trim::All => rest.len() - rest.trim_start().len(),
            Trim::Default if takes_line_feed && rest.starts_with('\n') => 1,
            _ => 0,
        };
        self.at_line_start = self.source[..self.at].ends_with('\n');
    }

    fn comment(&mut self) -> Result<(), Failure> {
        let rest = self.rest();
        let len = rest.find("#}").ok_or_else(|| syntax("a comment has no end"))?;
        let trim = match rest.as_bytes()[..len].last() {
            Some(b'-') => Trim::All,
            Some(b'+') => Trim::Nothing,
            _ => Trim::Default,
        };
        self.at += len + 2;
        self.after_tag(trim, true);
        Ok(())
    }

    /// Text from the end of a `raw` tag up to `endraw`, as it is.
    fn raw(&mut self, tag_len: usize, trim: Trim) -> Result<(), Failure> {
        self.at += tag_len;
        self.after_tag(trim, false);
        let rest = self.rest();
        for (begin, _) in rest.match_indices("{%") {
            let inside = &rest[begin + 2..];
            let (trim, inside) = match inside.as_bytes().first() {
                Some(b'-') => (Trim::All, &inside[1..]),
                Some(b'+') => (Trim::Nothing, &inside[1..]),
                _ => (Trim::Default, inside),
            };
            if let Some((len, after)) = word_tag_len(inside, "endraw") {
                self.data(&rest[..begin], trim);
                self.at = self.source.len() - inside.len() + len;
                self.after_tag(after, true);
                return Ok(());
            }
        }
        Err(syntax("a raw block has no end"))
    }

    /// Tokens of a tag up to its end.
    fn inside(&mut self, end: &str, end_token: Token<'static>) -> Result<(), Failure> {
        let mut open_brackets: usize = 0;
        loop {
            self.at += self.rest().len() - self.rest().trim_start().len();
            let rest = self.rest();
            let sign = rest.as_bytes().first().filter(|byte| matches!(byte, b'-' | b'+'));
            let unsigned = if sign.is_some() { &rest[1..] } else { rest };
            // `{{ {'a': {}}}}`: braces that are open in the tag close first.
            if open_brackets == 0
                && unsigned.starts_with(end)
                && !(end == "}}" && sign == Some(&b'+'))
            {
                let trim = match sign {
                    Some(b'-') => Trim::All,
                    Some(_) => Trim::Nothing,
                    None => Trim::Default,
                };
                self.at += rest.len() - unsigned.len();
                self.push(end_token);
                self.at += 2;
                self.after_tag(trim, end == "%}");
                return Ok(());
            }
            let (token, len) = token(rest)?;
            match token {
                Token::Symbol("(" | "[" | "{") => open_brackets += 1,
                Token::Symbol(")" | "]" | "}") => open_brackets = open_brackets.saturating_sub(1),
                _ => {}
            }
            self.push(token);
            self.at += len;
        }
    }
}

/// The length up to and with the end of a block tag that holds nothing but `word`, and the sign at its end.
fn word_tag_len(inside: &str, word: &str) -> Option<(usize, Trim)> {
    let rest = inside.trim_start().strip_prefix(word)?.trim_start();
    let (trim, rest) = match rest.as_bytes().first()? {
        b'-' => (Trim::All, &rest[1..]),
        b'+' => (Trim::Nothing, &rest[1..]),
        _ => (Trim::Default, rest),
    };
    let rest = rest.strip_prefix("%}")?;
    Some((inside.len() - rest.len(), trim))
}

/// The token that `rest` begins with, and its length.
fn token(rest: &str) -> Result<(Token<'_>, usize), Failure> {
    let Some(first) = rest.chars().next() else { return Err(syntax("a tag has no end")) };
    if first == '_' || first.is_alphabetic() {
        let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
        return Ok((Token::Name(&rest[..end]), end));
    }
    if first == '"' || first == '\'' {
        let (text, len) = literal::string(rest)?;
        return Ok((Token::Str(text), len));
    }
    if first.is_ascii_digit() {
        return literal::number(rest);
    }
    let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
    let symbol = symbol.ok_or_else(|| syntax(format!("unexpected {first:?}")))?;
    Ok((Token::Symbol(symbol), symbol.len()))
}

/// A failure to read the source.
pub(super) fn syntax(what: impl AsRef<str>) -> Failure {
    Failure::new(format!("syntax error: {}", what.as_ref()))
}
