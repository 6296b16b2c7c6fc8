//! Settings that `/set` can change: the sampling flags, under the same names.
//!
//! Settings use the parsers of the flags, so a new sampling flag is also a new setting.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow, bail};
use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, Command, FromArgMatches};
use serde_json::{Map, Value};

use wf_core::SamplingOverrides;

use crate::args::SamplingArgs;
use crate::{output, suggest};

pub(crate) struct Settings {
    /// Values of the command line.
    initial: SamplingArgs,
    /// Names of the flags that were given.
    given: BTreeSet<String>,
    /// Values set since, by flag name.
    changed: BTreeMap<String, Vec<String>>,
    current: SamplingArgs,
}

impl Settings {
    /// Creates settings from the command line; `given` has the ids of arguments that were set.
    pub(crate) fn new(initial: &SamplingArgs, given: &[String]) -> Self {
        let names = names();
        let given = given.iter().map(|id| id.replace('_', "-")).filter(|id| names.contains(id));
        Self {
            given: given.collect(),
            changed: BTreeMap::new(),
            current: initial.clone(),
            initial: initial.clone(),
        }
    }

    /// Returns `true` if the setting with this API name was given by a flag or variable.
    pub(crate) fn is_given(&self, field: &str) -> bool {
        self.given.contains(&field.replace('_', "-"))
    }

    pub(crate) fn sampling(&self) -> &SamplingArgs {
        &self.current
    }

    /// Changes a setting. Lists have several values; without any, it has that of the command line.
    pub(crate) fn set(&mut self, name: &str, values: &[String]) -> Result<()> {
        let (name, mut changed) = (find(name)?, self.changed.clone());
        changed.remove(&name);
        changed.extend((!values.is_empty()).then(|| (name, values.to_vec())));
        self.change(changed)
    }

    fn change(&mut self, changed: BTreeMap<String, Vec<String>>) -> Result<()> {
        let flags = changed
            .iter()
            .flat_map(|(name, values)| values.iter().map(move |value| format!("--{name}={value}")));
        let matches = command().try_get_matches_from(flags);
        let matches = matches.map_err(|error| anyhow!("{}", output::first_line(&error)))?;
        let mut current = self.initial.clone();
        current.update_from_arg_matches(&matches)?;
        current.check()?;
        // The backend checks token ids against its vocabulary.
        current.params().check(usize::MAX)?;
        (self.current, self.changed) = (current, changed);
        Ok(())
    }

    /// Returns the settings that were given or changed, with their API names.
    pub(crate) fn chosen(&self) -> Map<String, Value> {
        let is_chosen = |field: &str| {
            self.is_given(field) || self.changed.contains_key(&field.replace('_', "-"))
        };
        self.all().into_iter().filter(|(field, _)| is_chosen(field)).collect()
    }

    /// Returns all settings, with their API names.
    pub(crate) fn all(&self) -> Map<String, Value> {
        // Through text, because 0.7_f32 as a double would print as 0.699999988079071.
        let params = SamplingOverrides::from(&self.current.params());
        let current = SamplingArgs { params, ..self.current.clone() };
        let text = serde_json::to_string(&current).expect("keys are strings");
        serde_json::from_str(&text).expect("a struct is an object")
    }

    /// Restores the settings of [`Self::chosen`]: all of them, or none if one is invalid.
    pub(crate) fn restore(&mut self, fields: &Map<String, Value>) -> Result<()> {
        let mut changed = BTreeMap::new();
        for (field, value) in fields {
            let name = find(field)?;
            let values = flag_values(value).ok_or_else(|| {
                anyhow!("setting {field:?} is {value}: must be a number, a string, true or false")
            })?;
            changed.insert(name, values);
        }
        self.change(changed)
    }
}

/// Converts a JSON value to values of the command line; an array has several.
fn flag_values(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Bool(_) | Value::Number(_) => Some(vec![value.to_string()]),
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(values) => values.iter().map(|text| Some(text.as_str()?.to_owned())).collect(),
        Value::Object(biases) => {
            biases.iter().map(|(id, bias)| Some(format!("{id}={}", bias.as_f64()?))).collect()
        }
        Value::Null => None,
    }
}

pub(crate) fn names() -> Vec<String> {
    command().get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
}

