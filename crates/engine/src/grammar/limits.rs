//! Limits of grammars, checked before compiling.
//!
//! Compiling cannot be interrupted, so no source may take long by its structure. The limits are measured
//! (`tests/bombs.rs`): an allowed source compiles within some tens of milliseconds and 16 MiB. A schema inside of a
//! Lark grammar has the limits of every schema. Regular expressions have further limits: see `bounded.rs`.

use std::collections::{BTreeSet, HashMap};

use llguidance::api::ParserLimits;
use serde_json::{Map, Value};

use super::bounded::pattern_bits;
use super::narrow::joins;
use super::schema::{JSON_KEYWORD, NAMED, check_multiples, inner};
use super::{GrammarError, GrammarSource};

/// Maximum size of a schema as JSON, of a grammar, and of a list of choices.
const MAX_BYTES: usize = 64 << 10;
/// Maximum size of a regular expression with referenced terminals expanded.
const MAX_REGEX_BYTES: usize = 4 << 10;
const MAX_NESTING: usize = 64;
const MAX_RULES: usize = 500;
const MAX_CHOICES: usize = 2000;
/// Maximum sum of the bits of patterns that one value must match at once: the time to decide whether any text does
/// doubles with each.
const MAX_JOINED_BITS: usize = 10;
/// Bits of a format, whose pattern is built in.
const FORMAT_BITS: usize = 3;
/// Maximum of `minLength` and `maxLength`: a string of bounded length has a lexer state for each of its bytes.
const MAX_LENGTH: usize = 4000;
/// Maximum number of lexer states of a grammar without such strings, and of further ones for each of their characters,
/// which has up to four bytes. A state takes one or two kilobytes, and every completion has its own.
const MAX_STATES: usize = 8_000;
const STATES_PER_CHARACTER: usize = 3;
/// Maximum number of entries of a list or an object in a schema, by keyword.
const MAX_ENTRIES: [(&str, usize); 8] = [
    ("properties", 256),
    ("patternProperties", 32),
    ("anyOf", 128),
    ("oneOf", 128),
    ("allOf", 64),
    ("prefixItems", 256),
    ("enum", 2000),
    ("$defs", 512),
];

