//! GBNF, the notation of llama.cpp and of xgrammar (`root ::= "a" [0-9]+`), in that of Lark.
//!
//! A rule that does not lead back to itself becomes a terminal: a regular expression as a whole, which is
//! matched exactly. Between rules, the longest match counts.

use std::collections::HashMap;
use std::fmt::Write;

use super::BadGrammar;

/// A part of a rule.
#[derive(Debug, PartialEq)]
enum Part<'a> {
    /// What both notations write alike.
    Same(&'a str),
    /// A class of characters, brackets included.
    Class(&'a str),
    /// Any character.
    Any,
    /// The name of a rule.
    Name(&'a str),
    /// What follows belongs to the rule of this name.
    Rule(&'a str),
}

/// Whether a source is written so.
pub(super) fn is_bnf(source: &str) -> bool {
    source.contains("::=")
}

/// The same grammar for Lark.
pub(super) fn to_lark(source: &str) -> Result<String, BadGrammar> {
    let rules = rules(source)?;
    let places: HashMap<_, _> = rules.iter().zip(0..).map(|((name, _), at)| (*name, at)).collect();
    let place = |name: &str| {
        let missing = || BadGrammar::new(format!("the rule {name:?} is named but nowhere given"));
        places.get(name).copied().ok_or_else(missing)
    };
    if places.len() < rules.len() {
        return Err(BadGrammar::new("two rules have the same name"));
    }
    let is_terminal = terminals(&rules, &place)?;
    let name = |at: usize| format!("{}{at}", if is_terminal[at] { "T" } else { "r" });
    let mut lark = format!("start: {}\n", name(place("root")?));
    for (at, (_, parts)) in rules.iter().enumerate() {
        lark.push_str(&name(at));
        lark.push(':');
        // An alternative of nothing is written out in Lark.
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

fn rules(source: &str) -> Result<Rules<'_>, BadGrammar> {
    let mut rules: Rules<'_> = Vec::new();
    let mut rest = source;
    while let Some(part) = next(&mut rest)? {
        match (part, rules.last_mut()) {
            (Part::Rule(name), _) => rules.push((name, Vec::new())),
            (part, Some((_, parts))) => parts.push(part),
            (_, None) => return Err(BadGrammar::new("it does not begin with a rule")),
        }
    }
    Ok(rules)
}

/// Which rules lead back to none that is not a terminal itself.
fn terminals(
    rules: &Rules<'_>,
    place: &impl Fn(&str) -> Result<usize, BadGrammar>,
) -> Result<Vec<bool>, BadGrammar> {
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

/// Takes the next part off the source.
fn next<'a>(rest: &mut &'a str) -> Result<Option<Part<'a>>, BadGrammar> {
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
            return Err(BadGrammar::new(format!("{other:?} has no meaning outside of quotes")));
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

/// How long a text is that ends with `end`, where a backslash takes the meaning of what follows.
fn quoted(text: &str, end: char) -> Result<usize, BadGrammar> {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            c if c == end => return Ok(at + 1),
            _ => {}
        }
    }
    Err(BadGrammar::new(format!("a text is not closed by {end:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_become_terminals_unless_they_lead_back_to_themselves() {
        let source = "# a list\nroot ::= \"[\" item (\",\" item)* \"]\"\n\
                      item ::= root | num-ber |\nnum-ber ::= [0-9/]{1,3} . # digits\n";
        let lark = "start: r0\nr0: \"[\" r1 ( \",\" r1 ) * \"]\"\nr1: r0 | T2 | \"\"\n\
                    T2: /[0-9\\/]/ {1,3} /(?s:.)/\n";
        assert_eq!(to_lark(source).unwrap(), lark);
    }

    #[test]
    fn mistakes_are_told() {
        for (source, said) in [
            ("root ::= other", "\"other\" is named but nowhere given"),
            ("other ::= \"a\"", "\"root\" is named but nowhere given"),
            ("root ::= \"a", "not closed"),
            ("\"a\" root ::= \"b\"", "does not begin with a rule"),
            ("root ::= \"a\"\nroot ::= \"b\"", "the same name"),
            ("root ::= %", "'%' has no meaning"),
        ] {
            let message = to_lark(source).unwrap_err().to_string();
            assert!(message.contains(said), "{source}: {message}");
        }
    }
}
