//! What form a reply must have.

use std::path::Path;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use clap::builder::NonEmptyStringValueParser;
use wf_engine::GrammarSource;

use crate::open;
use crate::report::UsageError;

/// What form a reply must have: one of them at most.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Form of the reply (docs/api.md, structured output)")]
pub(crate) struct FormArgs {
    /// The reply is JSON of this schema; a file, or the schema itself, which begins with {
    #[arg(long, env = "WF_JSON_SCHEMA", value_name = "SCHEMA",
          value_parser = NonEmptyStringValueParser::new())]
    pub(crate) json_schema: Option<String>,

    /// The reply is a text that this regular expression matches as a whole
    #[arg(long, env = "WF_REGEX", value_name = "REGEX",
          value_parser = NonEmptyStringValueParser::new())]
    pub(crate) regex: Option<String>,

    /// The reply is a text of this grammar, in GBNF or Lark; a file, or the grammar itself, which has a
    /// rule with ::= or one called start:
    #[arg(long, env = "WF_GRAMMAR", value_name = "GRAMMAR",
          value_parser = NonEmptyStringValueParser::new())]
    pub(crate) grammar: Option<String>,
}

impl FormArgs {
    /// A flag beats the variables of the others; two flags are a mistake.
    pub(crate) fn settle(&mut self, given: impl Fn(&str) -> bool) -> Result<(), UsageError> {
        let forms = [
            ("json_schema", &mut self.json_schema),
            ("regex", &mut self.regex),
            ("grammar", &mut self.grammar),
        ];
        let has_flag = forms.iter().any(|(id, _)| given(id));
        let mut asked = 0;
        for (id, form) in forms {
            if has_flag && !given(id) {
                *form = None;
            }
            asked += usize::from(form.is_some());
        }
        match asked {
            0 | 1 => Ok(()),
            _ => Err(UsageError::new(
                "a reply has one form: give one of --json-schema, --regex and --grammar",
            )),
        }
    }

    /// The form that is asked for, if one is.
    pub(crate) fn source(&self) -> Result<Option<GrammarSource>> {
        if let Some(schema) = &self.json_schema {
            let is_text = |text: &str| text.trim_start().starts_with('{');
            let text = text_or_file(schema, is_text).context("--json-schema")?;
            let schema = serde_json::from_str(&text).context("--json-schema")?;
            return Ok(Some(GrammarSource::JsonSchema(schema)));
        }
        if let Some(grammar) = &self.grammar {
            let is_text = |text: &str| text.contains("::=") || text.contains("start:");
            let text = text_or_file(grammar, is_text).context("--grammar")?;
            return Ok(Some(GrammarSource::Grammar(text)));
        }
        Ok(self.regex.clone().map(GrammarSource::Regex))
    }

    /// The flag that asks for a form.
    pub(crate) fn flag(&self) -> &'static str {
        match (&self.json_schema, &self.regex) {
            (Some(_), _) => "--json-schema",
            (_, Some(_)) => "--regex",
            _ => "--grammar",
        }
    }
}

fn text_or_file(given: &str, is_text: impl Fn(&str) -> bool) -> Result<String> {
    if is_text(given) { Ok(given.to_owned()) } else { open::read_text_file(Path::new(given)) }
}
