//! Converts GBNF, the notation of llama.cpp and xgrammar (`root ::= "a" [0-9]+`), to Lark.
//!
//! A rule that is not recursive becomes a terminal, which is one regular expression and matched exactly. Between
//! rules, the longest match counts.

use std::collections::HashMap;
use std::fmt::Write;

use super::GrammarError;

#[derive(Debug, PartialEq)]
enum Part<'a> {
    /// Text that is the same in both notations.
    Same(&'a str),
    /// A character class, including brackets.
    Class(&'a str),
    Any,
    /// Reference to a rule.
    Name(&'a str),
    /// Start of the definition of a rule.
    Rule(&'a str),
}

pub(super) fn is_bnf(source: &str) -> bool {
    source.contains("::=")
}

pub(super) fn to_lark(source: &str) -> Result<String, GrammarError> {
    let rules = rules(source)?;
    let places: HashMap<_, _> = rules.iter().zip(0..).map(|((name, _), at)| (*name, at)).collect();
    let place = |name: &str| {
        let missing = || GrammarError::new(format!("the rule {name:?} is not defined"));
        places.get(name).copied().ok_or_else(missing)
    };
    if places.len() < rules.len() {
        return Err(GrammarError::new("a rule is defined twice"));
    }
    let is_terminal = terminals(&rules, &place)?;
    let name = |at: usize| format!("{}{at}", if is_terminal[at] { "T" } else { "r" });
    let mut lark = format!("start: {}\n", name(place("root")?));
    for (at, (_, parts)) in rules.iter().enumerate() {
        lark.push_str(&name(at));
        lark.push(':');
        // An empty alternative is explicit in Lark.
        let mut is_empty = true;
        for part in parts {
            let closes = matches!(part, Part::Same("|" | ")"));
            let text = match part {
                Part::Same(text) => (*text).to_owned(),
                Part::Class(text) => format!("/{}/", text.replace('/', "\\/")),
                Part::Any => "/(?s:.)/".to_owned(),
                Part::Name(other) => name(place(other)?),
                Part::Rule(_) => continue,
            };
            let nothing = if closes && is_empty { " \"\"" } else { "" };
            write!(lark, "{nothing} {text}").expect("a string takes everything");
            is_empty = matches!(part, Part::Same("|" | "("));
        }
        lark.push_str(if is_empty { " \"\"\n" } else { "\n" });
    }
    Ok(lark)
}

type Rules<'a> = Vec<(&'a str, Vec<Part<'a>>)>;

fn rules(source: &str) -> Result<Rules<'_>, GrammarError> {
    let mut rules: Rules<'_> = Vec::new();
    let mut rest = source;
    while let Some(part) = next(&mut rest)? {
        match (part, rules.last_mut()) {
            (Part::Rule(name), _) => rules.push((name, Vec::new())),
            (part, Some((_, parts))) => parts.push(part),
            (_, None) => return Err(GrammarError::new("the grammar does not begin with a rule")),
        }
    }
    Ok(rules)
}

/// Returns which rules are terminals: they refer only to terminals.
fn terminals(
    rules: &Rules<'_>,
    place: &impl Fn(&str) -> Result<usize, GrammarError>,
) -> Result<Vec<bool>, GrammarError> {
    let mut named = Vec::with_capacity(rules.len());
    for (_, parts) in rules {
        let names = parts.iter().filter_map(|part| match part {
            Part::Name(name) => Some(place(name)),
            _ => None,
        });
        named.push(names.collect::<Result<Vec<_>, _>>()?);
    }
    let mut is_terminal = vec![false; rules.len()];
    loop {
        let more = (0..rules.len())
            .filter(|&at| !is_terminal[at] && named[at].iter().all(|&other| is_terminal[other]))
            .collect::<Vec<_>>();
        if more.is_empty() {
            return Ok(is_terminal);
        }
        more.iter().for_each(|&at| is_terminal[at] = true);
    }
}

fn next<'a>(rest: &mut &'a str) -> Result<Option<Part<'a>>, GrammarError> {
    *rest = rest.trim_start();
    while rest.starts_with('#') {
        let end = rest.find('\n').unwrap_or(rest.len());
        *rest = rest[end..].trim_start();
    }
    let Some(first) = rest.chars().next() else { return Ok(None) };
    let (len, part): (usize, fn(&'a str) -> Part<'a>) = match first {
        '"' => (quoted(rest, '"')?, Part::Same),
        '[' => (quoted(rest, ']')?, Part::Class),
        '{' => (rest.find('}').map_or(rest.len(), |end| end + 1), Part::Same),
        '.' => (1, |_| Part::Any),
        '(' | ')' | '|' | '*' | '+' | '?' => (1, Part::Same),
        c if is_name(c) => (rest.find(|c| !is_name(c)).unwrap_or(rest.len()), Part::Name),
        other => {
            return Err(GrammarError::new(format!("unexpected {other:?} outside of quotes")));
        }
    };
    let (text, after) = rest.split_at(len);
    *rest = after;
    if let Part::Name(name) = part(text)
        && let Some(after) = after.trim_start().strip_prefix("::=")
    {
        *rest = after;
        return Ok(Some(Part::Rule(name)));
    }
    Ok(Some(part(text)))
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Returns the length of a quoted text that ends with `end`, where a backslash escapes the next character.
fn quoted(text: &str, end: char) -> Result<usize, GrammarError> {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            c if c == end => return Ok(at + 1),
            _ => {}
        }
    }
    Err(GrammarError::new(format!("a literal is not closed by {end:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_become_terminals_unless_they_are_recursive() {
        let source = "# a list\nroot ::= \"[\" item (\",\" item)* \"]\"\n\
                      item ::= root | num-ber |\nnum-ber ::= [0-9/]{1,3} . # digits\n";
        let lark = "start: r0\nr0: \"[\" r1 ( \",\" r1 ) * \"]\"\nr1: r0 | T2 | \"\"\n\
                    T2: /[0-9\\/]/ {1,3} /(?s:.)/\n";
        assert_eq!(to_lark(source).unwrap(), lark);
    }

    #[test]
    fn errors_are_reported() {
        for (source, expected) in [
            ("root ::= other", "\"other\" is not defined"),
            ("other ::= \"a\"", "\"root\" is not defined"),
            ("root ::= \"a", "not closed"),
            ("\"a\" root ::= \"b\"", "does not begin with a rule"),
            ("root ::= \"a\"\nroot ::= \"b\"", "defined twice"),
            ("root ::= %", "unexpected '%'"),
        ] {
            let message = to_lark(source).unwrap_err().to_string();
            assert!(message.contains(expected), "{source}: {message}");
        }
    }
}
