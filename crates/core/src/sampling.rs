//! Sampling parameters: names, ranges, defaults and help texts, defined once.
//!
//! The table at the end of this file is the only place that knows a parameter. Everything else
//! derives from it: [`SamplingParams`] with its check, the optional fields of requests
//! ([`SamplingOverrides`], also their JSON schema and command-line flags), and the list that the
//! server publishes for clients ([`SamplingParams::SPECS`]).

#[cfg(feature = "clap")]
mod flags;
#[cfg(feature = "schema")]
mod schema;

use crate::TokenId;

/// Description of one sampling parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParamSpec {
    /// Name of the field in requests; the flag is the same with dashes.
    pub name: &'static str,
    /// One line of documentation, without a full stop.
    pub help: &'static str,
    /// Placeholder of the value on the command line.
    pub value_name: &'static str,
    /// Other names under which requests and flags may give it.
    pub aliases: &'static [&'static str],
    /// Value that leaves the distribution of the model unchanged; temperature is greedy.
    pub default: f64,
    /// Allowed values.
    pub range: ParamRange,
    /// Takes whole numbers only.
    pub is_integer: bool,
}

/// Range of a sampling parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParamRange {
    /// Lower bound.
    pub min: f64,
    /// Excludes the lower bound itself.
    pub excludes_min: bool,
    /// Upper bound, which is allowed.
    pub max: Option<f64>,
}

impl ParamRange {
    const fn between(min: f64, max: f64) -> Self {
        Self { min, excludes_min: false, max: Some(max) }
    }

    const fn above(min: f64, max: f64) -> Self {
        Self { min, excludes_min: true, max: Some(max) }
    }

    const fn at_least(min: f64) -> Self {
        Self { min, excludes_min: false, max: None }
    }

    /// Returns `true` if `value` is allowed. NaN never is.
    pub fn contains(&self, value: f64) -> bool {
        let above_min = if self.excludes_min { value > self.min } else { value >= self.min };
        above_min && self.max.is_none_or(|max| value <= max)
    }
}

impl std::fmt::Display for ParamRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { min, excludes_min, max } = *self;
        match max {
            Some(max) if excludes_min => write!(f, "greater than {min} and at most {max}"),
            Some(max) => write!(f, "between {min} and {max}"),
            None => write!(f, "at least {min}"),
        }
    }
}

/// Error for a sampling parameter outside its range.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingError {
    /// Name of the parameter.
    pub field: &'static str,
    message: String,
}

impl std::fmt::Display for SamplingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SamplingError {}

/// Range of one entry of `logit_bias`.
pub const LOGIT_BIAS_RANGE: ParamRange = ParamRange::between(-100.0, 100.0);

impl SamplingParams {
    /// Checks every parameter against its range, and the biased tokens against the vocabulary.
    pub fn check(&self, vocab_len: usize) -> Result<(), SamplingError> {
        for (spec, value) in Self::SPECS.iter().zip(self.values()) {
            check_value(spec.name, value, &spec.range)?;
        }
        for &(token, bias) in &self.logit_bias {
            check_value("logit_bias", f64::from(bias), &LOGIT_BIAS_RANGE)?;
            if token as usize >= vocab_len {
                let message = format!(
                    "logit_bias names token {token}: token ids of this model are 0 to {}",
                    vocab_len.saturating_sub(1)
                );
                return Err(SamplingError { field: "logit_bias", message });
            }
        }
        Ok(())
    }

    /// Returns `top_k` as a number of tokens; `None` if it is disabled.
    pub fn top_k_limit(&self) -> Option<usize> {
        usize::try_from(self.top_k).ok().filter(|&k| k > 0)
    }

    /// Returns `true` if logits depend on the tokens that came before.
    pub fn penalizes(&self) -> bool {
        let has_penalty = self.repetition_penalty != 1.0
            || self.presence_penalty != 0.0
            || self.frequency_penalty != 0.0;
        has_penalty && self.repeat_last_n != 0
    }

    /// Returns the number of last tokens that penalties consider; `None` for all.
    pub fn penalty_window(&self) -> Option<usize> {
        usize::try_from(self.repeat_last_n).ok()
    }
}

fn check_value(field: &'static str, value: f64, range: &ParamRange) -> Result<(), SamplingError> {
    if range.contains(value) {
        return Ok(());
    }
    // Parameters are single precision: a double would show digits that nobody wrote.
    let message = format!("{field} is {}: must be {range}", value as f32);
    Err(SamplingError { field, message })
}

/// Type of a sampling parameter.
trait ParamValue: Copy {
    const IS_INTEGER: bool;
    fn to_f64(self) -> f64;
    fn from_f64(value: f64) -> Self;
}

impl ParamValue for f32 {
    const IS_INTEGER: bool = false;
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    fn from_f64(value: f64) -> Self {
        value as Self
    }
}

impl ParamValue for i64 {
    const IS_INTEGER: bool = true;
    fn to_f64(self) -> f64 {
        self as f64
    }
    fn from_f64(value: f64) -> Self {
        value as Self
    }
}