/// Returns the limits of `llguidance` for compiling a grammar and for every token.
pub(super) fn parser_limits() -> ParserLimits {
    ParserLimits {
        max_lexer_states: MAX_STATES,
        initial_lexer_fuel: 500_000,
        // Computing a mask delays all other sequences. A record of 200 tokens needs at most a third of this.
        step_lexer_fuel: 30_000,
        step_max_items: 4_000,
        max_items_in_row: 2_000,
        max_grammar_size: 50_000,
        // Errors must not contain the completion or the internals of the grammar.
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

/// Returns the maximum number of lexer states of a grammar: strings of one length share theirs.
pub(super) fn max_states(source: &GrammarSource) -> usize {
    let mut lengths = BTreeSet::new();
    match source {
        GrammarSource::JsonSchema(schema) => add_lengths(schema, &mut lengths),
        GrammarSource::ToolCalls(calls) => {
            calls.schemas().for_each(|schema| add_lengths(schema, &mut lengths));
        }
        GrammarSource::Grammar(text) => {
            inner_schemas(text).for_each(|schema| add_lengths(&schema, &mut lengths));
        }
        GrammarSource::Regex(_) | GrammarSource::Choice(_) => {}
    }
    MAX_STATES + STATES_PER_CHARACTER * lengths.iter().sum::<usize>().min(MAX_LENGTH)
}

/// Adds the largest length of each bounded string.
fn add_lengths(schema: &Value, lengths: &mut BTreeSet<usize>) {
    let Value::Object(words) = schema else { return };
    let bounds = ["minLength", "maxLength"].iter().filter_map(|word| words.get(*word)?.as_f64());
    lengths.extend(bounds.map(|len| len as usize).max());
    inner(words).for_each(|schema| add_lengths(schema, lengths));
}

pub(super) fn check(source: &GrammarSource) -> Result<(), GrammarError> {
    match source {
        GrammarSource::JsonSchema(schema) => {
            let text = schema.to_string();
            check_len("", text.len(), MAX_BYTES)?;
            check_nesting(&text)?;
            check_entries(schema)?;
            check_lengths(schema)?;
            let joined = Weights { root: schema, known: HashMap::new() }.of(schema)?;
            require(joined <= MAX_JOINED_BITS, || {
                format!(
                    "allOf: the patterns that one value must match have {joined} bits: must be at most \
                     {MAX_JOINED_BITS}; a pattern has at least 1, a format {FORMAT_BITS}"
                )
            })
        }
        GrammarSource::ToolCalls(calls) => {
            let schemas = || calls.schemas().map(|schema| schema.to_string().len());
            check_len("", schemas().sum(), MAX_BYTES)?;
            calls.schemas().try_for_each(|schema| check(&GrammarSource::JsonSchema(schema.clone())))
        }
        GrammarSource::Regex(text) => {
            check_len("", text.len(), MAX_REGEX_BYTES)?;
            check_nesting(text)
        }
        GrammarSource::Grammar(text) => {
            check_len("", text.len(), MAX_BYTES)?;
            check_nesting(text)
        }
        GrammarSource::Choice(texts) => {
            require(!texts.iter().all(String::is_empty), || {
                "choices are empty: at least one must not be the empty string".to_owned()
            })?;
            require(texts.len() <= MAX_CHOICES, || {
                format!("{} choices: must be at most {MAX_CHOICES}", texts.len())
            })?;
            check_len("", texts.iter().map(String::len).sum(), MAX_BYTES)
        }
    }
}

/// Checks the number of rules of a Lark grammar and the expanded length of its terminals.
pub(super) fn check_lark(source: &str) -> Result<(), GrammarError> {
    let definitions = definitions(source);
    let rules = definitions.len();
    require(rules <= MAX_RULES, || format!("{rules} rules: must be at most {MAX_RULES}"))?;
    let bodies: HashMap<_, _> = definitions.iter().map(|(name, body)| (*name, body)).collect();
    check_inner_schemas(source)?;
    let mut lengths = HashMap::new();
    for (name, _) in definitions.iter().filter(|(name, _)| is_terminal(name)) {
        check_len(name, length_of(name, &bodies, &mut lengths), MAX_REGEX_BYTES)?;
    }
    Ok(())
}

/// Checks every schema in a Lark grammar. One that is not valid JSON is rejected later.
fn check_inner_schemas(source: &str) -> Result<(), GrammarError> {
    inner_schemas(source).try_for_each(|schema| {
        check_multiples(&schema, joins(&schema))?;
        check(&GrammarSource::JsonSchema(schema))
    })
}

/// Returns the schemas in a Lark grammar that are valid JSON.
fn inner_schemas(source: &str) -> impl Iterator<Item = Value> {
    source.match_indices(JSON_KEYWORD).filter_map(|(at, _)| {
        let rest = &source[at + JSON_KEYWORD.len()..];
        serde_json::Deserializer::from_str(rest).into_iter::<Value>().next()?.ok()
    })
}

fn require(is_met: bool, problem: impl FnOnce() -> String) -> Result<(), GrammarError> {
    if is_met { Ok(()) } else { Err(GrammarError::new(problem())) }
}

fn check_len(what: &str, len: usize, max: usize) -> Result<(), GrammarError> {
    let of = if what.is_empty() { String::new() } else { format!("{what}: ") };
    require(len <= max, || format!("{of}{len} bytes: must be at most {max}"))
}

/// Checks the nesting of brackets. Those in quotes count too, which does no harm at this limit.
fn check_nesting(text: &str) -> Result<(), GrammarError> {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    require(deepest <= MAX_NESTING, || {
        format!("brackets are nested {deepest} deep: must be at most {MAX_NESTING}")
    })
}

/// Checks the number of entries of lists and objects. A property's name counts like a keyword, which does no harm.
fn check_entries(schema: &Value) -> Result<(), GrammarError> {
    let inner: Vec<&Value> = match schema {
        Value::Object(words) => {
            for (word, value) in words {
                let entries = value.as_object().map(Map::len).or(value.as_array().map(Vec::len));
                let max = MAX_ENTRIES.iter().find(|(name, _)| name == word);
                if let (Some(entries), Some(&(_, max))) = (entries, max) {
                    let problem = || format!("{word}: {entries} entries: must be at most {max}");
                    require(entries <= max, problem)?;
                }
                if let ("pattern", Value::String(pattern)) = (word.as_str(), value) {
                    check_len("pattern", pattern.len(), MAX_REGEX_BYTES)?;
                }
            }
            words.values().collect()
        }
        Value::Array(all) => all.iter().collect(),
        _ => Vec::new(),
    };
    inner.into_iter().try_for_each(check_entries)
}

/// Rejects strings that may be longer than a completion can follow. To lower a bound would change the schema.
fn check_lengths(schema: &Value) -> Result<(), GrammarError> {
    let Value::Object(words) = schema else { return Ok(()) };
    for word in ["minLength", "maxLength"] {
        if let Some(len) = words.get(word).and_then(Value::as_f64) {
            require(len <= MAX_LENGTH as f64, || {
                format!(
                    "{word}: {len}: must be at most {MAX_LENGTH}, because a completion has a limited memory for the \
                     length of a string; without {word}, the length of strings is free"
                )
            })?;
        }
    }
    inner(words).try_for_each(check_lengths)
}

/// Computes the maximum sum of the bits of patterns that one value of a schema must match at once.
struct Weights<'a> {
    root: &'a Value,
    /// Results by reference; 0 while a reference is being resolved.
    known: HashMap<&'a str, usize>,
}

impl<'a> Weights<'a> {
    fn of(&mut self, schema: &'a Value) -> Result<usize, GrammarError> {
        let Value::Object(words) = schema else { return Ok(0) };
        let (mut own, mut below) = (0_usize, 0);
        for (word, value) in words {
            match (word.as_str(), value) {
                ("pattern", Value::String(pattern)) => own += pattern_bits(pattern)?,
                ("format", Value::String(_)) => own += FORMAT_BITS,
                ("allOf", Value::Array(all)) => own = own.saturating_add(self.sum(all)?),
                ("anyOf" | "oneOf", Value::Array(all)) => own += self.max(all)?,
                ("$ref", Value::String(path)) => own = own.saturating_add(self.at(path)?),
                (_, Value::Array(all)) => below = below.max(self.max(all)?),
                (word, Value::Object(all)) if NAMED.contains(&word) => {
                    if word == "patternProperties" {
                        below = below.max(largest_pair(all)?);
                    }
                    below = below.max(self.max(all.values())?);
                }
                (_, value) => below = below.max(self.of(value)?),
            }
        }
        Ok(own.saturating_add(below))
    }

    fn sum(&mut self, all: &'a [Value]) -> Result<usize, GrammarError> {
        all.iter().try_fold(0, |sum: usize, one| Ok(sum.saturating_add(self.of(one)?)))
    }

    fn max(&mut self, all: impl IntoIterator<Item = &'a Value>) -> Result<usize, GrammarError> {
        all.into_iter().try_fold(0, |max: usize, one| Ok(max.max(self.of(one)?)))
    }

    fn at(&mut self, path: &'a str) -> Result<usize, GrammarError> {
        if let Some(&known) = self.known.get(path) {
            return Ok(known);
        }
        self.known.insert(path, 0);
        let target = path.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let weight = target.map_or(Ok(0), |target| self.of(target))?;
        self.known.insert(path, weight);
        Ok(weight)
    }
}

/// Returns the largest sum of the bits of two names: every two are intersected, because a field must match only one.
fn largest_pair(patterns: &Map<String, Value>) -> Result<usize, GrammarError> {
    let mut bits = patterns.keys().map(|name| pattern_bits(name)).collect::<Result<Vec<_>, _>>()?;
    bits.sort_unstable();
    Ok(bits.iter().rev().take(2).sum())
}

/// Returns the rules of a Lark grammar: a name at the start of a line, and everything up to the next one.
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

/// Returns the length of a terminal with referenced terminals expanded. Recursive ones are rejected later.
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

    fn message(source: &GrammarSource) -> String {
        check(source).map_or_else(|error| error.to_string(), |()| String::new())
    }

    fn schema(schema: Value) -> String {
        message(&GrammarSource::JsonSchema(schema))
    }

    #[test]
    fn sources_beyond_a_limit_are_rejected() {
        for (source, expected) in [
            (GrammarSource::Regex("a".repeat(5000)), "5000 bytes: must be at most 4096"),
            (
                GrammarSource::Regex("(".repeat(65)),
                "brackets are nested 65 deep: must be at most 64",
            ),
            (GrammarSource::Grammar("x".repeat(70_000)), "70000 bytes: must be at most 65536"),
            (
                GrammarSource::Choice(vec![String::new()]),
                "at least one must not be the empty string",
            ),
            (GrammarSource::Choice(vec!["x".into(); 2001]), "2001 choices: must be at most 2000"),
        ] {
            assert!(message(&source).contains(expected), "{}", message(&source));
        }
        let fields: Map<_, _> = (0..257).map(|i| (format!("f{i}"), json!(true))).collect();
        let wide = json!({"items": {"properties": fields}});
        assert!(schema(wide).contains("properties: 257 entries: must be at most 256"));
        let long = json!({"anyOf": [{"pattern": "a".repeat(5000)}]});
        assert!(schema(long).contains("pattern: 5000 bytes: must be at most 4096"));
        for word in ["minLength", "maxLength"] {
            let long = schema(json!({"properties": {"a": {"items": {word: 4001}}}}));
            assert!(long.contains(&format!("{word}: 4001: must be at most 4000")), "{long}");
            assert_eq!(schema(json!({"items": {word: 4000}, "const": {word: 9999}})), "");
        }
    }

    #[test]
    fn bounded_strings_have_more_states() {
        let states = |schema: Value| max_states(&GrammarSource::JsonSchema(schema));
        let text = |len: usize| json!({"type": "string", "maxLength": len});
        assert_eq!(states(json!({"type": "string"})), MAX_STATES);
        assert_eq!(states(json!({"items": text(100)})), MAX_STATES + 300);
        let two = |a, b| json!({"properties": {"a": text(a), "b": text(b)}});
        assert_eq!(states(two(100, 100)), MAX_STATES + 300, "they share their states");
        assert_eq!(states(two(100, 50)), MAX_STATES + 450);
        assert_eq!(states(two(3000, 2000)), MAX_STATES + 3 * MAX_LENGTH);
        let lark = format!("start: %json {}", text(100));
        assert_eq!(max_states(&GrammarSource::Grammar(lark)), MAX_STATES + 300);
    }

    #[test]
    fn patterns_are_counted_per_value_through_references() {
        let dates: Map<_, _> = (0..40)
            .map(|i| (format!("d{i}"), json!({"type": "string", "format": "date"})))
            .collect();
        let base = json!({"type": "object", "properties": dates});
        let inherits = json!({"allOf": [{"$ref": "#/$defs/a"}, base], "$defs": {"a": base}});
        assert_eq!(schema(inherits), "", "each field is a separate value");
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
        let message = schema(doubled);
        assert!(message.contains("32 bits: must be at most 10"), "{message}");
        let tree = json!({"$ref": "#", "items": {"$ref": "#"}, "pattern": "a"});
        assert_eq!(schema(tree), "", "a recursive reference is counted once");
    }

    #[test]
    fn schemas_in_a_grammar_have_the_same_limits() {
        let message = |schema: &Value| {
            let lark = format!("start: a | b\na: \"x\"\nb: %json {schema}\n");
            check_lark(&lark).map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert_eq!(message(&json!({"type": "string", "pattern": "a"})), "");
        let all: Vec<_> = (0..30).map(|i| json!({"pattern": format!("^.*{i}.*$")})).collect();
        assert!(message(&json!({"allOf": all})).contains("30 bits: must be at most 10"));
        assert!(message(&json!({"multipleOf": 99_999_989})).contains("too many digits"));
    }

    #[test]
    fn terminals_are_measured_with_references_expanded() {
        let doubled: String = (0..12).map(|i| format!("T{i}: T{} T{}\n", i + 1, i + 1)).collect();
        let message = check_lark(&format!("start: T0\n{doubled}T12: \"x\"")).unwrap_err();
        assert!(message.to_string().starts_with("T0: "), "{message}");
        let rules: String = (0..501).map(|i| format!("r{i}: \"x\"\n")).collect();
        assert!(
            check_lark(&rules).unwrap_err().to_string().contains("501 rules: must be at most 500")
        );
        let fine =
            "start: a+\na: T0 | \"b\"\n   | a T1\nT0: /[a-z]+: T1/ T1\n_T1: \"x\"\nT1: T0 T1\n";
        assert!(check_lark(fine).is_ok());
    }
}
