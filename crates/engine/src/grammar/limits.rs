//! What is too much: refused before anything is made of it.
//!
//! Compiling cannot be stopped, so nothing may take long by its form. The numbers are from what was
//! measured (`tests/bombs.rs`): what is allowed compiles within some tens of milliseconds and 16 MiB.

use std::collections::HashMap;

use llguidance::api::ParserLimits;
use serde_json::{Map, Value};

use super::schema::NAMED;
use super::{BadGrammar, GrammarSource};

/// The longest schema, counted as JSON, and the longest grammar and list of texts.
const MOST_BYTES: usize = 64 << 10;
/// The longest regular expression, names of other ones in it written out.
const MOST_REGEX_BYTES: usize = 4 << 10;
/// The deepest nesting of brackets.
const MOST_NESTED: usize = 64;
/// The most rules of a grammar.
const MOST_RULES: usize = 500;
/// The most texts to choose from.
const MOST_TEXTS: usize = 2000;
/// The most patterns that one value has to match all at once: finding out whether any text does takes
/// time that doubles with each.
const MOST_JOINED: usize = 12;
/// The most entries of a list or an object in a schema, by the word that it belongs to.
const MOST_ENTRIES: [(&str, usize); 8] = [
    ("properties", 256),
    ("patternProperties", 32),
    ("anyOf", 128),
    ("oneOf", 128),
    ("allOf", 64),
    ("prefixItems", 256),
    ("enum", 2000),
    ("$defs", 512),
];

/// The work that `llguidance` may put into a grammar, when it is compiled and at every token.
pub(super) fn of_the_parser() -> ParserLimits {
    ParserLimits {
        // A state takes a kilobyte or two, and every reply has its own.
        max_lexer_states: 8_000,
        initial_lexer_fuel: 500_000,
        // A token's mask is time in which nobody else is served. A record of 200 tokens needs a third of
        // this for its longest.
        step_lexer_fuel: 30_000,
        step_max_items: 4_000,
        max_items_in_row: 2_000,
        max_grammar_size: 50_000,
        // What was written so far and how the grammar looks inside is for nobody to read.
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

/// Refuses a source that is too long or too deep to be looked at.
pub(super) fn check(source: &GrammarSource) -> Result<(), BadGrammar> {
    match source {
        GrammarSource::JsonSchema(schema) => {
            let text = schema.to_string();
            check_len("", text.len(), MOST_BYTES)?;
            check_nesting(&text)?;
            check_entries(schema)?;
            match (Weights { root: schema, known: HashMap::new() }).of(schema) {
                few if few <= MOST_JOINED => Ok(()),
                _ => refuse(&format!(
                    "allOf: at most {MOST_JOINED} patterns for one value are allowed"
                )),
            }
        }
        GrammarSource::Calls(calls) => {
            let schemas = || calls.schemas().map(|schema| schema.to_string().len());
            check_len("", schemas().sum(), MOST_BYTES)?;
            calls.schemas().try_for_each(|schema| check(&GrammarSource::JsonSchema(schema.clone())))
        }
        GrammarSource::Regex(text) => {
            check_len("", text.len(), MOST_REGEX_BYTES)?;
            check_nesting(text)
        }
        GrammarSource::Grammar(text) => {
            check_len("", text.len(), MOST_BYTES)?;
            check_nesting(text)
        }
        GrammarSource::Choice(texts) if texts.iter().all(String::is_empty) => {
            refuse("at least one text that is not empty is needed")
        }
        GrammarSource::Choice(texts) if texts.len() > MOST_TEXTS => {
            refuse(&format!("{} texts: at most {MOST_TEXTS} are allowed", texts.len()))
        }
        GrammarSource::Choice(texts) => {
            check_len("", texts.iter().map(String::len).sum(), MOST_BYTES)
        }
    }
}

/// Refuses a grammar in Lark with too many rules, or with expressions that grow too long by the names in
/// them.
pub(super) fn check_lark(source: &str) -> Result<(), BadGrammar> {
    let definitions = definitions(source);
    if definitions.len() > MOST_RULES {
        return refuse(&format!("{} rules: at most {MOST_RULES} are allowed", definitions.len()));
    }
    let bodies: HashMap<_, _> = definitions.iter().map(|(name, body)| (*name, body)).collect();
    let mut lengths = HashMap::new();
    for (name, _) in definitions.iter().filter(|(name, _)| is_terminal(name)) {
        check_len(name, length_of(name, &bodies, &mut lengths), MOST_REGEX_BYTES)?;
    }
    Ok(())
}

fn refuse(what: &str) -> Result<(), BadGrammar> {
    Err(BadGrammar::new(what))
}

fn check_len(what: &str, len: usize, most: usize) -> Result<(), BadGrammar> {
    let of = if what.is_empty() { String::new() } else { format!("{what}: ") };
    match len <= most {
        true => Ok(()),
        false => refuse(&format!("{of}{len} bytes: at most {most} are allowed")),
    }
}

/// Brackets in quotes count too: that is no loss, with so many allowed.
fn check_nesting(text: &str) -> Result<(), BadGrammar> {
    let (mut depth, mut most) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
    }
    match most <= MOST_NESTED {
        true => Ok(()),
        false => refuse(&format!("brackets {most} deep: at most {MOST_NESTED} are allowed")),
    }
}

/// What is a property's name is counted as if it were a word: that is no loss either.
fn check_entries(schema: &Value) -> Result<(), BadGrammar> {
    let inner: Vec<&Value> = match schema {
        Value::Object(words) => {
            for (word, value) in words {
                let entries = value.as_object().map(Map::len).or(value.as_array().map(Vec::len));
                let most = MOST_ENTRIES.iter().find(|(name, _)| name == word);
                if let (Some(entries), Some(&(_, most))) = (entries, most)
                    && entries > most
                {
                    let message = format!("{word}: {entries} entries: at most {most} are allowed");
                    return refuse(&message);
                }
                if let ("pattern", Value::String(pattern)) = (word.as_str(), value) {
                    check_len("pattern", pattern.len(), MOST_REGEX_BYTES)?;
                }
            }
            words.values().collect()
        }
        Value::Array(all) => all.iter().collect(),
        _ => Vec::new(),
    };
    inner.into_iter().try_for_each(check_entries)
}

/// How many patterns, at most, one value of a schema has to match all at once.
struct Weights<'a> {
    root: &'a Value,
    /// Of what references lead to; of those that are being looked at, nothing.
    known: HashMap<&'a str, usize>,
}

