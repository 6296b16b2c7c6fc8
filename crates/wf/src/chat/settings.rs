//! What can be set between two answers: the sampling flags, under the same names.
//!
//! A setting is read by the same parser as its flag, so a flag that is added there can be set here.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow, bail};
use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, Command, FromArgMatches};
use serde_json::{Map, Value};

use crate::args::SamplingArgs;
use crate::near;

/// The settings of a conversation.
pub(crate) struct Settings {
    /// As the command line has them.
    first: SamplingArgs,
    /// Those of them that somebody gave.
    given: BTreeSet<String>,
    /// What was set since, by the names of flags.
    changed: BTreeMap<String, Vec<String>>,
    now: SamplingArgs,
}

impl Settings {
    /// Those of the command line; `given` has the ids of arguments that somebody gave.
    pub(crate) fn new(first: &SamplingArgs, given: &[String]) -> Self {
        let names = names();
        let given = given.iter().map(|id| id.replace('_', "-")).filter(|id| names.contains(id));
        Self {
            given: given.collect(),
            changed: BTreeMap::new(),
            now: first.clone(),
            first: first.clone(),
        }
    }

    /// Whether the command line or the environment gave the setting with that name of the API.
    pub(crate) fn is_given(&self, field: &str) -> bool {
        self.given.contains(&field.replace('_', "-"))
    }

    /// Those that hold now.
    pub(crate) fn sampling(&self) -> &SamplingArgs {
        &self.now
    }

    /// Gives a setting another value; several for those that are lists.
    pub(crate) fn set(&mut self, name: &str, values: &[String]) -> Result<()> {
        let name = find(name)?;
        let mut changed = self.changed.clone();
        changed.insert(name, values.to_vec());
        self.change(changed)
    }

    /// Gives a setting the value of the command line again.
    pub(crate) fn reset(&mut self, name: &str) -> Result<()> {
        let mut changed = self.changed.clone();
        changed.remove(&find(name)?);
        self.change(changed)
    }

    fn change(&mut self, changed: BTreeMap<String, Vec<String>>) -> Result<()> {
        let words = changed
            .iter()
            .flat_map(|(name, values)| values.iter().map(move |value| format!("--{name}={value}")));
        let matches = command().try_get_matches_from(words).map_err(|error| {
            let message = error.to_string();
            let first = message.lines().next().unwrap_or_default();
            anyhow!("{}", first.strip_prefix("error: ").unwrap_or(first))
        })?;
        let mut now = self.first.clone();
        now.update_from_arg_matches(&matches)?;
        now.check()?;
        // What the vocabulary has is known to whoever answers.
        now.params().check(usize::MAX)?;
        (self.now, self.changed) = (now, changed);
        Ok(())
    }

    /// Those that somebody gave or set, as JSON with the names of the HTTP API.
    pub(crate) fn chosen(&self) -> Map<String, Value> {
        let is_chosen = |field: &str| {
            self.is_given(field) || self.changed.contains_key(&field.replace('_', "-"))
        };
        self.all().into_iter().filter(|(field, _)| is_chosen(field)).collect()
    }

    /// All of them, as JSON with the names of the HTTP API.
    pub(crate) fn all(&self) -> Map<String, Value> {
        // By way of text: a float would get the digits of a double, 0.7 those of 0.699999988079071.
        let text = serde_json::to_string(&self.now).expect("flags have text for keys");
        serde_json::from_str(&text).expect("flags are an object")
    }

    /// Sets what [`Self::chosen`] gave, and nothing unless all of it can be set.
    pub(crate) fn restore(&mut self, fields: &Map<String, Value>) -> Result<()> {
        let mut changed = BTreeMap::new();
        for (field, value) in fields {
            let name = find(field)?;
            let values = texts(value).ok_or_else(|| {
                anyhow!("setting {field:?} is {value}: a number, a text, true or false is needed")
            })?;
            changed.insert(name, values);
        }
        self.change(changed)
    }
}

/// What a value of JSON would be on the command line; a list is several.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Bool(_) | Value::Number(_) => Some(vec![value.to_string()]),
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(values) => {
            let values = values.iter().map(|value| Some(value.as_str()?.to_owned()));
            values.collect()
        }
        Value::Object(biases) => {
            let biases = biases.iter().map(|(id, bias)| Some(format!("{id}={}", bias.as_f64()?)));
            biases.collect()
        }
        Value::Null => None,
    }
}

/// The names of all settings.
pub(crate) fn names() -> Vec<String> {
    command().get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
}

/// The flag that is meant by a name, which may be written as in the HTTP API.
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
    let meant = near::closest(&wanted, names.iter().map(String::as_str));
    let meant = meant.map_or_else(String::new, |name| format!(" (did you mean {name}?)"));
    bail!("no setting is called {name:?}{meant}: allowed are {}", names.join(", "))
}

/// The flags, without defaults and variables: what is not named stays as it is.
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
    fn a_setting_has_the_name_of_its_flag_or_of_the_api() {
        let mut settings = settings(&["--top-k", "7"], &["top_k", "model"]);
        for name in ["top-p", "top_p", "--top-p"] {
            set(&mut settings, name, "0.5").unwrap();
            assert_eq!((settings.sampling().top_p, settings.sampling().top_k), (0.5, 7));
            settings.reset(name).unwrap();
            assert_eq!(settings.sampling().top_p, 1.0);
        }
        set(&mut settings, "repeat-penalty", "1.5").unwrap();
        set(&mut settings, "ignore-eos", "on").unwrap();
        set(&mut settings, "presence-penalty", "-1").unwrap();
        let now = settings.sampling();
        assert_eq!((now.repetition_penalty, now.presence_penalty), (1.5, -1.0));
        assert!(now.ignore_eos && now.top_k == 7);
        set(&mut settings, "seed", "3").unwrap();
        settings.reset("seed").unwrap();
        assert_eq!(settings.sampling().seed, None);
        assert!(settings.sampling().ignore_eos, "others stay as they are");
    }

    #[test]
    fn what_cannot_be_set_is_told_and_changes_nothing() {
        let mut settings = settings(&[], &[]);
        for (name, value, words) in [
            ("temprature", "1", "did you mean temperature?"),
            ("colour", "1", "allowed are max-tokens, min-tokens, temperature"),
            ("temperature", "hot", "a number is needed"),
            ("temperature", "-1", "0 (greedy) to 100 is allowed"),
            ("top-p", "2", "at most 1"),
            ("min-tokens", "999", "--max-tokens, which is 256"),
            ("ignore-eos", "perhaps", "perhaps"),
        ] {
            let message = set(&mut settings, name, value).unwrap_err();
            assert!(message.contains(words), "{name}: {message}");
            assert!(!message.contains('\n'), "{message}");
        }
        assert!(settings.chosen().is_empty());
    }

    #[test]
    fn what_was_chosen_is_told_with_the_names_of_the_api_and_can_be_restored() {
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