/// Returns the flag for a name, which may be an API name.
fn find(name: &str) -> Result<String> {
    let wanted = name.trim_start_matches("--").replace('_', "-").to_lowercase();
    let command = command();
    let mut args = command.get_arguments();
    let found = args.find(|arg| {
        let aliases = arg.get_visible_aliases().unwrap_or_default();
        arg.get_long() == Some(&wanted) || aliases.contains(&wanted.as_str())
    });
    if let Some(long) = found.and_then(|arg| arg.get_long()) {
        return Ok(long.to_owned());
    }
    let names = names();
    let hint = suggest::did_you_mean(&wanted, names.iter().map(String::as_str));
    bail!("unknown setting {name:?}{hint} (settings are {})", names.join(", "))
}

/// Returns the flags without defaults and variables, so that others keep their values.
fn command() -> Command {
    let command = SamplingArgs::augment_args_for_update(Command::new("set").no_binary_name(true));
    command.disable_help_flag(true).mut_args(|arg| {
        let arg = arg.env(None).default_value(None::<&'static str>);
        match arg.get_action() {
            ArgAction::SetTrue => {
                arg.action(ArgAction::Set).num_args(1).value_parser(BoolishValueParser::new())
            }
            _ => arg,
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::args::{Args, Command as Chosen};

    fn settings(words: &[&str], given: &[&str]) -> Settings {
        let words = ["wf", "chat"].iter().chain(words);
        let Chosen::Chat(args) = Args::parse_from(words).command else { panic!("not chat") };
        let given: Vec<_> = given.iter().map(|&id| id.to_owned()).collect();
        Settings::new(&args.sampling, &given)
    }

    fn set(settings: &mut Settings, name: &str, value: &str) -> Result<(), String> {
        settings.set(name, &[value.to_owned()]).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_have_flag_names_and_api_names() {
        let mut settings = settings(&["--top-k", "7"], &["top_k", "model"]);
        for name in ["top-p", "top_p", "--top-p"] {
            set(&mut settings, name, "0.5").unwrap();
            let params = settings.sampling().params();
            assert_eq!((params.top_p, params.top_k), (0.5, 7));
            settings.set(name, &[]).unwrap();
            assert_eq!(settings.sampling().params().top_p, 1.0);
        }
        set(&mut settings, "repeat-penalty", "1.5").unwrap();
        set(&mut settings, "ignore-eos", "on").unwrap();
        set(&mut settings, "presence-penalty", "-1").unwrap();
        let now = settings.sampling();
        let params = now.params();
        assert_eq!((params.repetition_penalty, params.presence_penalty), (1.5, -1.0));
        assert!(now.ignore_eos && params.top_k == 7);
        set(&mut settings, "seed", "3").unwrap();
        settings.set("seed", &[]).unwrap();
        assert_eq!(settings.sampling().seed, None);
        assert!(settings.sampling().ignore_eos, "others stay as they are");
    }

    #[test]
    fn invalid_settings_are_errors_and_change_nothing() {
        let mut settings = settings(&[], &[]);
        for (name, value, words) in [
            ("temprature", "1", "did you mean temperature?"),
            ("colour", "1", "settings are max-tokens, min-tokens, temperature"),
            ("temperature", "hot", "must be a number"),
            ("temperature", "-1", "must be between 0 and 100"),
            ("top-p", "2", "at most 1"),
            ("min-tokens", "999", "must not exceed --max-tokens (256)"),
            ("ignore-eos", "perhaps", "perhaps"),
        ] {
            let message = set(&mut settings, name, value).unwrap_err();
            assert!(message.contains(words), "{name}: {message}");
            assert!(!message.contains('\n'), "{message}");
        }
        assert!(settings.chosen().is_empty());
    }

    #[test]
    fn chosen_settings_have_api_names_and_can_be_restored() {
        let mut first = settings(&["--top-k", "7"], &["top_k"]);
        first.set("stop", &["END".to_owned(), "a,b".to_owned()]).unwrap();
        set(&mut first, "logit-bias", "42=-5").unwrap();
        set(&mut first, "temperature", "0.7").unwrap();
        set(&mut first, "ignore-eos", "true").unwrap();
        let chosen = first.chosen();
        let expected = json!({"temperature": 0.7, "top_k": 7, "logit_bias": {"42": -5.0},
            "stop": ["END", "a,b"], "ignore_eos": true});
        let text = serde_json::to_string(&chosen).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
        let mut second = settings(&[], &[]);
        let fields = expected.as_object().unwrap();
        second.restore(fields).unwrap();
        assert_eq!(serde_json::to_string(&second.chosen()).unwrap(), text);
        for wrong in [json!({"top_q": 1}), json!({"top_k": null}), json!({"top_k": "many"})] {
            assert!(second.restore(wrong.as_object().unwrap()).is_err(), "{wrong}");
        }
        assert_eq!(serde_json::to_string(&second.chosen()).unwrap(), text, "nothing has changed");
    }
}