macro_rules! sampling_params {
    ($(
        #[doc = $help:literal]
        $(#[serde(alias = $alias:literal)])?
        $name:ident: $type:ty = $default:literal, $range:expr, $value_name:literal;
    )+) => {
        /// Parameters that turn logits into a sampled token. The default is greedy.
        #[derive(Clone, Debug, PartialEq)]
        pub struct SamplingParams {
            $(#[doc = $help] pub $name: $type,)+
            /// Values added to the logits of tokens.
            pub logit_bias: Vec<(TokenId, f32)>,
            /// Seed of the random numbers: the same seed samples the same tokens.
            pub seed: u64,
            /// Index among several completions of one prompt; each has its own random numbers.
            pub choice: u32,
        }

        impl Default for SamplingParams {
            fn default() -> Self {
                Self { $($name: $default,)+ logit_bias: Vec::new(), seed: 0, choice: 0 }
            }
        }

        impl SamplingParams {
            /// All parameters that are numbers, in the order to present them.
            pub const SPECS: &'static [ParamSpec] = &[$(ParamSpec {
                name: stringify!($name),
                help: $help.trim_ascii(),
                value_name: $value_name,
                aliases: &[$($alias)?],
                default: $default as f64,
                range: $range,
                is_integer: <$type>::IS_INTEGER,
            },)+];

            /// Returns the values of [`Self::SPECS`], in the same order.
            pub fn values(&self) -> impl Iterator<Item = f64> {
                [$(self.$name.to_f64(),)+].into_iter()
            }

            /// Returns these parameters with those of `overrides` that are set.
            #[must_use]
            pub fn with(mut self, overrides: &SamplingOverrides) -> Self {
                $(if let Some(value) = overrides.$name { self.$name = value; })+
                self
            }
        }

        /// Sampling parameters of a request or a command line: those that were given.
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct SamplingOverrides {
            $(
                #[doc = $help]
                #[serde($(alias = $alias,)? skip_serializing_if = "Option::is_none")]
                pub $name: Option<$type>,
            )+
        }

        impl SamplingOverrides {
            /// Sets the parameter called `name`.
            ///
            /// # Panics
            ///
            /// If [`SamplingParams::SPECS`] has no such parameter.
            pub fn set(&mut self, name: &str, value: f64) {
                match name {
                    $(stringify!($name) => self.$name = Some(<$type>::from_f64(value)),)+
                    _ => panic!("no sampling parameter is called {name}"),
                }
            }

            /// Returns these parameters, and those of `other` where they are not set.
            #[must_use]
            pub fn or(self, other: &Self) -> Self {
                Self { $($name: self.$name.or(other.$name),)+ }
            }
        }

        impl From<&SamplingParams> for SamplingOverrides {
            fn from(params: &SamplingParams) -> Self {
                Self { $($name: Some(params.$name),)+ }
            }
        }
    };
}

sampling_params! {
    /// Softmax temperature: 0 always selects the most likely token, higher values vary more
    temperature: f32 = 0.0, ParamRange::between(0.0, 100.0), "T";
    /// Sample from the K most likely tokens only; 0 and -1 disable the limit
    top_k: i64 = 0, ParamRange::at_least(-1.0), "K";
    /// Sample from the most likely tokens whose probabilities add up to P; 1 disables it
    top_p: f32 = 1.0, ParamRange::above(0.0, 1.0), "P";
    /// Drop tokens less likely than P times the most likely one; 0 disables it
    min_p: f32 = 0.0, ParamRange::between(0.0, 1.0), "P";
    /// Divide the logits of tokens in the prompt or completion by X; 1 disables it
    #[serde(alias = "repeat_penalty")]
    repetition_penalty: f32 = 1.0, ParamRange::above(0.0, 10.0), "X";
    /// Subtract X from the logits of tokens in the completion; 0 disables it
    presence_penalty: f32 = 0.0, ParamRange::between(-2.0, 2.0), "X";
    /// Subtract X from the logit of a token for each time it is in the completion; 0 disables it
    frequency_penalty: f32 = 0.0, ParamRange::between(-2.0, 2.0), "X";
    /// Apply penalties to the last N tokens of prompt and completion only; -1 means all, 0 none
    repeat_last_n: i64 = -1, ParamRange::at_least(-1.0), "N";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_their_ranges_and_sample_greedily() {
        let params = SamplingParams::default();
        assert_eq!(params.check(0), Ok(()));
        assert_eq!(params.temperature, 0.0);
        let defaults: Vec<f64> = SamplingParams::SPECS.iter().map(|spec| spec.default).collect();
        assert_eq!(params.values().collect::<Vec<_>>(), defaults);
    }

    #[test]
    fn a_value_outside_its_range_is_an_error_that_names_field_value_and_range() {
        let message = |change: fn(&mut SamplingParams)| {
            let mut params = SamplingParams::default();
            change(&mut params);
            params.check(10).unwrap_err().to_string()
        };
        assert_eq!(
            message(|p| p.temperature = 200.0),
            "temperature is 200: must be between 0 and 100"
        );
        let top_p = "top_p is 0: must be greater than 0 and at most 1";
        assert_eq!(message(|p| p.top_p = 0.0), top_p);
        assert_eq!(message(|p| p.top_k = -2), "top_k is -2: must be at least -1");
        assert_eq!(message(|p| p.min_p = f32::NAN), "min_p is NaN: must be between 0 and 1");
        let bias = "logit_bias is 101: must be between -100 and 100";
        assert_eq!(message(|p| p.logit_bias = vec![(3, 101.0)]), bias);
        let token = "logit_bias names token 10: token ids of this model are 0 to 9";
        assert_eq!(message(|p| p.logit_bias = vec![(10, 1.0)]), token);
    }

    #[test]
    fn overrides_replace_only_what_they_set() {
        let overrides = SamplingOverrides { top_k: Some(7), ..SamplingOverrides::default() };
        let params = SamplingParams { min_p: 0.5, ..SamplingParams::default() }.with(&overrides);
        assert_eq!((params.top_k, params.min_p), (7, 0.5));
        let other = SamplingOverrides { top_k: Some(1), top_p: Some(0.5), ..overrides.clone() };
        let both = overrides.or(&other);
        assert_eq!((both.top_k, both.top_p), (Some(7), Some(0.5)));
    }
}
