//! Command-line flags of the sampling parameters.

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};

use super::{ParamSpec, SamplingOverrides, SamplingParams};

impl Args for SamplingOverrides {
    fn augment_args(command: Command) -> Command {
        command.args(SamplingParams::SPECS.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SamplingOverrides {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut overrides = Self::default();
        overrides.update_from_arg_matches(matches)?;
        Ok(overrides)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for spec in SamplingParams::SPECS {
            if let Some(&value) = matches.get_one(spec.name) {
                self.set(spec.name, value);
            }
        }
        Ok(())
    }
}

/// Returns the flag of a parameter: `min_p` becomes `--min-p` and the variable `WF_MIN_P`.
fn flag(spec: &'static ParamSpec) -> Arg {
    let dashed = |name: &str| name.replace('_', "-");
    Arg::new(spec.name)
        .long(dashed(spec.name))
        .visible_aliases(spec.aliases.iter().map(|alias| dashed(alias)))
        .env(format!("WF_{}", spec.name.to_uppercase()))
        .value_name(spec.value_name)
        .help(spec.help)
        .allow_negative_numbers(true)
        .value_parser(|text: &str| parse(spec, text))
}

fn parse(spec: &ParamSpec, text: &str) -> Result<f64, String> {
    let text = text.trim();
    let value = match spec.is_integer {
        true => text.parse::<i64>().map(|value| value as f64).map_err(|_| "a whole number"),
        false => text.parse::<f32>().map(f64::from).map_err(|_| "a number"),
    };
    let value = value.map_err(|kind| format!("must be {kind}"))?;
    if spec.range.contains(value) { Ok(value) } else { Err(format!("must be {}", spec.range)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<SamplingOverrides, String> {
        let command = SamplingOverrides::augment_args(Command::new("test").no_binary_name(true));
        let matches = command.try_get_matches_from(words).map_err(|error| error.to_string())?;
        SamplingOverrides::from_arg_matches(&matches).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_set_what_they_name() {
        let words = ["--min-p", "0.25", "--top-k=-1", "--repeat-penalty", "1.5"];
        let expected = SamplingOverrides {
            min_p: Some(0.25),
            top_k: Some(-1),
            repetition_penalty: Some(1.5),
            ..SamplingOverrides::default()
        };
        assert_eq!(parsed(&words), Ok(expected));
    }

    #[test]
    fn a_value_outside_its_range_is_an_error_that_names_the_range() {
        let error = parsed(&["--top-p", "2"]).unwrap_err();
        assert!(error.contains("must be greater than 0 and at most 1"), "{error}");
        assert!(parsed(&["--top-k", "1.5"]).unwrap_err().contains("must be a whole number"));
        assert!(parsed(&["--temperature", "NaN"]).unwrap_err().contains("between 0 and 100"));
    }
}
