//! The JSON Schema Test Suite, token by token.
//!
//! `tests/data/json-schema-suite.json` holds all that draft 2020-12 requires: for each file a list of
//! `[description, schema, [[value, whether it is of the schema], …]]`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use wf_formats::{ModelFile, OpenOptions};

use super::compile::{compile, top_level_of_schema};
use super::{Follower, Grammar, GrammarError, Grammars};
use crate::{ModelText, read_text};

const SUITE: &str = include_str!("../../tests/data/json-schema-suite.json");

/// Known differences from the suite, with reasons.
const DIFFERENCES: [(&str, &str); 2] = [
    ("format: ", "formats are enforced here, but are annotations in the suite"),
    ("vocabulary: ", "the dialect of a schema is not resolved"),
];

/// A case: description, schema, and values with the expected result.
type Case = (String, Value, Vec<(Value, bool)>);

fn text() -> ModelText {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wf/assets/demo.gguf");
    let file = ModelFile::open(&demo, &OpenOptions::default()).unwrap();
    read_text(&file).unwrap()
}

/// Returns the spellings of a value: a grammar decides the order of fields.
fn spellings(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| (Value::from(name.as_str()).to_string(), spellings(value)))
                .collect();
            orders(fields.len())
                .into_iter()
                .flat_map(|order| {
                    let parts = order.iter().map(|&at| {
                        let (name, values) = &fields[at];
                        values.iter().map(|value| format!("{name}: {value}")).collect()
                    });
                    joined("{", parts, "}")
                })
                .collect()
        }
        Value::Array(items) => joined("[", items.iter().map(spellings), "]"),
        Value::Number(number) => match number.as_f64() {
            // 1.0 is an integer in JSON Schema and written as one here.
            Some(n) if n.fract() == 0.0 && n.abs() < 1e17 => vec![(n as i64).to_string()],
            _ => vec![number.to_string()],
        },
        other => vec![other.to_string()],
    }
}

/// Returns every combination of one spelling per part.
fn joined(open: &str, parts: impl Iterator<Item = Vec<String>>, close: &str) -> Vec<String> {
    let mut all = vec![open.to_owned()];
    for (at, part) in parts.enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        let longer = |text: &String| -> Vec<_> {
            part.iter().map(|part| format!("{text}{comma}{part}")).collect()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.into_iter().map(|text| text + close).collect()
}

/// Returns all permutations of up to five items, one of more.
fn orders(len: usize) -> Vec<Vec<usize>> {
    if len > 5 {
        return vec![(0..len).collect()];
    }
    (0..len).fold(vec![Vec::new()], |orders, next| {
        let with = |order: Vec<usize>| {
            (0..=order.len()).map(move |at| {
                let mut longer = order.clone();
                longer.insert(at, next);
                longer
            })
        };
        orders.into_iter().flat_map(with).collect()
    })
}

fn accepts(text: &ModelText, grammar: &Grammar, spelled: &str) -> bool {
    let tokens = text.tokenizer.encode(spelled);
    let mut follower = Follower::new(grammar);
    tokens.into_iter().for_each(|token| follower.consume(token));
    follower.is_accepting()
}

/// Returns `true` if a message names a keyword of the schema.
fn names_a_keyword(schema: &Value, message: &str) -> bool {
    match schema {
        Value::Object(words) => words.iter().any(|(word, value)| {
            message.contains(word.as_str()) || names_a_keyword(value, message)
        }),
        Value::Array(all) => all.iter().any(|one| names_a_keyword(one, message)),
        _ => false,
    }
}

#[test]
fn every_schema_is_followed_or_rejected_by_keyword() {
    let text = text();
    let grammars = Grammars::new(&text.tokenizer, &text.end_tokens).unwrap();
    let suite: BTreeMap<String, Vec<Case>> = serde_json::from_str(SUITE).unwrap();
    let (mut followed, mut rejected, mut wrong) = (0, 0, Vec::new());
    for (file, cases) in &suite {
        for (case, schema, values) in cases {
            let top = top_level_of_schema(schema.clone());
            let grammar = match top
                .and_then(|top| compile(&grammars.factory, top, grammars.factory.limits().clone()))
            {
                Ok(grammar) => grammar,
                Err(GrammarError::Invalid(message)) => {
                    rejected += 1;
                    let has_values = values.iter().any(|(_, is_valid)| *is_valid);
                    if has_values && !names_a_keyword(schema, &message) {
                        wrong.push(format!("{file}: {case}: rejected with {message}"));
                    }
                    continue;
                }
                Err(busy) => panic!("{busy}"),
            };
            for (value, expected) in values {
                followed += 1;
                let accepted = spellings(value).iter().any(|s| accepts(&text, &grammar, s));
                if accepted != *expected {
                    wrong.push(format!("{file}: {case}: {value} should be {expected}"));
                }
            }
        }
    }
    println!("{followed} values followed, {rejected} schemas rejected");
    let is_known = |wrong: &&String| DIFFERENCES.iter().any(|(start, _)| wrong.starts_with(start));
    assert_eq!(wrong.iter().find(|wrong| !is_known(wrong)), None);
    for (start, why) in DIFFERENCES {
        assert!(wrong.iter().any(|wrong| wrong.starts_with(start)), "{why}: no longer so");
    }
    assert!(followed > 550 && rejected < 240, "{followed} values followed, {rejected} rejected");
}