impl<'a> Weights<'a> {
    fn of(&mut self, schema: &'a Value) -> usize {
        let Value::Object(words) = schema else { return 0 };
        let (mut own, mut below) = (0_usize, 0);
        for (word, value) in words {
            match (word.as_str(), value) {
                ("pattern" | "format", Value::String(_)) => own += 1,
                ("allOf", Value::Array(all)) => {
                    own = all.iter().fold(own, |sum, one| sum.saturating_add(self.of(one)));
                }
                ("anyOf" | "oneOf", Value::Array(all)) => {
                    own += all.iter().map(|one| self.of(one)).max().unwrap_or(0);
                }
                ("$ref", Value::String(path)) => own = own.saturating_add(self.at(path)),
                (_, Value::Array(all)) => below = all.iter().fold(below, |b, v| b.max(self.of(v))),
                (word, Value::Object(all)) if NAMED.contains(&word) => {
                    below = all.values().fold(below, |most, one| most.max(self.of(one)));
                }
                (_, value) => below = below.max(self.of(value)),
            }
        }
        own.saturating_add(below)
    }

    fn at(&mut self, path: &'a str) -> usize {
        if let Some(&known) = self.known.get(path) {
            return known;
        }
        self.known.insert(path, 0);
        let target = path.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let weight = target.map_or(0, |target| self.of(target));
        self.known.insert(path, weight);
        weight
    }
}

/// The rules of a grammar in Lark: a name at the start of a line, and what comes before the next one.
fn definitions(source: &str) -> Vec<(&str, String)> {
    let mut all: Vec<(&str, String)> = Vec::new();
    for line in source.lines() {
        let name = line.trim_start_matches(['?', '!']);
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(0);
        let (name, rest) = name.split_at(end);
        let is_rule = !name.is_empty() && rest.contains(':') && !rest.starts_with(' ');
        match all.last_mut() {
            _ if is_rule => all.push((name, rest.to_owned())),
            Some((_, body)) => body.push_str(line),
            None => {}
        }
    }
    all
}

