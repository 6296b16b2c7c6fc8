//! Flags that constrain the response to a schema, a regular expression or a grammar.

use std::path::Path;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use clap::builder::NonEmptyStringValueParser;
use wf_engine::GrammarSource;

use crate::input;
use crate::output::UsageError;

/// Constraints on the response, of which at most one can be set.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Structured output (docs/api.md)")]
pub(crate) struct ConstraintArgs {
    /// Constrain the response to JSON of this schema: a file, or the schema itself, starting with {
    #[arg(long, value_name = "SCHEMA", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) json_schema: Option<String>,

    /// Constrain the response to texts that this regular expression matches in full
    #[arg(long, value_name = "REGEX", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) regex: Option<String>,

    /// Constrain the response to a grammar in GBNF or Lark: a file, or the grammar itself, with ::= or
    /// a start: rule
    #[arg(long, value_name = "GRAMMAR", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) grammar: Option<String>,
}

impl ConstraintArgs {
    /// Resolves conflicts: a flag overrides the variables of the others; two flags are an error.
    pub(crate) fn resolve(&mut self, given: impl Fn(&str) -> bool) -> Result<(), UsageError> {
        let constraints = [
            ("json_schema", &mut self.json_schema),
            ("regex", &mut self.regex),
            ("grammar", &mut self.grammar),
        ];
        let has_flag = constraints.iter().any(|(id, _)| given(id));
        let mut count = 0;
        for (id, constraint) in constraints {
            if has_flag && !given(id) {
                *constraint = None;
            }
            count += usize::from(constraint.is_some());
        }
        let message = "--json-schema, --regex and --grammar cannot be used together";
        if count > 1 { Err(UsageError::new(message)) } else { Ok(()) }
    }

    /// Returns the flag that is set, and the source of its constraint.
    pub(crate) fn source(&self) -> Result<Option<(&'static str, GrammarSource)>> {
        if let Some(schema) = &self.json_schema {
            let flag = "--json-schema";
            let is_text = |text: &str| text.trim_start().starts_with('{');
            let text = text_or_file(schema, is_text).context(flag)?;
            let schema = serde_json::from_str(&text).context(flag)?;
            return Ok(Some((flag, GrammarSource::JsonSchema(schema))));
        }
        if let Some(grammar) = &self.grammar {
            let flag = "--grammar";
            let is_text = |text: &str| text.contains("::=") || text.contains("start:");
            let text = text_or_file(grammar, is_text).context(flag)?;
            return Ok(Some((flag, GrammarSource::Grammar(text))));
        }
        Ok(self.regex.clone().map(|regex| ("--regex", GrammarSource::Regex(regex))))
    }
}

fn text_or_file(given: &str, is_text: impl Fn(&str) -> bool) -> Result<String> {
    if is_text(given) { Ok(given.to_owned()) } else { input::read_text_file(Path::new(given)) }
}
