//! Positions that attention reads.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Positions that attention reads. All modes but `Dense` are approximations: they change results, never
/// by anything but the sequence's own tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AttentionMode {
    /// Every position that the mask allows.
    #[default]
    Dense,
    /// This many pages of each K/V head: those with the highest upper bound on the product of query and key,
    /// and the newest.
    TopK(usize),
    /// All pages but some that together hold at most this share of the softmax mass, by proof.
    Threshold(f32),
    /// As many pages of each K/V head as hold this share of the mass that the upper bounds allow.
    Dynamic(f32),
}

impl AttentionMode {
    /// Allowed numbers of pages of `topk`: the newest two and at least one other.
    pub const PAGES: RangeInclusive<usize> = 3..=1 << 20;
    /// Allowed shares of the softmax mass that `threshold` may skip.
    pub const SKIPPED: RangeInclusive<f32> = 1e-6..=0.5;
    /// Allowed shares of the bounds' mass that `dynamic` reads.
    pub const READ: RangeInclusive<f32> = 0.01..=1.0;

    /// Returns `true` if the mode selects pages by the bounds of their keys.
    pub fn selects_pages(self) -> bool {
        matches!(self, Self::TopK(_) | Self::Threshold(_) | Self::Dynamic(_))
    }
}

impl fmt::Display for AttentionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dense => f.pad("dense"),
            Self::TopK(pages) => write!(f, "topk={pages}"),
            Self::Threshold(share) => write!(f, "threshold={share}"),
            Self::Dynamic(share) => write!(f, "dynamic={share}"),
        }
    }
}

impl FromStr for AttentionMode {
    type Err = InvalidAttentionMode;

    fn from_str(text: &str) -> Result<Self, InvalidAttentionMode> {
        let (name, value) = text.split_once('=').map_or((text, None), |(k, v)| (k, Some(v)));
        let value = |example: &str| {
            value.ok_or_else(|| InvalidAttentionMode::NoValue {
                name: name.to_owned(),
                example: example.to_owned(),
            })
        };
        match name {
            "dense" if text == "dense" => Ok(Self::Dense),
            "topk" => Ok(Self::TopK(within(name, value("topk=64")?, Self::PAGES)?)),
            "threshold" => {
                Ok(Self::Threshold(within(name, value("threshold=0.01")?, Self::SKIPPED)?))
            }
            "dynamic" => Ok(Self::Dynamic(within(name, value("dynamic=0.9")?, Self::READ)?)),
            _ => Err(InvalidAttentionMode::Unknown(text.to_owned())),
        }
    }
}

fn within<T: FromStr + PartialOrd + fmt::Display>(
    name: &str,
    text: &str,
    range: RangeInclusive<T>,
) -> Result<T, InvalidAttentionMode> {
    match text.parse() {
        Ok(value) if range.contains(&value) => Ok(value),
        _ => Err(InvalidAttentionMode::OutOfRange {
            name: name.to_owned(),
            text: text.to_owned(),
            range: format!("{} to {}", range.start(), range.end()),
        }),
    }
}

/// Error for a string that is no [`AttentionMode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidAttentionMode {
    /// No mode has this name.
    Unknown(String),
    /// A mode that needs a value has none.
    NoValue {
        /// Name of the mode.
        name: String,
        /// The mode with a value.
        example: String,
    },
    /// A value is no number, or not within the range.
    OutOfRange {
        /// Name of the value.
        name: String,
        /// The value found.
        text: String,
        /// The allowed values.
        range: String,
    },
}

impl fmt::Display for InvalidAttentionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(text) => write!(
                f,
                "unknown attention mode {text:?}: must be dense, topk=K, threshold=E or \
                 dynamic=P"
            ),
            Self::NoValue { name, example } => {
                write!(f, "attention mode {name} needs a value, for example {example}")
            }
            Self::OutOfRange { name, text, range } => {
                write!(f, "{name} is {text:?}: must be a number from {range}")
            }
        }
    }
}

impl std::error::Error for InvalidAttentionMode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_parses_back() {
        for mode in [
            AttentionMode::Dense,
            AttentionMode::TopK(64),
            AttentionMode::Threshold(0.001),
            AttentionMode::Dynamic(0.95),
        ] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
    }

    #[test]
    fn errors_name_the_value_and_what_is_allowed() {
        let error = |text: &str| text.parse::<AttentionMode>().unwrap_err().to_string();
        assert_eq!(error("topk=2"), "topk is \"2\": must be a number from 3 to 1048576");
        assert_eq!(error("topk=all"), "topk is \"all\": must be a number from 3 to 1048576");
        assert_eq!(
            error("threshold=0.9"),
            "threshold is \"0.9\": must be a number from 0.000001 to 0.5"
        );
        assert_eq!(error("dynamic=NaN"), "dynamic is \"NaN\": must be a number from 0.01 to 1");
        assert_eq!(error("topk"), "attention mode topk needs a value, for example topk=64");
        for unknown in ["sparse", "dense=1", ""] {
            assert!(error(unknown).starts_with("unknown attention mode"), "{unknown}");
        }
    }
}