fn is_terminal(name: &str) -> bool {
    name.trim_start_matches('_').starts_with(|c: char| c.is_ascii_uppercase())
}

/// How long an expression is with the names in it written out. One that leads back to itself is refused
/// later.
fn length_of<'a>(
    name: &'a str,
    bodies: &HashMap<&'a str, &'a String>,
    lengths: &mut HashMap<&'a str, usize>,
) -> usize {
    if let Some(&known) = lengths.get(name) {
        return known;
    }
    let Some(body) = bodies.get(name) else { return 0 };
    lengths.insert(name, 0);
    let words = body.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named = words.filter(|word| is_terminal(word) && bodies.contains_key(word));
    let inner = named.map(|word| length_of(word, bodies, lengths)).fold(0, usize::saturating_add);
    let length = body.len().saturating_add(inner);
    lengths.insert(name, length);
    length
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(source: &GrammarSource) -> String {
        check(source).map_or_else(|error| error.to_string(), |()| String::new())
    }

    fn schema(schema: Value) -> String {
        said(&GrammarSource::JsonSchema(schema))
    }

    #[test]
    fn what_is_too_much_is_named() {
        for (source, expected) in [
            (GrammarSource::Regex("a".repeat(5000)), "5000 bytes: at most 4096"),
            (GrammarSource::Regex("(".repeat(65)), "brackets 65 deep: at most 64"),
            (GrammarSource::Grammar("x".repeat(70_000)), "70000 bytes: at most 65536"),
            (GrammarSource::Choice(vec![String::new()]), "at least one text"),
            (GrammarSource::Choice(vec!["x".into(); 2001]), "2001 texts: at most 2000"),
        ] {
            assert!(said(&source).contains(expected), "{}", said(&source));
        }
        let fields: Map<_, _> = (0..257).map(|i| (format!("f{i}"), json!(true))).collect();
        let wide = json!({"items": {"properties": fields}});
        assert!(schema(wide).contains("properties: 257 entries: at most 256"));
        let long = json!({"anyOf": [{"pattern": "a".repeat(5000)}]});
        assert!(schema(long).contains("pattern: 5000 bytes: at most 4096"));
    }

    #[test]
    fn patterns_count_for_one_value_however_they_are_referred_to() {
        let dates: Map<_, _> = (0..40)
            .map(|i| (format!("d{i}"), json!({"type": "string", "format": "date"})))
            .collect();
        let base = json!({"type": "object", "properties": dates});
        let inherits = json!({"allOf": [{"$ref": "#/$defs/a"}, base], "$defs": {"a": base}});
        assert_eq!(schema(inherits), "", "each field is a value of its own");
        let doubled: Map<_, _> = (0..5)
            .map(|i| match i {
                4 => ("d4".to_owned(), json!({"pattern": "a"})),
                _ => {
                    let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
                    (format!("d{i}"), json!({"allOf": [next, next]}))
                }
            })
            .collect();
        let doubled = json!({"$ref": "#/$defs/d0", "$defs": doubled});
        assert!(schema(doubled).contains("at most 12 patterns"));
        let tree = json!({"$ref": "#", "items": {"$ref": "#"}, "pattern": "a"});
        assert_eq!(schema(tree), "", "what leads back to itself is counted once");
    }

    #[test]
    fn expressions_are_as_long_as_the_names_in_them() {
        let doubled: String = (0..12).map(|i| format!("T{i}: T{} T{}\n", i + 1, i + 1)).collect();
        let message = check_lark(&format!("start: T0\n{doubled}T12: \"x\"")).unwrap_err();
        assert!(message.to_string().starts_with("T0: "), "{message}");
        let rules: String = (0..501).map(|i| format!("r{i}: \"x\"\n")).collect();
        assert!(check_lark(&rules).unwrap_err().to_string().contains("501 rules: at most 500"));
        let fine =
            "start: a+\na: T0 | \"b\"\n   | a T1\nT0: /[a-z]+: T1/ T1\n_T1: \"x\"\nT1: T0 T1\n";
        assert!(check_lark(fine).is_ok());
    }
}
